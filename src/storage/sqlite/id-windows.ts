export interface IdRange {
  /** Exclusive. */
  readonly from: number
  /** Inclusive; the smaller end of a descending range. */
  readonly to: number
}

/** Ranges of ids, one after another, that are read up to their end or up to some id within. */
export interface IdWindows {
  isAtEnd(): boolean
  /** `read` returns the last id that it has read, or undefined if it has read the whole range. */
  next(read: (range: IdRange) => number | undefined): void
}

/**
 * So many ids that two words of nearly all users, but of no user together, are compared in about 2 ms. Fewer would save little:
 * with many users, or on a busy machine, it takes longer to find the beginning of a range than to read it.
 */
const LEAST_IDS = 16_384

/** A range that takes no longer is followed by a larger one. */
const RANGE_MS = 1

/**
 * So is one that takes less than this many times the time of the one before: with many users, finding the beginning of a range
 * takes milliseconds, and then it may as well be a long one.
 */
const WORTH_IT = 1.5

export interface IdWindowsOptions {
  readonly descending: boolean
  /** Where to begin: beyond this id. */
  readonly from: number
  /** The last id of all, in the direction. */
  readonly end: number
  /** Whether all ids are one range, because reading never passes over many without finding some. */
  readonly isOne: boolean
}

export function createIdWindows({ descending, from, end, isOne }: IdWindowsOptions): IdWindows {
  let at = from
  let lastMs = Number.POSITIVE_INFINITY
  let ids = isOne ? Number.POSITIVE_INFINITY : LEAST_IDS
  return {
    isAtEnd: () => (descending ? at <= end : at >= end),
    next: read => {
      const to = descending ? Math.max(end, at - ids) : Math.min(end, at + ids)
      const startedAt = performance.now()
      const last = read({ from: at, to })
      at = last ?? to
      // What took no time because it ended early tells nothing about a whole range.
      if (last !== undefined) return
      const ms = performance.now() - startedAt
      // Ids may be far apart after an import, so empty ranges grow fast.
      ids = ms <= RANGE_MS || ms < lastMs * WORTH_IT ? ids * 2 : Math.max(LEAST_IDS, ids / 2)
      lastMs = ms
    },
  }
}
