import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Count, type CounterStore, ruleText } from '../../src/limits/counter-store.ts'
import { createMemoryCounterStore } from '../../src/limits/memory-counter-store.ts'
import {
  createFallbackCounterStore,
  type FallbackCounterStoreOptions,
} from '../../src/storage/redis/fallback-counter-store.ts'
import {
  type CounterKey,
  describeCounterStore,
  textOf,
} from '../contracts/counter-store-contract.ts'
import { createFakeClock } from '../support/fake-clock.ts'

/** Long enough for any call that is answered, on any machine. */
const FOREVER_MS = 3_600_000

const RETRY_MS = 1000

const POSTS: CounterKey = { type: 'throttle', rule: 'posts', key: 'a' }

const KEY = textOf(POSTS, FOREVER_MS)

const hits = (totalHits: number) => ({ totalHits })

const countOf = (totalHits: number): Count => ({ totalHits, resetTime: new Date() })

describeCounterStore({
  name: 'memory',
  open: steadyNow => createMemoryCounterStore({ steadyNow }),
})

describeCounterStore({
  name: 'fallback, with its shared store',
  open: steadyNow => openStore({ shared: slowly(createMemoryCounterStore({ steadyNow })) }),
})

/** A store that answers in a later turn of the event loop. */
function slowly(store: CounterStore): CounterStore {
  const nextTurn = () => new Promise(resolve => setImmediate(resolve))
  return {
    increment: async (...asked) => {
      await nextTurn()
      return store.increment(...asked)
    },
    decrement: () => {},
    resetKey: async (...asked) => {
      await nextTurn()
      await store.resetKey(...asked)
    },
  }
}

interface Opened extends Partial<FallbackCounterStoreOptions> {
  readonly shared?: CounterStore
  /** Resolves if the shared store can be opened again. */
  readonly probe?: () => Promise<void>
}

async function openStore({ shared: given, probe, ...options }: Opened = {}) {
  const steadyNow = () => Math.floor(performance.now())
  const shared = given ?? createMemoryCounterStore({ steadyNow })
  const lost: unknown[] = []
  const back: unknown[] = []
  let openings = 0
  const store = createFallbackCounterStore({
    open: async () => {
      if (++openings > 1) await (probe ?? fail)()
      return shared
    },
    local: createMemoryCounterStore({ steadyNow }),
    patienceMs: FOREVER_MS,
    retryEveryMs: RETRY_MS,
    onLost: error => lost.push((error as Error).message),
    onBack: () => back.push('back'),
    ...options,
  })
  onTestFinished(store.close)
  await store.start()
  return { ...store, lost, back }
}

async function fail(): Promise<void> {
  throw new Error('still gone')
}

/** A shared store whose calls wait until the test answers or rejects them. */
function createHeldStore() {
  const held: { answer: (count: Count) => void; fail: (error: unknown) => void }[] = []
  const store: CounterStore = {
    increment: () => new Promise((answer, fail) => void held.push({ answer, fail })),
    decrement: () => {},
    resetKey: () => new Promise((answer, fail) => void held.push({ answer: () => answer(), fail })),
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
  const { increment, isLocal, lost } = await openStore({ shared })
  const counts = [increment(KEY), increment(KEY)]
  expect(isLocal()).toBe(false)
  held[1]?.fail(new Error('broken'))
  expect(await Promise.all(counts)).toMatchObject([hits(1), hits(2)])
  expect(isLocal()).toBe(true)
  held[0]?.fail(new Error('broken too'))
  await new Promise(setImmediate)
  expect(lost).toEqual(['broken'])
})

test('a call that is not answered in time is counted locally, so are those after it, and a late answer changes nothing', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, resetKey, isLocal, lost } = await openStore({ shared, patienceMs: 30 })
  const counted = increment(KEY)
  await pass(29)
  expect(lost).toEqual([])
  // A timer may be a millisecond late, because the time in numbers is rounded.
  await pass(2)
  expect(await counted).toMatchObject(hits(1))
  expect(lost).toEqual(['no answer within 30 ms'])
  held[0]?.answer(countOf(70))
  await pass(0)
  expect(isLocal()).toBe(true)
  // Not a promise: nothing is asked of the shared store.
  expect(increment(KEY)).toMatchObject(hits(2))
  expect(resetKey(KEY)).toBe(undefined)
  expect(increment(KEY)).toMatchObject(hits(1))
  expect(held).toHaveLength(1)
})

test('each count waits by itself, and slow answers in time are no loss', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, isLocal, lost } = await openStore({ shared, patienceMs: 30 })
  for (const index of [0, 1, 2, 3]) {
    const count = increment(KEY)
    await pass(20)
    held[index]?.answer(countOf(index + 7))
    expect(await count).toMatchObject(hits(index + 7))
  }
  await pass(1000)
  expect([isLocal(), lost]).toEqual([false, []])
})

