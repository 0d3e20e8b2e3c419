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
  /** Milliseconds that the answer must wait, so that it takes as long as one of the slowest kind so far. Negative if it took longer. */
  restOf(failure: FailedVerification): number
}

/** More kinds than any database has. */
const MAX_KINDS = 200

/**
 * An imported digest may take a hundred times as long as one of this service, or a hundredth. Without a wait, the time would
 * tell that its e-mail belongs to a user.
 *
 * Of each kind the shortest time counts: the others were longer because the machine was busy.
 */
export function createEvenTimes(): EvenTimes {
  const shortestMs = new Map<string, number>()
  return {
    restOf: ({ kind, tookMs, runs }) => {
      const known = shortestMs.get(kind) ?? Number.POSITIVE_INFINITY
      if (shortestMs.has(kind) || shortestMs.size < MAX_KINDS) {
        shortestMs.set(kind, Math.min(known, tookMs / runs))
      }
      return Math.max(0, ...shortestMs.values()) * runs - tookMs
    },
  }
}
