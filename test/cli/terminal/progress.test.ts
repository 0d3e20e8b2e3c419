import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createProgress } from '../../../src/cli/terminal/run-task.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

function openProgress() {
  const stderr = new PassThrough({ encoding: 'utf8' })
  const progress = createProgress({ stderr }, 'rows')
  return { progress, written: () => stderr.read() as string | null }
}

test('progress is a line every five seconds', () => {
  const { progress, written } = openProgress()
  vi.advanceTimersByTime(4999)
  progress(10)
  vi.advanceTimersByTime(1)
  progress(20, 0.01)
  progress(30, 0.02)
  expect(written()).toBe('1 %, 20 rows, 4 rows/s, 8 min 15 s left\n')
})

test.each([
  [36_000, [10], '10 rows, 0 rows/s'],
  [36_000, [10, 0.005], '0 %, 10 rows, 0 rows/s, 1 h 59 min left'],
  // 1,000 of 2,000 are done, and this run, which did 100 of them, does ten a second.
  [10_000, [100, 0.5, 900], '50 %, 100 rows, 10 rows/s, 1 min 40 s left'],
] as const)('after %i ms progress of %j is %j', (ms, [done, share, earlier], line) => {
  const { progress, written } = openProgress()
  vi.advanceTimersByTime(ms)
  progress(done, share, earlier)
  expect(written()).toBe(`${line}\n`)
})
