import { describe, expect, test } from 'vitest'
import type { CounterKey, CounterStore } from '../../src/limits/counter-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'

export interface CounterStoreHarness {
  readonly name: string
  /** An empty store whose windows use the clock `monotonicNow`, in milliseconds. */
  open(monotonicNow: () => number): CounterStore
}

/** The counter key of a client. The rule is always the same. */
function keyOf(key: string): CounterKey {
  return { type: 'throttle', rule: 'posts', key }
}

/** The tests that every `CounterStore` must pass. */
export function describeCounterStore({ name, open }: CounterStoreHarness): void {
  function opened() {
    const clock = createFakeClock()
    return { clock, store: open(clock.now) }
  }

  describe(`CounterStore: ${name}`, () => {
    test('increment counts a key from one, and returns when its window ends', async () => {
      const { clock, store } = opened()
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 1, resetsInMs: 1000 })
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 2, resetsInMs: 1000 })
      clock.advance(400)
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 3, resetsInMs: 600 })
    })

    test('a window ends exactly on time, and the next one begins with the next count', async () => {
      const { clock, store } = opened()
      await store.increment(keyOf('a'), 1000)
      clock.advance(999)
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 2, resetsInMs: 1 })
      clock.advance(1)
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 1, resetsInMs: 1000 })
      clock.advance(2500)
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 1, resetsInMs: 1000 })
    })

    test('an open window keeps its end when the length changes', async () => {
      const { clock, store } = opened()
      await store.increment(keyOf('a'), 1000)
      clock.advance(100)
      expect(await store.increment(keyOf('a'), 60_000)).toEqual({ count: 2, resetsInMs: 900 })
      expect(await store.increment(keyOf('a'), 1)).toEqual({ count: 3, resetsInMs: 900 })
      clock.advance(900)
      expect(await store.increment(keyOf('a'), 60_000)).toEqual({ count: 1, resetsInMs: 60_000 })
    })

    test.each(['', '__proto__', 'constructor', 'a\nb', '\0', 'ä', 'x'.repeat(20_000)])(
      'the key %j is counted separately from others',
      async key => {
        const { store } = opened()
        await store.increment(keyOf('other'), 1000)
        expect(await store.increment(keyOf(key), 1000)).toMatchObject({ count: 1 })
        expect(await store.increment(keyOf(key), 1000)).toMatchObject({ count: 2 })
        expect(await store.increment(keyOf('other'), 1000)).toMatchObject({ count: 2 })
      },
    )

    test.each<[string, CounterKey, CounterKey]>([
      ['type', keyOf('a'), { ...keyOf('a'), type: 'rateLimit' }],
      ['rule', keyOf('a'), { ...keyOf('a'), rule: 'gets' }],
      ...[' ', '\n', ':'].map((separator): [string, CounterKey, CounterKey] => [
        `side of ${JSON.stringify(separator)}`,
        { type: 'ban', rule: `a${separator}b`, key: 'c' },
        { type: 'ban', rule: 'a', key: `b${separator}c` },
      ]),
    ])('keys with a different %s are counted separately', async (_difference, one, other) => {
      const { store } = opened()
      expect(await store.increment(one, 1000)).toMatchObject({ count: 1 })
      expect(await store.increment(other, 1000)).toMatchObject({ count: 1 })
      await store.reset(one)
      expect(await store.increment(other, 1000)).toMatchObject({ count: 2 })
    })

    test('reset removes only one key', async () => {
      const { clock, store } = opened()
      await store.increment(keyOf('a'), 1000)
      await store.increment(keyOf('b'), 1000)
      clock.advance(500)
      await store.reset(keyOf('a'))
      await store.reset(keyOf('nobody'))
      expect(await store.increment(keyOf('a'), 1000)).toEqual({ count: 1, resetsInMs: 1000 })
      expect(await store.increment(keyOf('b'), 1000)).toEqual({ count: 2, resetsInMs: 500 })
    })

    test('simultaneous counts all get different numbers', async () => {
      const { store } = opened()
      const counts = await Promise.all(
        Array.from({ length: 50 }, () => store.increment(keyOf('a'), 1000)),
      )
      expect(counts.map(({ count }) => count).sort((one, other) => one - other)).toEqual(
        Array.from({ length: 50 }, (_, index) => index + 1),
      )
    })

    test('ten thousand keys keep their own counts', async () => {
      const { store } = opened()
      const keys = Array.from({ length: 10_000 }, (_, index) => `key ${index}`)
      for (const key of keys) await store.increment(keyOf(key), 1000)
      const seconds = []
      for (const key of keys) seconds.push((await store.increment(keyOf(key), 1000)).count)
      expect(seconds.every(count => count === 2)).toBe(true)
    })
  })
}
