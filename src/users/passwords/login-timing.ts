/** A verification that failed. */
export interface FailedVerification {
  /** The kind of its digest: those of one kind take the same time. */
  readonly kind: string
  readonly tookMs: number
  /** How many times the digest was computed. */
  readonly runs: number
}

/** Tells how long the answers to failed verifications must wait, so that their times do not tell the kinds of digests. */
export interface EvenTimes {
  /**
   * Milliseconds that the answer must wait, so that it takes as long as one of the slowest kind so far. Negative if it took
   * longer.
   */
  restOf(failure: FailedVerification): number
}

/** More kinds than any database has. */
const MAX_KINDS = 200

/** How far one verification changes what is known of the load of the machine. */
const LOAD_STEP = 0.1

/** One verification that took longer than this, relative to the shortest, was held up by something else. */
const MAX_LOAD = 4

/**
 * An imported digest may take a hundred times as long as one of this service, or a hundredth. Without a wait, the time would
 * tell that its e-mail belongs to a user.
 *
 * A verification takes longer on a busy machine, and the slowest kind is rarely seen. So its shortest time is known, and the
 * load is learned from all kinds: how much longer than their shortest times the last verifications took.
 */
export function createEvenTimes(): EvenTimes {
  const shortestMs = new Map<string, number>()
  let load = 1

  function note(kind: string, ms: number): void {
    const shortest = shortestMs.get(kind)
    if (shortest === undefined && shortestMs.size >= MAX_KINDS) return
    shortestMs.set(kind, Math.min(shortest ?? ms, ms))
    if (shortest !== undefined && shortest > 0) {
      load += LOAD_STEP * (Math.min(Math.max(ms / shortest, 1), MAX_LOAD) - load)
    }
  }

  return {
    restOf: ({ kind, tookMs, runs }) => {
      note(kind, tookMs / runs)
      return Math.max(0, ...shortestMs.values()) * load * runs - tookMs
    },
  }
}
