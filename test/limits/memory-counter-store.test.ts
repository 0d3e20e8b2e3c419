import { expect, test } from 'vitest'
import { createMemoryCounterStore } from '../../src/limits/memory-counter-store.ts'
import { describeCounterStore } from '../contracts/counter-store-contract.ts'
import { createFakeClock } from '../support/fake-clock.ts'

describeCounterStore({
  name: 'memory',
  open: monotonicNow => createMemoryCounterStore({ monotonicNow }),
})

function openStore(maxKeys?: number) {
  const clock = createFakeClock()
  const store = createMemoryCounterStore({
    monotonicNow: clock.now,
    ...(maxKeys !== undefined && { maxKeys }),
  })
  const keyOf = (key: string) => ({ type: 'throttle', rule: 'posts', key }) as const
  return {
    clock,
    countOf: async (key: string) => (await store.increment(keyOf(key), 1000)).count,
    reset: (key: string) => store.reset(keyOf(key)),
  }
}

test('createMemoryCounterStore drops the window that began first when there are too many keys', async () => {
  const { countOf } = openStore(3)
  for (const key of ['a', 'b', 'c']) await countOf(key)
  expect(await countOf('a')).toBe(2)
  await countOf('d')
  expect(await countOf('c')).toBe(2)
  expect(await countOf('b')).toBe(2)
  expect(await countOf('d')).toBe(2)
  expect(await countOf('a')).toBe(1)
})

test('createMemoryCounterStore treats a restarted window as new', async () => {
  const { clock, countOf } = openStore(3)
  for (const key of ['a', 'b', 'c']) await countOf(key)
  clock.advance(1000)
  expect(await countOf('a')).toBe(1)
  await countOf('d')
  await countOf('e')
  expect(await countOf('a')).toBe(2)
})

test('createMemoryCounterStore drops nothing for a known key', async () => {
  const { clock, countOf } = openStore(2)
  await countOf('a')
  await countOf('b')
  clock.advance(1000)
  expect(await countOf('b')).toBe(1)
  clock.advance(-1)
  expect(await countOf('a')).toBe(2)
})

test('createMemoryCounterStore reuses the place of each key that was reset', async () => {
  const { countOf, reset } = openStore(2)
  await countOf('a')
  await countOf('b')
  await reset('b')
  await countOf('c')
  expect(await countOf('a')).toBe(2)
})

test('createMemoryCounterStore keeps fifty thousand keys by default', async () => {
  const { countOf } = openStore()
  for (let index = 0; index <= 50_000; index++) await countOf(`key ${index}`)
  expect(await countOf('key 1')).toBe(2)
  expect(await countOf('key 50000')).toBe(2)
  expect(await countOf('key 0')).toBe(1)
})

test('createMemoryCounterStore never ends a window later than its length, whatever the time', async () => {
  for (let step = 0; step < 1000; step++) {
    const store = createMemoryCounterStore({ monotonicNow: () => 12_345.678 + step * 7.1 })
    const key = { type: 'throttle', rule: 'a', key: 'b' } as const
    const { resetsInMs } = await store.increment(key, 60_000)
    expect(resetsInMs).toBe(60_000)
  }
})
