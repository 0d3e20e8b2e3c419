import { setTimeout as sleep } from 'node:timers/promises'
import { TestRunner } from 'vitest'

/** Calls `look` until it returns something, and returns that. Ends with the test, and then prints who waited. */
export async function until<T>(
  look: () => T | Promise<T>,
  intervalMs = 10,
): Promise<Exclude<T, undefined | false | null | 0 | ''>> {
  const giveUp = createEnd()
  for (;;) {
    const found = await look()
    if (found) return found as Exclude<T, undefined | false | null | 0 | ''>
    giveUp()
    await sleep(intervalMs)
  }
}

/** Calls `attempt` until it no longer throws. Ends with the test, and then prints who waited. */
export async function untilPasses<T>(
  attempt: () => T | PromiseLike<T>,
  intervalMs = 10,
): Promise<Awaited<T>> {
  const giveUp = createEnd()
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      giveUp(error)
    }
    await sleep(intervalMs)
  }
}

/** Throws once the test is over, which is when its time limit is reached. What runs outside of a test waits without end. */
function createEnd(): (cause?: unknown) => void {
  const signal = TestRunner.getCurrentTest()?.context.signal
  const inVain = new Error('waited in vain')
  return cause => {
    if (!signal?.aborted) return
    console.error(inVain.stack, cause ?? '')
    throw inVain
  }
}
