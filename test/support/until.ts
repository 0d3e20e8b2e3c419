import { setTimeout as sleep } from 'node:timers/promises'

// Not `vi.waitUntil`, because what starts servers before all tests waits too, and runs outside of them.

/** Less than the time limit of a test, so that a failure shows the line that waited. */
const PATIENCE_MS = 120_000

/** Calls `look` until it returns something, and returns that. */
export async function until<T>(
  look: () => T | Promise<T>,
  intervalMs = 10,
): Promise<Exclude<T, undefined | false | null | 0 | ''>> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const found = await look()
    if (found) return found as Exclude<T, undefined | false | null | 0 | ''>
    if (performance.now() > deadline) throw new Error('waited in vain')
    await sleep(intervalMs)
  }
}

/** Calls `attempt` until it no longer throws. */
export async function untilPasses<T>(
  attempt: () => T | PromiseLike<T>,
  intervalMs = 10,
): Promise<Awaited<T>> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (performance.now() > deadline) throw error
    }
    await sleep(intervalMs)
  }
}
