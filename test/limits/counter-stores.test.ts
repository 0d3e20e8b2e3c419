import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Count, CounterKey, CounterStore } from '../../src/limits/counter-store.ts'
import {
  createFallbackCounterStore,
  type FallbackCounterStoreOptions,
} from '../../src/limits/fallback-counter-store.ts'
import { createMemoryCounterStore } from '../../src/limits/memory-counter-store.ts'
import { describeCounterStore } from '../contracts/counter-store-contract.ts'
import { createFakeClock } from '../support/fake-clock.ts'

/** Long enough for any call that is answered, on any machine. */
const FOREVER_MS = 3_600_000

const RETRY_MS = 1000

const KEY: CounterKey = { type: 'throttle', rule: 'posts', key: 'a' }

describeCounterStore({
  name: 'memory',
  open: monotonicNow => createMemoryCounterStore({ monotonicNow }),
})

describeCounterStore({
  name: 'fallback, with its shared store',
  open: monotonicNow => openStore({ shared: slowly(createMemoryCounterStore({ monotonicNow })) }),
})

/** A store that answers in a later turn of the event loop. */
function slowly(store: CounterStore): CounterStore {
  const nextTurn = () => new Promise(resolve => setImmediate(resolve))
  return {
    increment: async (...asked) => {
      await nextTurn()
      return store.increment(...asked)
    },
    reset: async (key, inMs) => {
      await nextTurn()
      await store.reset(key, inMs)
    },
  }
}

function openStore(options: Partial<FallbackCounterStoreOptions> = {}) {
  const monotonicNow = () => performance.now()
  const lost: unknown[] = []
  const back: unknown[] = []
  const store = createFallbackCounterStore({
    shared: createMemoryCounterStore({ monotonicNow }),
    local: createMemoryCounterStore({ monotonicNow }),
    patienceMs: FOREVER_MS,
    probe: async () => {
      throw new Error('still gone')
    },
    retryEveryMs: RETRY_MS,
    onLost: error => lost.push((error as Error).message),
    onBack: () => back.push('back'),
    ...options,
  })
  onTestFinished(store.close)
  return { ...store, lost, back }
}

/** A shared store whose calls wait until the test answers or rejects them. */
function createHeldStore() {
  const held: { answer: (count: Count) => void; fail: (error: unknown) => void }[] = []
  const store: CounterStore = {
    increment: () => new Promise((answer, fail) => void held.push({ answer, fail })),
    reset: () => new Promise((answer, fail) => void held.push({ answer: () => answer(), fail })),
  }
  return { store, held }
}

/** Lets time stand still for this test, except for what this returns. */
function holdTime(): (ms: number) => Promise<unknown> {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  })
  onTestFinished(() => void vi.useRealTimers())
  return ms => vi.advanceTimersByTimeAsync(ms)
}

test('a call that fails is counted locally, and so are all calls that wait', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, isLocal, lost } = openStore({ shared })
  const counts = [increment(KEY, FOREVER_MS), increment(KEY, FOREVER_MS)]
  expect(isLocal()).toBe(false)
  held[1]?.fail(new Error('broken'))
  expect(await Promise.all(counts)).toMatchObject([{ count: 1 }, { count: 2 }])
  expect(isLocal()).toBe(true)
  held[0]?.fail(new Error('broken too'))
  await new Promise(setImmediate)
  expect(lost).toEqual(['broken'])
})

test('a call that is not answered in time is counted locally, so are those after it, and a late answer changes nothing', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, reset, isLocal, lost } = openStore({ shared, patienceMs: 30 })
  const counted = increment(KEY, FOREVER_MS)
  await pass(29)
  expect(lost).toEqual([])
  // A timer may be a millisecond late, because the time in numbers is rounded.
  await pass(2)
  expect(await counted).toMatchObject({ count: 1 })
  expect(lost).toEqual(['no answer within 30 ms'])
  held[0]?.answer({ count: 70, resetsInMs: 1 })
  await pass(0)
  expect(isLocal()).toBe(true)
  // Not a promise: nothing is asked of the shared store.
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 2 })
  expect(reset(KEY)).toBe(undefined)
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
  expect(held).toHaveLength(1)
})

