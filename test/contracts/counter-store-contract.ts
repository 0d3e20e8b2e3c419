import { describe, expect, test } from 'vitest'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'

export interface CounterStoreHarness {
  readonly name: string
  /** An empty store whose windows go by `monotonicNow`, in milliseconds. */
  open(monotonicNow: () => number): CounterStore
}

/** What every `CounterStore` keeps to. */
export function describeCounterStore({ name, open }: CounterStoreHarness): void {
  function opened() {
    const clock = createFakeClock()
    return { clock, store: open(clock.now) }
  }

  describe(`CounterStore: ${name}`, () => {
    test('increment counts a key from one, and tells when its window ends', async () => {
      const { clock, store } = opened()
      expect(await store.increment('a', 1000)).toEqual({ count: 1, resetsInMs: 1000 })
      expect(await store.increment('a', 1000)).toEqual({ count: 2, resetsInMs: 1000 })
      clock.advance(400)
      expect(await store.increment('a', 1000)).toEqual({ count: 3, resetsInMs: 600 })
    })

    test('a window ends exactly, and the next one begins with the next count', async () => {
      const { clock, store } = opened()
      await store.increment('a', 1000)
      clock.advance(999)
      expect(await store.increment('a', 1000)).toEqual({ count: 2, resetsInMs: 1 })
      clock.advance(1)
      expect(await store.increment('a', 1000)).toEqual({ count: 1, resetsInMs: 1000 })
      clock.advance(2500)
      expect(await store.increment('a', 1000)).toEqual({ count: 1, resetsInMs: 1000 })
    })

    test('a window that is open keeps its end when another length is asked for', async () => {
      const { clock, store } = opened()
      await store.increment('a', 1000)
      clock.advance(100)
      expect(await store.increment('a', 60_000)).toEqual({ count: 2, resetsInMs: 900 })
      expect(await store.increment('a', 1)).toEqual({ count: 3, resetsInMs: 900 })
      clock.advance(900)
      expect(await store.increment('a', 60_000)).toEqual({ count: 1, resetsInMs: 60_000 })
    })

    test.each(['', '__proto__', 'constructor', 'a\nb', '\0', 'ä', 'x'.repeat(20_000)])(
      'the key %j counts apart from others',
      async key => {
        const { store } = opened()
        await store.increment('other', 1000)
        expect(await store.increment(key, 1000)).toMatchObject({ count: 1 })
        expect(await store.increment(key, 1000)).toMatchObject({ count: 2 })
        expect(await store.increment('other', 1000)).toMatchObject({ count: 2 })
      },
    )

    test('reset forgets one key and no other', async () => {
      const { clock, store } = opened()
      await store.increment('a', 1000)
      await store.increment('b', 1000)
      clock.advance(500)
      await store.reset('a')
      await store.reset('nobody')
      expect(await store.increment('a', 1000)).toEqual({ count: 1, resetsInMs: 1000 })
      expect(await store.increment('b', 1000)).toEqual({ count: 2, resetsInMs: 500 })
    })

    test('counts that come at once are all told apart', async () => {
      const { store } = opened()
      const counts = await Promise.all(Array.from({ length: 50 }, () => store.increment('a', 1000)))
      expect(counts.map(({ count }) => count).sort((one, other) => one - other)).toEqual(
        Array.from({ length: 50 }, (_, index) => index + 1),
      )
    })

    test('ten thousand keys keep their own counts', async () => {
      const { store } = opened()
      const keys = Array.from({ length: 10_000 }, (_, index) => `key ${index}`)
      for (const key of keys) await store.increment(key, 1000)
      const seconds = []
      for (const key of keys) seconds.push((await store.increment(key, 1000)).count)
      expect(seconds.every(count => count === 2)).toBe(true)
    })
  })
}
