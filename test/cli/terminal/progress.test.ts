import { expect, test } from 'vitest'
import { createProgress } from '../../../src/cli/terminal/progress.ts'

function openProgress({ isTTY }: { isTTY: boolean }) {
  let nowMs = 1000
  let written = ''
  const stream = {
    isTTY,
    write: (text: string | Uint8Array) => {
      written += text
      return true
    },
  }
  const progress = createProgress({ stderr: stream }, { unit: 'rows', monotonicNow: () => nowMs })
  return {
    progress,
    written: () => written,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

test('progress on a terminal is a bar with share, rate and time left, drawn ten times a second at most', () => {
  const { progress, written, pass } = openProgress({ isTTY: true })
  pass(50)
  progress.update(100, 0.01)
  expect(written()).toBe('')
  pass(1950)
  progress.update(2_500_000, 0.25)
  expect(written()).toBe(
    '\r\x1b[2K[######------------------] 25 %, 2,500,000 rows, 1,250,000 rows/s, 6 s left',
  )
  pass(99)
  progress.update(2_600_000, 0.26)
  expect(written().split('\r')).toHaveLength(2)
  progress.end()
  expect(written().endsWith('left\r\x1b[2K')).toBe(true)
})

test('progress elsewhere is a plain line every five seconds', () => {
  const { progress, written, pass } = openProgress({ isTTY: false })
  pass(4999)
  progress.update(10)
  pass(1)
  progress.update(20, 0.01)
  progress.update(30, 0.02)
  progress.end()
  expect(written()).toBe('1 %, 20 rows, 4 rows/s, 8 min 15 s left\n')
})

test.each([
  [undefined, '10 rows, 0 rows/s'],
  [0.005, '0 %, 10 rows, 0 rows/s, 1 h 59 min left'],
])('progress with the share %s is %j', (share, line) => {
  const { progress, written, pass } = openProgress({ isTTY: false })
  pass(36_000)
  progress.update(10, share)
  expect(written()).toBe(`${line}\n`)
})