test('a request whose time is up is counted locally, and the shared store is not lost', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, isLocal, lost } = openStore({ shared, patienceMs: 30 })
  const waited = { waitedMs: 0 }
  const first = increment(KEY, FOREVER_MS, waited)
  await pass(20)
  held[0]?.answer({ count: 7, resetsInMs: 1 })
  expect(await first).toEqual({ count: 7, resetsInMs: 1 })
  expect(waited.waitedMs).toBeCloseTo(20)
  const second = increment(KEY, FOREVER_MS, waited)
  const ofOther = increment(KEY, FOREVER_MS)
  await pass(9)
  expect(held).toHaveLength(3)
  await pass(3)
  expect(await second).toMatchObject({ count: 1 })
  expect(waited.waitedMs).toBeCloseTo(30, -1)
  // Its time is up: it waits no longer, and is counted in the shared store all the same.
  expect(await increment(KEY, FOREVER_MS, { waitedMs: 30 })).toMatchObject({ count: 2 })
  expect(held).toHaveLength(4)
  for (const [index, { answer }] of held.entries()) answer({ count: 10 + index, resetsInMs: 1 })
  expect(await ofOther).toMatchObject({ count: 12 })
  await pass(1000)
  expect([isLocal(), lost]).toEqual([false, []])
})

test('a shared store that fails after the request has gone on is lost', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, lost } = openStore({ shared })
  await increment(KEY, FOREVER_MS, { waitedMs: FOREVER_MS })
  expect(lost).toEqual([])
  held[0]?.fail(new Error('broken'))
  await new Promise(setImmediate)
  expect(lost).toEqual(['broken'])
  // Its own count was made once.
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 2 })
})

test('a shared store that stays silent after the request has gone on is lost', async () => {
  const pass = holdTime()
  const { increment, lost } = openStore({ shared: createHeldStore().store, patienceMs: 30 })
  const counted = increment(KEY, FOREVER_MS, { waitedMs: 20 })
  await pass(12)
  expect(await counted).toMatchObject({ count: 1 })
  expect(lost).toEqual([])
  await pass(22)
  expect(lost).toEqual(['no answer within 30 ms'])
})

test('what fails after the shared store was found again belongs to its earlier loss', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, lose, lost, back } = openStore({ shared, probe: async () => {} })
  const counted = increment(KEY, FOREVER_MS)
  lose(new Error('gone'))
  await counted
  await pass(RETRY_MS)
  held[0]?.fail(new Error('late'))
  await pass(0)
  expect([lost, back]).toEqual([['gone'], ['back']])
})

test('reset also forgets what the local store counted during an earlier loss', async () => {
  const pass = holdTime()
  const { increment, reset, lose, isLocal } = openStore({ probe: async () => {} })
  lose(new Error('gone'))
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
  await pass(RETRY_MS)
  expect(isLocal()).toBe(false)
  await reset(KEY)
  lose(new Error('gone again'))
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
})

test('close counts locally what still waits, and ends the probes, also the one that runs', async () => {
  const pass = holdTime()
  const { store: shared } = createHeldStore()
  const probes: (() => void)[] = []
  const probe = () => new Promise<void>(answer => probes.push(answer))
  const waiting = openStore({ shared, probe })
  const count = waiting.increment(KEY, FOREVER_MS)
  waiting.close()
  expect(await count).toMatchObject({ count: 1 })
  const probing = openStore({ probe })
  for (const { lose } of [waiting, probing]) lose(new Error('gone'))
  await pass(10 * RETRY_MS)
  expect(probes).toHaveLength(1)
  probing.close()
  probes[0]?.()
  await pass(10 * RETRY_MS)
  expect([probing.back, probing.isLocal(), probes.length]).toEqual([[], true, 1])
})

