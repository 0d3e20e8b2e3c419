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
  return { clock, countOf: async (key: string) => (await store.increment(key, 1000)).count, store }
}

test('createMemoryCounterStore gives up the window that began first when a key is too many', async () => {
  const { countOf } = openStore(3)
  for (const key of ['a', 'b', 'c']) await countOf(key)
  expect(await countOf('a')).toBe(2)
  await countOf('d')
  expect(await countOf('c')).toBe(2)
  expect(await countOf('b')).toBe(2)
  expect(await countOf('d')).toBe(2)
  expect(await countOf('a')).toBe(1)
})

test('createMemoryCounterStore takes a window that began anew for a young one', async () => {
  const { clock, countOf } = openStore(3)
  for (const key of ['a', 'b', 'c']) await countOf(key)
  clock.advance(1000)
  expect(await countOf('a')).toBe(1)
  await countOf('d')
  await countOf('e')
  expect(await countOf('a')).toBe(2)
})

test('createMemoryCounterStore gives up nothing for a key that it knows', async () => {
  const { clock, countOf } = openStore(2)
  await countOf('a')
  await countOf('b')
  clock.advance(1000)
  expect(await countOf('b')).toBe(1)
  clock.advance(-1)
  expect(await countOf('a')).toBe(2)
})

test('createMemoryCounterStore has room again for each key that was reset', async () => {
  const { countOf, store } = openStore(2)
  await countOf('a')
  await countOf('b')
  await store.reset('b')
  await countOf('c')
  expect(await countOf('a')).toBe(2)
})

test('createMemoryCounterStore keeps fifty thousand keys and no more unless it is told', async () => {
  const { countOf } = openStore()
  for (let index = 0; index <= 50_000; index++) await countOf(`key ${index}`)
  expect(await countOf('key 1')).toBe(2)
  expect(await countOf('key 50000')).toBe(2)
  expect(await countOf('key 0')).toBe(1)
})
