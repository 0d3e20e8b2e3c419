import { onTestFinished, vi } from 'vitest'

/** Replaces `performance.now` until the end of the test. It stands still until the test moves it. */
export function fakePerformanceClock() {
  let nowMs = 0
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  onTestFinished(() => spy.mockRestore())
  return {
    advance: (byMs: number) => {
      nowMs += byMs
    },
  }
}