test('time for which the process was busy is no time without an answer', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, lost } = openStore({ shared, patienceMs: 30 })
  const { now } = performance
  const counted = increment(KEY, FOREVER_MS)
  // As if it had run other code, and no timer.
  const busy = vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + 5000)
  onTestFinished(() => busy.mockRestore())
  await pass(15)
  held[0]?.answer({ count: 70, resetsInMs: 1 })
  expect(await counted).toMatchObject({ count: 70 })
  expect(lost).toEqual([])
})

test('in memory, the window that began first is dropped for a new key', async () => {
  const { now, advance } = createFakeClock()
  const countsOf = openInMemory({ monotonicNow: now, maxKeys: 3 })
  expect(await countsOf('a', 'b', 'c', 'a', 'd')).toEqual([1, 1, 1, 2, 1])
  expect(await countsOf('c', 'b', 'd', 'a')).toEqual([2, 2, 2, 1])
  advance(1000)
  // A window that is begun again is new.
  expect(await countsOf('c', 'x', 'y', 'c')).toEqual([1, 1, 1, 2])
})

test('in memory, keys of one rule push out no window of another', async () => {
  const { increment } = createMemoryCounterStore({ monotonicNow: () => 0, maxKeys: 3 })
  const others = [
    { ...KEY, rule: 'other' },
    { ...KEY, type: 'ban' },
  ] as const
  for (const other of others) await increment(other, 1000)
  for (let index = 0; index < 10; index++) await increment({ ...KEY, key: `${index}` }, 1000)
  for (const other of others) expect(await increment(other, 1000)).toMatchObject({ count: 2 })
})

test('in memory, the windows of rules that went run on as long as there is place for them', () => {
  const { now, advance } = createFakeClock()
  const { increment, letRunOut } = createMemoryCounterStore({ monotonicNow: now, maxKeys: 3 })
  const countOf = (rule: string, windowMs = 1000) => increment({ ...KEY, rule }, windowMs)
  countOf('kept')
  countOf('long', 2000)
  letRunOut?.([{ ...KEY, rule: 'kept' }])
  for (const rule of ['b', 'c', 'd']) countOf(rule)
  letRunOut?.([{ ...KEY, rule: 'kept' }])
  for (const rule of ['kept', 'd', 'c', 'b']) expect(countOf(rule)).toMatchObject({ count: 2 })
  expect(countOf('long', 2000)).toMatchObject({ count: 1 })
  advance(1000)
  // Windows that have ended take no place.
  countOf('e')
  countOf('f')
  letRunOut?.([])
  for (const rule of ['e', 'f', 'long']) expect(countOf(rule)).toMatchObject({ count: 2 })
})

test('in memory, there is place for fifty thousand keys of a rule', async () => {
  const countsOf = openInMemory({ monotonicNow: () => 0 })
  await countsOf(...Array.from({ length: 50_001 }, (_, index) => `key ${index}`))
  expect(await countsOf('key 1', 'key 50000', 'key 0')).toEqual([2, 2, 1])
})

test('in memory, windows that have ended take no memory', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc')
  const { now, advance } = createFakeClock()
  const countsOf = openInMemory({ monotonicNow: now })
  const keys = Array.from({ length: 1000 }, (_, index) => `key ${index}`)
  const usedMb = async () => {
    for (let round = 0; round < 100; round++) {
      advance(1000)
      await countsOf(...keys)
    }
    collectGarbage()
    return process.memoryUsage().heapUsed / 1e6
  }
  expect((await usedMb()) - (await usedMb())).toBeGreaterThan(-5)
})

/** Counts keys in memory, one after the other, within a second. */
function openInMemory(options: Parameters<typeof createMemoryCounterStore>[0]) {
  const { increment } = createMemoryCounterStore(options)
  return async (...keys: string[]) => {
    const counts: number[] = []
    for (const key of keys) counts.push((await increment({ ...KEY, key }, 1000)).count)
    return counts
  }
}
