import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { Count, CounterKey, CounterStore } from '../../../src/limits/counter-store.ts'
import { createMemoryCounterStore } from '../../../src/limits/memory-counter-store.ts'
import {
  answerCounts,
  createWorkerCounterStore,
} from '../../../src/limits/workers/shared-counter-store.ts'
import { describeCounterStore } from '../../contracts/counter-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { connectGatedCalls } from '../../support/gated-calls.ts'
import { until } from '../../support/until.ts'

describeCounterStore({
  name: 'in the first process',
  open: monotonicNow => openWorkerStore(createMemoryCounterStore({ monotonicNow })).store,
})

const KEY: CounterKey = { type: 'throttle', rule: 'posts', key: 'a' }

/** The store of a worker whose first process counts in `counters`. */
function openWorkerStore(counters: CounterStore) {
  const { worker, first, end } = connectGatedCalls()
  onTestFinished(end)
  answerCounts(first.calls, counters)
  const logLines: Record<string, unknown>[] = []
  const log = pino({ base: null }, { write: line => logLines.push(JSON.parse(line)) })
  const monotonicNow = createFakeClock().now
  const store = createWorkerCounterStore({ firstProcess: worker.calls, monotonicNow, log })
  onTestFinished(store.close)
  return { store, first, logLines }
}

function openWorkerStores(count: number) {
  const monotonicNow = createFakeClock().now
  const counters = createMemoryCounterStore({ monotonicNow })
  return Array.from({ length: count }, () => openWorkerStore(counters))
}

const countOf = async (store: CounterStore) => (await store.increment(KEY, 1000)).count

test('several workers that count at the same time all get different numbers', async () => {
  const stores = openWorkerStores(4)
  const counts = await Promise.all(
    Array.from({ length: 50 }, () => stores.map(({ store }) => countOf(store))).flat(),
  )
  expect(counts.sort((one, other) => one - other)).toEqual(
    Array.from({ length: 200 }, (_, index) => index + 1),
  )
})

test('reset by one worker forgets the key for all', async () => {
  const [one, other] = openWorkerStores(2) as [OpenStore, OpenStore]
  await one.store.increment(KEY, 1000)
  await other.store.reset(KEY)
  expect(await one.store.increment(KEY, 1000)).toMatchObject({ count: 1, resetsInMs: 1000 })
})

type OpenStore = ReturnType<typeof openWorkerStore>

test('a worker counts by itself while the first process is stopped, and there again once it goes on', async () => {
  const [one, other] = openWorkerStores(2) as [OpenStore, OpenStore]
  for (let count = 0; count < 3; count++) await one.store.increment(KEY, 1000)
  one.first.stop()
  const counts: Count[] = []
  for (let count = 0; count < 3; count++) counts.push(await one.store.increment(KEY, 1000))
  expect(counts.map(({ count }) => count)).toEqual([1, 2, 3])
  expect(one.store.isLocal()).toBe(true)
  expect(await countOf(other.store)).toBe(4)
  expect(one.logLines).toMatchObject([
    { level: 40, msg: 'first process does not answer, limits are counted locally' },
  ])
  one.first.goOn()
  await until(() => !one.store.isLocal() || undefined)
  // The count that was asked for when the first process stopped was made there too.
  expect(await countOf(one.store)).toBe(6)
  expect(one.logLines[1]).toMatchObject({
    level: 30,
    msg: 'first process answers again, limits are counted there',
  })
})

test('a worker whose first process is gone counts by itself', async () => {
  const { worker, first, end } = connectGatedCalls()
  answerCounts(first.calls, createMemoryCounterStore({ monotonicNow: createFakeClock().now }))
  const log = pino({ level: 'silent' })
  const monotonicNow = createFakeClock().now
  const store = createWorkerCounterStore({ firstProcess: worker.calls, monotonicNow, log })
  onTestFinished(store.close)
  await store.increment(KEY, 1000)
  end()
  worker.calls.close(new Error('the first process is gone'))
  expect(await countOf(store)).toBe(1)
})
