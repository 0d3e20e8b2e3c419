import { expect, onTestFinished, test } from 'vitest'
import { openBanList } from '../../../src/limits/ban-list.ts'
import type { Ban, BanStore } from '../../../src/limits/ban-store.ts'
import { createBansOfWorkers } from '../../../src/limits/workers/bans-of-workers.ts'
import { createSharedBans } from '../../../src/limits/workers/shared-bans.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { connectGatedCalls } from '../../support/gated-calls.ts'
import { memoryBans } from '../../support/memory-bans.ts'
import { until } from '../../support/until.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000
const HOUR = 60 * MINUTE

const BAN = { rule: 'login', clientKey: ANN, forMs: HOUR, isKept: true }

/** The first process of workers that share a store. */
function openFirst(store: BanStore = memoryBans()) {
  const clock = createFakeClock()
  const bansOfWorkers = createBansOfWorkers(clock.now)
  let workers = 0

  /** The ban list of one more worker. */
  async function open() {
    const number = ++workers
    const { worker, first, end } = connectGatedCalls()
    bansOfWorkers.answer(first.calls, number)
    const foreign: string[] = []
    const failures: unknown[] = []
    const bans = await openBanList({
      store,
      now: clock.now,
      monotonicNow: clock.now,
      exchange: createSharedBans(worker.calls),
      onStoreFailure: error => failures.push(error),
      onReadFailure: error => failures.push(error),
      onForeignChange: ({ happened, ban }) => foreign.push(`${happened} ${ban.clientKey}`),
    })
    onTestFinished(async () => {
      end()
      worker.calls.close(new Error('the test is over'))
      await bans.close()
    })
    const kill = () => {
      end()
      bansOfWorkers.remove(number)
    }
    return { ...bans, process: worker, first, kill, foreign, failures }
  }

  return { clock, open }
}

/** A store in memory whose saves wait for the test. */
function createHeldStore() {
  const store = memoryBans()
  const held: { finish(): void; fail(error: unknown): void }[] = []
  const save = (ban: Ban) =>
    new Promise<void>((resolve, reject) => {
      const finish = () => {
        store.kept.push(ban)
        store.written()
        resolve()
      }
      held.push({ finish, fail: reject })
    })
  return { ...store, save, held }
}

