/**
 * How long a kind is known after its last failure, because its last user may have a new digest since. When it is forgotten, the
 * next failure of that kind is not hidden: one e-mail of a slower kind than others shows in this time.
 */
const KNOWN_MS = 3_600_000

/** How far one verification changes what is known of the load of the machine. */
const LOAD_STEP = 0.1

/** One verification that took longer than this, relative to the shortest, was held up by something else. */
const MAX_LOAD = 4

/**
 * Tells how long the answers to failed verifications must wait, so that their times do not tell the kinds of digests: an
 * imported digest may take a hundred times as long as one of this service, or a hundredth.
 *
 * A verification takes longer on a busy machine, and the slowest kind is rarely seen. So its shortest time is known, and the
 * load is learned from all kinds: how much longer than their shortest times the last verifications took.
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
