import { nextTurn } from '../../../timers.ts'

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