test('what fails after the shared store was found again belongs to its earlier loss', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, lose, lost, back } = await openStore({ shared, probe: async () => {} })
  const counted = increment(KEY)
  lose(new Error('gone'))
  await counted
  await pass(RETRY_MS)
  held[0]?.fail(new Error('late'))
  await pass(0)
  expect([lost, back]).toEqual([['gone'], ['back']])
})

test('reset also forgets what the local store counted during an earlier loss', async () => {
  const pass = holdTime()
  const { increment, resetKey, lose, isLocal } = await openStore({ probe: async () => {} })
  lose(new Error('gone'))
  expect(increment(KEY)).toMatchObject(hits(1))
  await pass(RETRY_MS)
  expect(isLocal()).toBe(false)
  await resetKey(KEY)
  lose(new Error('gone again'))
  expect(increment(KEY)).toMatchObject(hits(1))
})

test('close counts locally what still waits, and ends the probes, also the one that runs', async () => {
  const pass = holdTime()
  const { store: shared } = createHeldStore()
  const probes: (() => void)[] = []
  const probe = () => new Promise<void>(answer => probes.push(answer))
  const waiting = await openStore({ shared, probe })
  const count = waiting.increment(KEY)
  waiting.close()
  expect(await count).toMatchObject(hits(1))
  const probing = await openStore({ probe })
  for (const { lose } of [waiting, probing]) lose(new Error('gone'))
  await pass(RETRY_MS)
  expect(probes).toHaveLength(1)
  probing.close()
  probes[0]?.()
  await pass(10 * RETRY_MS)
  expect([probing.back, probing.isLocal(), probes.length]).toEqual([[], true, 1])
})

test('time for which the process was busy is no time without an answer', async () => {
  const pass = holdTime()
  const { store: shared, held } = createHeldStore()
  const { increment, lost } = await openStore({ shared, patienceMs: 30 })
  const { now } = performance
  const counted = increment(KEY)
  // As if it had run other code, and no timer.
  const busy = vi.spyOn(performance, 'now').mockImplementation(() => now.call(performance) + 5000)
  onTestFinished(() => busy.mockRestore())
  await pass(15)
  held[0]?.answer(countOf(70))
  expect(await counted).toMatchObject(hits(70))
  expect(lost).toEqual([])
})

test('in memory, the window that began first is dropped for a new key', async () => {
  const { now, advance } = createFakeClock()
  const countsOf = openInMemory({ steadyNow: now, maxKeys: 3 })
  expect(await countsOf('a', 'b', 'c', 'a', 'd')).toEqual([1, 1, 1, 2, 1])
  expect(await countsOf('c', 'b', 'd', 'a')).toEqual([2, 2, 2, 1])
  advance(1000)
  // A window that is begun again is new.
  expect(await countsOf('c', 'x', 'y', 'c')).toEqual([1, 1, 1, 2])
})

test('in memory, keys of one rule push out no window of another', async () => {
  const { increment } = createMemoryCounterStore({ steadyNow: () => 0, maxKeys: 3 })
  const others = [
    { ...POSTS, rule: 'other' },
    { ...POSTS, type: 'ban' },
  ] as const
  for (const other of others) await increment(textOf(other, 1000))
  for (let index = 0; index < 10; index++)
    await increment(textOf({ ...POSTS, key: `${index}` }, 1000))
  for (const other of others) expect(await increment(textOf(other, 1000))).toMatchObject(hits(2))
})

test('in memory, the windows of rules that went run on as long as there is place for them', () => {
  const { now, advance } = createFakeClock()
  const { increment, letRunOut } = createMemoryCounterStore({ steadyNow: now, maxKeys: 3 })
  const hitsOf = (rule: string, windowMs = 1000) => increment(textOf({ ...POSTS, rule }, windowMs))
  hitsOf('kept')
  hitsOf('long', 2000)
  letRunOut?.(new Set([ruleText({ type: 'throttle', name: 'kept' })]))
  for (const rule of ['b', 'c', 'd']) hitsOf(rule)
  letRunOut?.(new Set([ruleText({ type: 'throttle', name: 'kept' })]))
  for (const rule of ['kept', 'd', 'c', 'b']) expect(hitsOf(rule)).toMatchObject(hits(2))
  expect(hitsOf('long', 2000)).toMatchObject(hits(1))
  advance(1000)
  // Windows that have ended take no place.
  hitsOf('e')
  hitsOf('f')
  letRunOut?.(new Set())
  for (const rule of ['e', 'f', 'long']) expect(hitsOf(rule)).toMatchObject(hits(2))
})

test('in memory, there is place for fifty thousand keys of a rule', async () => {
  const countsOf = openInMemory({ steadyNow: () => 0 })
  await countsOf(...Array.from({ length: 50_001 }, (_, index) => `key ${index}`))
  expect(await countsOf('key 1', 'key 50000', 'key 0')).toEqual([2, 2, 1])
})

test('in memory, windows that have ended take no memory', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc')
  const { now, advance } = createFakeClock()
  const countsOf = openInMemory({ steadyNow: now })
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
    for (const key of keys)
      counts.push((await increment(textOf({ ...POSTS, key }, 1000))).totalHits)
    return counts
  }
}
