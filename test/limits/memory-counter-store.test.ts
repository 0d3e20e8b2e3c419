import { describe, expect, test } from 'vitest'
import { createMemoryCounterStore } from '../../src/limits/memory-counter-store.ts'
import { describeCounterStore } from '../contracts/counter-store-contract.ts'
import { createFakeClock } from '../support/fake-clock.ts'

describeCounterStore({
  name: 'memory',
  open: monotonicNow => createMemoryCounterStore({ monotonicNow }),
})

function openStore(options: { readonly maxKeys?: number } = {}) {
  const { now, advance } = createFakeClock()
  const store = createMemoryCounterStore({ monotonicNow: now, ...options })
  const keyOf = (key: string) => ({ type: 'throttle', rule: 'posts', key }) as const
  return {
    advance,
    /** The counts of these keys, one after the other. */
    countsOf: async (...keys: string[]) => {
      const counts: number[] = []
      for (const key of keys) counts.push((await store.increment(keyOf(key), 1000)).count)
      return counts
    },
    reset: (key: string) => store.reset(keyOf(key)),
  }
}

describe('createMemoryCounterStore', () => {
  test('drops the window that began first when there are too many keys', async () => {
    const { countsOf } = openStore({ maxKeys: 3 })
    expect(await countsOf('a', 'b', 'c', 'a', 'd')).toEqual([1, 1, 1, 2, 1])
    expect(await countsOf('c', 'b', 'd', 'a')).toEqual([2, 2, 2, 1])
  })

  test('treats a restarted window as new', async () => {
    const { advance, countsOf } = openStore({ maxKeys: 3 })
    await countsOf('a', 'b', 'c')
    advance(1000)
    expect(await countsOf('a', 'd', 'e', 'a')).toEqual([1, 1, 1, 2])
  })

  test('drops nothing for a known key', async () => {
    const { advance, countsOf } = openStore({ maxKeys: 2 })
    await countsOf('a', 'b')
    advance(1000)
    expect(await countsOf('b')).toEqual([1])
    advance(-1)
    expect(await countsOf('a')).toEqual([2])
  })

  test('reuses the place of each key that was reset', async () => {
    const { countsOf, reset } = openStore({ maxKeys: 2 })
    await countsOf('a', 'b')
    await reset('b')
    expect(await countsOf('c', 'a')).toEqual([1, 2])
  })

  test('keeps fifty thousand keys by default', async () => {
    const { countsOf } = openStore()
    await countsOf(...Array.from({ length: 50_001 }, (_, index) => `key ${index}`))
    expect(await countsOf('key 1', 'key 50000', 'key 0')).toEqual([2, 2, 1])
  })

  test('never ends a window later than its length, whatever the time', async () => {
    const key = { type: 'throttle', rule: 'a', key: 'b' } as const
    for (let step = 0; step < 1000; step++) {
      const store = createMemoryCounterStore({ monotonicNow: () => 12_345.678 + step * 7.1 })
      expect((await store.increment(key, 60_000)).resetsInMs).toBe(60_000)
    }
  })
})
