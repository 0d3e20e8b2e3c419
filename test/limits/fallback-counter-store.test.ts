import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import type { Count, CounterKey, CounterStore } from '../../src/limits/counter-store.ts'
import {
  createFallbackCounterStore,
  type FallbackCounterStoreOptions,
} from '../../src/limits/fallback-counter-store.ts'
import { createMemoryCounterStore } from '../../src/limits/memory-counter-store.ts'
import { describeCounterStore } from '../contracts/counter-store-contract.ts'
import { until } from '../support/until.ts'

/** Long enough for any call that is answered, on any machine. */
const FOREVER_MS = 3_600_000

const KEY: CounterKey = { type: 'throttle', rule: 'posts', key: 'a' }

describeCounterStore({
  name: 'fallback, with its shared store',
  open: monotonicNow => openStore({ shared: slowly(createMemoryCounterStore({ monotonicNow })) }),
})

describeCounterStore({
  name: 'fallback, without its shared store',
  open: monotonicNow => {
    const local = createMemoryCounterStore({ monotonicNow })
    const store = openStore({ local })
    store.lose(new Error('gone'))
    return store
  },
})

/** A store that answers in a later turn of the event loop. */
function slowly(store: CounterStore): CounterStore {
  const nextTurn = () => new Promise(resolve => setImmediate(resolve))
  return {
    increment: async (key, windowMs) => {
      await nextTurn()
      return store.increment(key, windowMs)
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
    retryEveryMs: 1,
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

test('a call that fails is counted locally, and so are all calls that wait', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, isLocal, lost } = openStore({ shared })
  const counts = [increment(KEY, FOREVER_MS), increment(KEY, FOREVER_MS)]
  expect(isLocal()).toBe(false)
  held[1]?.fail(new Error('broken'))
  const counted = await Promise.all(counts)
  expect(counted.map(({ count }) => count)).toEqual([1, 2])
  expect(isLocal()).toBe(true)
  held[0]?.fail(new Error('broken too'))
  await new Promise(setImmediate)
  expect(lost).toEqual(['broken'])
})

test('a shared store that throws is lost like one that rejects', () => {
  const shared: CounterStore = {
    increment: () => {
      throw new Error('closed')
    },
    reset: () => {},
  }
  const { increment, lost } = openStore({ shared })
  expect(increment(KEY, 1000)).toMatchObject({ count: 1 })
  expect(lost).toEqual(['closed'])
})

test('a call that is not answered in time is counted locally, and so are those after it', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, reset, lost } = openStore({ shared, patienceMs: 30 })
  expect(await increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
  expect(lost).toEqual(['no answer within 30 ms'])
  // Not a promise: nothing is asked of the shared store.
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 2 })
  expect(reset(KEY)).toBe(undefined)
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
  expect(held).toHaveLength(1)
})

test('an answer says how long it took, and the time that a request has waited before is taken off', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, lost } = openStore({ shared, patienceMs: FOREVER_MS })
  const counted = increment(KEY, FOREVER_MS)
  await new Promise(resolve => setTimeout(resolve, 20))
  held[0]?.answer({ count: 7, resetsInMs: 1 })
  const { waitedMs = 0 } = await counted
  expect(waitedMs).toBeGreaterThan(5)
  expect(lost).toEqual([])
  // Nothing is left of its time.
  expect(await increment(KEY, FOREVER_MS, FOREVER_MS)).toMatchObject({ count: 1 })
  expect(lost).toHaveLength(1)
})

test('an answer that comes too late changes nothing', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, isLocal } = openStore({ shared, patienceMs: 1 })
  const counted = increment(KEY, FOREVER_MS)
  expect(await counted).toMatchObject({ count: 1 })
  held[0]?.answer({ count: 70, resetsInMs: 1 })
  expect(await counted).toMatchObject({ count: 1 })
  expect(isLocal()).toBe(true)
})

test('a later call has its own time to wait', async () => {
  const { store: shared, held } = createHeldStore()
  const { increment, lost } = openStore({ shared, patienceMs: 200 })
  for (let call = 0; call < 50; call++) {
    const counted = increment(KEY, FOREVER_MS)
    await new Promise(resolve => setTimeout(resolve, 10))
    held[call]?.answer({ count: call, resetsInMs: 1 })
    expect(await counted).toMatchObject({ count: call, resetsInMs: 1 })
  }
  expect(lost).toEqual([])
})

test('probes go on until one succeeds, and then the shared store counts again', async () => {
  let probes = 0
  const { increment, lose, isLocal, lost, back } = openStore({
    probe: async () => {
      probes++
      if (probes < 4) throw new Error('still gone')
    },
  })
  await increment(KEY, FOREVER_MS)
  for (let loss = 1; loss <= 2; loss++) {
    probes = 0
    lose(new Error(`gone ${loss}`))
    lose(new Error('noticed twice'))
    expect(await increment(KEY, FOREVER_MS)).toMatchObject({ count: loss })
    await until(() => !isLocal())
    expect(probes).toBe(4)
    expect(await increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 + loss })
  }
  expect(lost).toEqual(['gone 1', 'gone 2'])
  expect(back).toEqual(['back', 'back'])
})

