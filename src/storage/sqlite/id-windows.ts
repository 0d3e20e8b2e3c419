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

/** So many ids that two words of nearly all users, but of no user together, are compared in about 2 ms. */
const FIRST_IDS = 16_384

/** How long reading a range should take at most. */
const RANGE_MS = 1

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
  let ids = isOne ? Number.POSITIVE_INFINITY : FIRST_IDS
  return {
    isAtEnd: () => (descending ? at <= end : at >= end),
    next: read => {
      const to = descending ? Math.max(end, at - ids) : Math.min(end, at + ids)
      const startedAt = performance.now()
      const last = read({ from: at, to })
      // Ids may be far apart after an import, so empty ranges grow fast.
      ids = performance.now() - startedAt > RANGE_MS ? Math.max(1, Math.floor(ids / 2)) : ids * 2
      at = last ?? to
    },
  }
}
