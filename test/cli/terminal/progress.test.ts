import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { createProgress } from '../../../src/cli/terminal/run-task.ts'

function openProgress() {
  let nowMs = 1000
  const stderr = new PassThrough({ encoding: 'utf8' })
  const progress = createProgress({ stderr }, { unit: 'rows', monotonicNow: () => nowMs })
  return {
    progress,
    written: () => stderr.read() as string | null,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

test('progress is a line every five seconds', () => {
  const { progress, written, pass } = openProgress()
  pass(4999)
  progress(10)
  pass(1)
  progress(20, 0.01)
  progress(30, 0.02)
  expect(written()).toBe('1 %, 20 rows, 4 rows/s, 8 min 15 s left\n')
})

test.each([
  [undefined, '10 rows, 0 rows/s'],
  [0.005, '0 %, 10 rows, 0 rows/s, 1 h 59 min left'],
])('progress with the share %s is %j', (share, line) => {
  const { progress, written, pass } = openProgress()
  pass(36_000)
  progress(10, share)
  expect(written()).toBe(`${line}\n`)
})

test('progress of a resumed task counts only what this run did as its work', () => {
  const { progress, written, pass } = openProgress()
  pass(10_000)
  progress(100, 0.5, 900)
  // 1,000 of 2,000 are done, and this run does ten a second.
  expect(written()).toBe('50 %, 100 rows, 10 rows/s, 1 min 40 s left\n')
})