test('one probe runs at a time', async () => {
  const probes: (() => void)[] = []
  const { lose, isLocal } = openStore({ probe: () => new Promise(answer => probes.push(answer)) })
  lose(new Error('gone'))
  await until(() => probes.length > 0)
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(probes).toHaveLength(1)
  probes[0]?.()
  await until(() => !isLocal())
})

test('reset also forgets what the local store counted during an earlier loss', async () => {
  const { increment, reset, lose, isLocal } = openStore({ probe: async () => {} })
  lose(new Error('gone'))
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
  await until(() => !isLocal())
  await reset(KEY)
  lose(new Error('gone again'))
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 1 })
})

test('close counts locally what still waits, and ends the probes', async () => {
  const { store: shared } = createHeldStore()
  let probes = 0
  const { increment, lose, isLocal, close, lost, back } = openStore({
    shared,
    probe: async () => void probes++,
  })
  const waiting = increment(KEY, FOREVER_MS)
  close()
  expect(await waiting).toMatchObject({ count: 1 })
  expect(increment(KEY, FOREVER_MS)).toMatchObject({ count: 2 })
  lose(new Error('gone'))
  await new Promise(resolve => setTimeout(resolve, 20))
  expect([probes, lost, back, isLocal()]).toEqual([0, [], [], true])
})

test('close during a probe leaves the store closed', async () => {
  const probes: (() => void)[] = []
  const { lose, isLocal, close, back } = openStore({
    probe: () => new Promise(answer => probes.push(answer)),
  })
  lose(new Error('gone'))
  await until(() => probes.length > 0)
  close()
  probes[0]?.()
  await new Promise(setImmediate)
  expect([back, isLocal()]).toEqual([[], true])
})

/** Answers each byte that arrives with a byte, in a thread of its own. Counts the answers in `shared`. */
const ECHO = `
  const { createServer } = require('node:net')
  const { parentPort, workerData } = require('node:worker_threads')
  const answered = new Int32Array(workerData)
  const server = createServer(socket => socket.on('data', data => socket.write(data, () => {
    Atomics.add(answered, 0, data.length)
    Atomics.notify(answered, 0)
  })))
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`

/** A shared store that asks another thread by a socket. */
async function openRemoteStore() {
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(ECHO, { eval: true, workerData: answered.buffer })
  const [port] = await once(worker, 'message')
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  onTestFinished(async () => {
    socket.destroy()
    await worker.terminate()
  })
  const waiting: ((count: Count) => void)[] = []
  socket.on('data', data => {
    for (const _ of data) waiting.shift()?.({ count: 70, resetsInMs: 1 })
  })
  const store: CounterStore = {
    increment: () =>
      new Promise(resolve => {
        waiting.push(resolve)
        socket.write('?')
      }),
    reset: () => {},
  }
  return { store, answered }
}

function blockUntil(isDone: () => boolean): void {
  const pause = new Int32Array(new SharedArrayBuffer(4))
  while (!isDone()) Atomics.wait(pause, 0, 0, 1)
}

test('an answer that came while this process was busy is in time', async () => {
  const { store: shared, answered } = await openRemoteStore()
  const { increment, lost } = openStore({ shared, patienceMs: 50 })
  for (let round = 1; round <= 5; round++) {
    const counted = increment(KEY, FOREVER_MS)
    const endsAt = performance.now() + 100
    blockUntil(() => Atomics.load(answered, 0) >= round && performance.now() > endsAt)
    expect(await counted).toMatchObject({ count: 70 })
  }
  expect(lost).toEqual([])
})

test('an answer that came just before the end of a wait is in time', async () => {
  const { store: shared, answered } = await openRemoteStore()
  const { increment, lost } = openStore({ shared, patienceMs: 1 })
  for (let round = 1; round <= 20; round++) {
    const counted = increment(KEY, FOREVER_MS)
    // Node then runs its timers before it reads the socket.
    const endsAt = performance.now() + 5
    blockUntil(() => Atomics.load(answered, 0) >= round && performance.now() > endsAt)
    expect(await counted).toMatchObject({ count: 70 })
  }
  expect(lost).toEqual([])
})

test('a process that is busy before its question is sent has not waited', async () => {
  const { store } = await openRemoteStore()
  const shared: CounterStore = {
    ...store,
    // Some turns later, as a store that joins the questions of several turns.
    increment: async (key, windowMs) => {
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
      return store.increment(key, windowMs)
    },
  }
  const { increment, lost } = openStore({ shared, patienceMs: 1000 })
  const counted = increment(KEY, FOREVER_MS)
  const endsAt = performance.now() + 1500
  blockUntil(() => performance.now() > endsAt)
  expect(await counted).toMatchObject({ count: 70 })
  expect(lost).toEqual([])
})
