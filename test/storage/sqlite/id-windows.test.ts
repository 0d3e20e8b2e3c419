import { expect, test } from 'vitest'
import { createIdWindows, type IdRange } from '../../../src/storage/sqlite/id-windows.ts'
import { fakePerformanceClock } from '../../support/fake-performance-clock.ts'

const END = 1_000_000

function readAll(read: (range: IdRange) => number | undefined, descending = false): IdRange[] {
  const [from, end] = descending ? [END + 1, 1] : [0, END]
  const windows = createIdWindows({ descending, from, end, isOne: false })
  const ranges: IdRange[] = []
  while (!windows.isAtEnd()) {
    windows.next(range => {
      ranges.push(range)
      return read(range)
    })
  }
  return ranges
}

test.each([false, true])(
  'ranges follow each other up to the last id, descending: %s',
  descending => {
    const ranges = readAll(() => undefined, descending)
    const [first, last] = descending ? [END + 1, 1] : [0, END]
    expect(ranges[0]?.from).toBe(first)
    expect(ranges.at(-1)?.to).toBe(last)
    expect(ranges.slice(1).map(({ from }) => from)).toEqual(ranges.slice(0, -1).map(({ to }) => to))
  },
)

test('a range that was read up to some id is followed by one from there', () => {
  const ranges = readAll(({ from, to }) => (from === 0 ? 77 : to))
  expect(ranges[1]?.from).toBe(77)
})

test('ranges grow while that hardly makes them slower, so that a slow machine comes to their end', () => {
  const clock = fakePerformanceClock()
  const ranges = readAll(() => {
    clock.advance(2)
    return undefined
  })
  expect(ranges.length).toBeLessThan(Math.ceil(END / 16_384) / 2)
})

test('ranges do not grow while each is read up to some id only', () => {
  let reads = 0
  const sizes = readAll(({ from }) => (++reads < 50 ? from + 1 : undefined)).map(
    ({ from, to }) => to - from,
  )
  expect(sizes.slice(0, 50)).toEqual(Array(50).fill(16_384))
})
