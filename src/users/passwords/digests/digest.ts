import { nextTurn } from '../../../platform/timers.ts'

/** A stored password, as its system made it. */
export interface Digest {
  /** The canonical form: it begins with `$`, and is the same for all spellings of one digest. */
  readonly text: string
  /** Digests of one kind take the same time to verify. */
  readonly kind: string
  /** Whether a verification takes at most `MAX_MEMORY_KIB` and a few seconds. */
  readonly isAffordable: boolean
  /** Whether it is at least as hard to guess as a new digest of this service. */
  readonly isCurrent?: boolean
  /** A password of fewer bytes is judged as a whole. Undefined: every password. */
  readonly judgedBytes?: number
  /** Whether the system that made the digest lets this password in. */
  verify(password: string): Promise<boolean>
}

/**
 * Memory that one verification may take. Several run at once, so without a limit an imported
 * digest could take all memory of the machine.
 */
export const MAX_MEMORY_KIB = 256 * 1024

/** They take about a millisecond. */
const ROUNDS_AT_ONCE = 400

/** Does fast rounds on the event loop, in slices between which it answers requests. */
export async function runRounds(count: number, round: (index: number) => void): Promise<void> {
  for (let start = 0; start < count; start += ROUNDS_AT_ONCE) {
    const end = Math.min(start + ROUNDS_AT_ONCE, count)
    for (let index = start; index < end; index++) round(index)
    await nextTurn()
  }
}
