/**
 * How long a kind is kept after its last failure. Its last user may have a new digest by then. The first failure of a
 * kind that was forgotten is not hidden, so once in this time one e-mail with a slower kind can be recognised.
 */
const KNOWN_MS = 3_600_000

/** How much one verification changes the estimate of the machine's load. */
const LOAD_STEP = 0.1

/** The largest load that one verification can show. If it took longer, something else delayed it. */
const MAX_LOAD = 4

/**
 * Tells how long the answers to failed verifications must wait, so that their times do not tell the kinds of digests: an
 * imported digest may take a hundred times as long as one of this service, or a hundredth.
 *
 * A verification takes longer on a busy machine, and the slowest kind is rarely seen. So each kind has its shortest time,
 * and all kinds share the load: how many times their shortest time the last verifications took.
 *
 * `now` is in milliseconds since any moment.
 */
export function createLoginTiming(now: () => number) {
  const kinds = new Map<string, { readonly shortestMs: number; readonly seenAt: number }>()
  let load = 1

  return {
    /**
     * Milliseconds to wait, so that the answer takes as long as one of the slowest known kind. May be negative. Digests of one
     * kind take the same time; `runs` says how many times the digest was computed.
     */
    restOf: ({ kind, tookMs, runs }: { kind: string; tookMs: number; runs: number }): number => {
      const ms = tookMs / runs
      const seenAt = now()
      for (const [name, last] of kinds) if (seenAt - last.seenAt > KNOWN_MS) kinds.delete(name)
      const shortest = kinds.get(kind)?.shortestMs ?? 0
      if (shortest > 0) load += LOAD_STEP * (Math.min(Math.max(ms / shortest, 1), MAX_LOAD) - load)
      kinds.set(kind, { shortestMs: Math.min(shortest || ms, ms), seenAt })
      const slowest = Math.max(...[...kinds.values()].map(known => known.shortestMs))
      return slowest * load * runs - tookMs
    },
  }
}
