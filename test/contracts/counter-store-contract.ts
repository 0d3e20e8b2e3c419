import { describe, expect, test } from 'vitest'
import { type CounterStore, counterText, ruleText } from '../../src/limits/counter-store.ts'
import type { RuleType } from '../../src/limits/rules/rule-values.ts'
import { createFakeClock } from '../support/fake-clock.ts'

/** What is counted: the requests of one client, by one rule. */
export interface CounterKey {
  readonly type: RuleType
  readonly rule: string
  readonly key: string
}

/** A key as the store gets it. */
export function textOf({ type, rule, key }: CounterKey, windowMs?: number): string {
  return counterText(ruleText({ type, name: rule }), key, windowMs)
}

export interface CounterStoreHarness {
  readonly name: string
  /** An empty store whose windows use the clock `steadyNow`, in milliseconds. */
  open(steadyNow: () => number): CounterStore | Promise<CounterStore>
  /** For a store with a clock of its own. */
  readonly ownClock?: {
    /** Lets time pass for all windows of the store that was opened last, by more than `ms` at most. */
    advance(ms: number): Promise<void>
  }
}

/** With a clock of its own, the windows of a store are this many times as long, so that the time of the test is nothing. */
const OWN_CLOCK_SCALE = 3_600_000

/** The counter key of a client. The rule is always the same. */
function keyOf(key: string): CounterKey {
  return { type: 'throttle', rule: 'posts', key }
}

/** The tests that every `CounterStore` must pass. */
export function describeCounterStore({ name, open, ownClock }: CounterStoreHarness): void {
  const scale = ownClock === undefined ? 1 : OWN_CLOCK_SCALE

  async function opened() {
    const clock = createFakeClock()
    const counters = await open(clock.now)
    const steadyNow = ownClock === undefined ? clock.now : Date.now
    const advance = async (ms: number) => {
      clock.advance(ms)
      await ownClock?.advance(ms * scale)
    }
    const store = {
      increment: async (key: CounterKey, windowMs: number, amount?: number) => {
        const text = textOf(key, windowMs * scale)
        const { totalHits: count, resetTime } = await counters.increment(text, amount)
        return { count, resetsInMs: resetTime.getTime() - steadyNow() }
      },
      reset: (key: CounterKey, inMs?: number) =>
        counters.resetKey(textOf(key), inMs && inMs * scale),
    }
    return { advance, store }
  }

  /** A count whose window ends in this time. */
  function counted(count: number, resetsInMs: number) {
    return ownClock === undefined
      ? { count, resetsInMs }
      : { count, resetsInMs: expect.toSatisfy(isWithinHalfAUnitBefore(resetsInMs * scale)) }
  }

  function isWithinHalfAUnitBefore(endMs: number) {
    return (ms: number) => ms <= endMs && ms > endMs - scale / 2
  }

  describe(`CounterStore: ${name}`, () => {
    test('increment counts a key from one, and returns when its window ends', async () => {
      const { advance, store } = await opened()
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(1, 1000))
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(2, 1000))
      await advance(400)
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(3, 600))
    })

    test('increment adds an amount at once, also to begin a window', async () => {
      const { advance, store } = await opened()
      const add = (key: string, amount?: number) => store.increment(keyOf(key), 1000, amount)
      expect(await add('a', 100)).toMatchObject(counted(100, 1000))
      await advance(400)
      expect(await add('a')).toMatchObject(counted(101, 600))
      expect(await add('a', 2)).toMatchObject(counted(103, 600))
      expect(await add('b', 1)).toMatchObject(counted(1, 1000))
      await advance(600)
      expect(await add('a', 3)).toMatchObject(counted(3, 1000))
    })

    test('a window ends exactly on time, and the next one begins with the next count', async () => {
      const { advance, store } = await opened()
      await store.increment(keyOf('a'), 1000)
      await advance(999)
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(2, 1))
      await advance(2500)
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(1, 1000))
      await advance(1000)
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(1, 1000))
    })

    test('an open window keeps its end when the length changes', async () => {
      const { advance, store } = await opened()
      await store.increment(keyOf('a'), 1000)
      await advance(100)
      expect(await store.increment(keyOf('a'), 60_000)).toMatchObject(counted(2, 900))
      expect(await store.increment(keyOf('a'), 1)).toMatchObject(counted(3, 900))
    })

    test.each(['', '__proto__', 'a\nb', '\0', 'ä', 'x'.repeat(20_000)])(
      'the key %j is counted separately from others',
      async key => {
        const { store } = await opened()
        await store.increment(keyOf('other'), 1000)
        expect(await store.increment(keyOf(key), 1000)).toMatchObject({ count: 1 })
        expect(await store.increment(keyOf(key), 1000)).toMatchObject({ count: 2 })
      },
    )

    test.each<[string, CounterKey, CounterKey]>([
      ['type', keyOf('a'), { ...keyOf('a'), type: 'rateLimit' }],
      ['rule', keyOf('a'), { ...keyOf('a'), rule: 'gets' }],
      ['side of a space', { ...keyOf('c'), rule: 'a b' }, { ...keyOf('b c'), rule: 'a' }],
      ['side of a colon', { ...keyOf('c'), rule: 'a:b' }, { ...keyOf('b:c'), rule: 'a' }],
    ])('keys with a different %s are counted separately', async (_difference, one, other) => {
      const { store } = await opened()
      expect(await store.increment(one, 1000)).toMatchObject({ count: 1 })
      expect(await store.increment(other, 1000)).toMatchObject({ count: 1 })
      await store.reset(one)
      expect(await store.increment(other, 1000)).toMatchObject({ count: 2 })
    })

    test('reset removes only one key', async () => {
      const { advance, store } = await opened()
      await store.increment(keyOf('a'), 1000)
      await store.increment(keyOf('b'), 1000)
      await advance(500)
      await store.reset(keyOf('a'))
      await store.reset(keyOf('nobody'))
      expect(await store.increment(keyOf('a'), 1000)).toMatchObject(counted(1, 1000))
      expect(await store.increment(keyOf('b'), 1000)).toMatchObject(counted(2, 500))
    })

    test('reset in some time ends the window then, and counts until then', async () => {
      const { advance, store } = await opened()
      await store.increment(keyOf('a'), 10_000)
      await store.increment(keyOf('b'), 1000)
      for (const key of ['a', 'b', 'nobody']) await store.reset(keyOf(key), 2000)
      expect(await store.increment(keyOf('nobody'), 1000)).toMatchObject(counted(1, 1000))
      await advance(1500)
      expect(await store.increment(keyOf('a'), 10_000)).toMatchObject(counted(2, 500))
      expect(await store.increment(keyOf('b'), 10_000)).toMatchObject(counted(2, 500))
      await advance(500)
      expect(await store.increment(keyOf('a'), 10_000)).toMatchObject(counted(1, 10_000))
    })

    test('simultaneous counts all get different numbers', async () => {
      const { store } = await opened()
      const numbers = Array.from({ length: 50 }, (_, index) => index + 1)
      const counts = await Promise.all(numbers.map(() => store.increment(keyOf('a'), 1000)))
      expect(counts.map(({ count }) => count).sort((a, b) => a - b)).toEqual(numbers)
    })
  })
}