/** Lets messages and promises that need no timer arrive. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
}

test('add resolves when all other workers have the ban', async () => {
  const { clock, open } = openFirst()
  const [one, other, third] = [await open(), await open(), await open()]
  expect(await one.add(BAN)).toBe(true)
  for (const bans of [one, other, third]) expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  clock.advance(HOUR - 1)
  expect(other.remainingMs('login', ANN)).toBe(1)
  clock.advance(1)
  expect(other.remainingMs('login', ANN)).toBeUndefined()
})

test('of two workers that ban a client at once, only one has made a new ban, and saves it', async () => {
  const store = memoryBans()
  const { clock, open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  const first = one.add({ ...BAN, forMs: HOUR })
  clock.advance(1)
  const second = other.add({ ...BAN, forMs: HOUR })
  expect([await first, await second].toSorted()).toEqual([false, true])
  expect(store.kept).toHaveLength(1)
  expect(one.remainingMs('login', ANN)).toBe(other.remainingMs('login', ANN))
  store.written()
  await Promise.all([one.follow(), other.follow()])
  expect([...one.foreign, ...other.foreign]).toEqual([])
})

test('a worker that knew of the last ban of a client makes a new one', async () => {
  const { clock, open } = openFirst()
  const [one, other] = [await open(), await open()]
  await one.add(BAN)
  clock.advance(HOUR)
  expect(await other.add(BAN)).toBe(true)
  expect(one.remainingMs('login', ANN)).toBe(HOUR)
  clock.advance(MINUTE)
  expect(await other.add({ ...BAN, forMs: MINUTE })).toBe(true)
  expect(one.remainingMs('login', ANN)).toBe(MINUTE)
})

test('a ban of another worker is not dropped before it is saved, and dropped when it is lifted later', async () => {
  const store = createHeldStore()
  const { open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  await one.add(BAN)
  store.written()
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBe(HOUR)
  store.held[0]?.finish()
  await settle()
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBe(HOUR)
  store.kept.length = 0
  store.written()
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBeUndefined()
  expect(other.foreign).toEqual([`lifted ${ANN}`])
})

test('a ban that is lifted before the other worker hears that it was saved ends there too', async () => {
  const store = createHeldStore()
  const { open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  await one.add(BAN)
  other.process.stop()
  store.held[0]?.finish()
  await settle()
  store.kept.length = 0
  store.written()
  const following = other.follow()
  await settle()
  expect(other.remainingMs('login', ANN)).toBe(HOUR)
  other.process.goOn()
  await following
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBeUndefined()
})

test('a ban whose worker dies before it can say that it was saved is lifted like any other', async () => {
  const store = createHeldStore()
  const { open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  await one.add(BAN)
  one.kill()
  store.held[0]?.finish()
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBe(HOUR)
  store.kept.length = 0
  store.written()
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBeUndefined()
  const late = await open()
  expect(late.remainingMs('login', ANN)).toBeUndefined()
})

test('a ban that could not be saved, or is never saved, stays in force on all workers', async () => {
  const store = createHeldStore()
  const { open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  await one.add(BAN)
  await one.add({ ...BAN, clientKey: BOB, isKept: false })
  store.held[0]?.fail(new Error('disk full'))
  await until(() => one.failures[0])
  store.written()
  await Promise.all([one.follow(), other.follow()])
  const late = await open()
  for (const bans of [one, other, late]) {
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
  }
})

test('a worker that starts while a ban is being saved has it', async () => {
  const store = createHeldStore()
  const { open } = openFirst(store)
  const one = await open()
  await one.add(BAN)
  const late = await open()
  expect(late.remainingMs('login', ANN)).toBe(HOUR)
  store.held[0]?.finish()
  await settle()
  store.kept.length = 0
  store.written()
  await late.follow()
  expect(late.remainingMs('login', ANN)).toBeUndefined()
})

test('a change by a command is reported by one worker only', async () => {
  const store = memoryBans()
  const { clock, open } = openFirst(store)
  const all = [await open(), await open(), await open()]
  store.kept.push({ rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR, lastsMs: HOUR })
  store.written()
  await Promise.all(all.map(bans => bans.follow()))
  for (const bans of all) expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  expect(all.flatMap(({ foreign }) => foreign)).toEqual([`made ${ANN}`])
  store.kept.length = 0
  store.written()
  await Promise.all(all.map(bans => bans.follow()))
  expect(all.flatMap(({ foreign }) => foreign).toSorted()).toEqual([`lifted ${ANN}`, `made ${ANN}`])
})

test('thousands of changes by a command are all reported, each by one worker', async () => {
  const store = memoryBans()
  const { clock, open } = openFirst(store)
  const all = [await open(), await open()]
  const clients = Array.from({ length: 2500 }, (_, index) => `client ${index}`)
  for (const clientKey of clients) {
    store.kept.push({ rule: 'login', clientKey, endsAt: clock.now() + HOUR, lastsMs: HOUR })
  }
  store.written()
  await Promise.all(all.map(bans => bans.follow()))
  const reported = all.flatMap(({ foreign }) => foreign)
  expect(reported.toSorted()).toEqual(clients.map(client => `made ${client}`).toSorted())
})

test('a worker that banned a client anew after a lift is followed by one that missed the lift', async () => {
  const store = memoryBans()
  const { clock, open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  await one.add(BAN)
  await settle()
  store.kept.length = 0
  store.written()
  await one.follow()
  expect(one.remainingMs('login', ANN)).toBeUndefined()
  clock.advance(MINUTE)
  expect(await one.add(BAN)).toBe(true)
  await settle()
  await other.follow()
  expect(other.remainingMs('login', ANN)).toBe(HOUR)
  expect([one.foreign, other.foreign]).toEqual([[`lifted ${ANN}`], []])
})

test('a ban of another worker is not reported as foreign by a worker that finds it in the store first', async () => {
  const store = memoryBans()
  const { open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  other.process.stop()
  await one.add(BAN)
  store.written()
  const following = other.follow()
  await settle()
  other.process.goOn()
  await following
  expect(other.remainingMs('login', ANN)).toBe(HOUR)
  expect(other.foreign).toEqual([])
})

test('a stopped worker does not hold up a ban, and has all bans when it goes on', async () => {
  const { open } = openFirst()
  const [one, other] = [await open(), await open()]
  other.process.stop()
  for (const clientKey of ['a', 'b', 'c']) expect(await one.add({ ...BAN, clientKey })).toBe(true)
  expect(other.isEmpty()).toBe(true)
  other.process.goOn()
  await until(() => other.remainingMs('login', 'c'))
  for (const clientKey of ['a', 'b', 'c']) expect(other.remainingMs('login', clientKey)).toBe(HOUR)
  await settle()
  await one.add({ ...BAN, clientKey: 'd' })
  expect(other.remainingMs('login', 'd')).toBe(HOUR)
})

test('while the first process is stopped, a worker bans for itself and saves it', async () => {
  const store = memoryBans()
  const { open } = openFirst(store)
  const [one, other] = [await open(), await open()]
  one.first.stop()
  expect(await one.add(BAN)).toBe(true)
  expect(store.kept).toHaveLength(1)
  expect(other.isEmpty()).toBe(true)
  one.first.goOn()
  await until(() => other.remainingMs('login', ANN))
})

test('close waits for bans that are being announced, and they are saved', async () => {
  const store = memoryBans()
  const { open } = openFirst(store)
  const [one] = [await open(), await open()]
  void one.add(BAN)
  await one.close()
  expect(store.kept).toHaveLength(1)
})
