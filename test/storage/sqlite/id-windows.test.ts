import { expect, test } from 'vitest'
import { createIdWindows, type IdRange } from '../../../src/storage/sqlite/id-windows.ts'

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

function takeTwoMilliseconds(): undefined {
  const startedAt = performance.now()
  while (performance.now() - startedAt < 2);
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

test('ranges do not become so small that a slow machine never comes to their end', () => {
  const ranges = readAll(takeTwoMilliseconds)
  expect(ranges.length).toBeLessThanOrEqual(Math.ceil(END / 16_384))
})

test('ranges grow while that hardly makes them slower', () => {
  const ranges = readAll(takeTwoMilliseconds)
  expect(ranges.length).toBeLessThan(Math.ceil(END / 16_384) / 2)
})

test('ranges do not grow while each is read up to some id only', () => {
  let reads = 0
  const sizes = readAll(({ from }) => (++reads < 50 ? from + 1 : undefined)).map(
    ({ from, to }) => to - from,
  )
  expect(sizes.slice(0, 50)).toEqual(Array(50).fill(16_384))
})
