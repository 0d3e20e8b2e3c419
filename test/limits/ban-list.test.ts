import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { memoryBans } from '../support/memory-bans.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

describe('openBanList', () => {
  async function opened(store: BanStore, maxBans?: number) {
    const wall = createFakeClock()
    const steady = createFakeClock(5000)
    const failures: unknown[] = []
    const readFailures: unknown[] = []
    const foreign: string[] = []
    const bans = await openBanList({
      store,
      now: wall.now,
      monotonicNow: steady.now,
      onStoreFailure: error => failures.push(error),
      onReadFailure: error => readFailures.push(error),
      onForeignChange: (rule, clientKey) => foreign.push(`${rule} ${clientKey}`),
      ...(maxBans !== undefined && { maxBans }),
    })
    onTestFinished(() => bans.close())
    return { bans, wall, steady, failures, readFailures, foreign }
  }

  const BAN = { rule: 'login', clientKey: ANN, forMs: HOUR, isKept: true }

  test('tells what is left of a ban, of that rule and client only', async () => {
    const { bans, steady } = await opened(memoryBans())
    expect(bans.isEmpty()).toBe(true)
    bans.add(BAN)
    expect(bans.isEmpty()).toBe(false)
    steady.advance(MINUTE)
    expect(bans.remainingMs('login', ANN)).toBe(59 * MINUTE)
    expect(bans.remainingMs('login', BOB)).toBeUndefined()
    expect(bans.remainingMs('other', ANN)).toBeUndefined()
    steady.advance(59 * MINUTE - 1)
    expect(bans.remainingMs('login', ANN)).toBe(1)
    steady.advance(1)
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
  })

  test('does not go by the clock that may be set, neither forwards nor back', async () => {
    const { bans, wall } = await opened(memoryBans())
    bans.add(BAN)
    wall.advance(DAY)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    wall.advance(-2 * DAY)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('keeps the end by the clock that outlives the process, if it is to be kept', async () => {
    const store = memoryBans()
    const { bans, wall } = await opened(store)
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isKept: false })
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
    expect(store.kept).toEqual([{ rule: 'login', clientKey: ANN, endsAt: wall.now() + HOUR }])
  })

  test('takes up where the store left off', async () => {
    const endsAt = createFakeClock().now() + MINUTE
    const { bans, steady } = await opened(memoryBans([{ rule: 'login', clientKey: ANN, endsAt }]))
    expect(bans.remainingMs('login', ANN)).toBe(MINUTE)
    steady.advance(MINUTE)
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
  })

  test('puts a later ban of the same client in place of the earlier one', async () => {
    const { bans, steady } = await opened(memoryBans())
    bans.add(BAN)
    steady.advance(MINUTE)
    bans.add(BAN)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('gives up the oldest ban when one is too many', async () => {
    const { bans } = await opened(memoryBans(), 2)
    for (const clientKey of ['a', 'b', 'a', 'c']) bans.add({ ...BAN, clientKey })
    expect(bans.remainingMs('login', 'b')).toBeUndefined()
    expect(bans.remainingMs('login', 'a')).toBe(HOUR)
    expect(bans.remainingMs('login', 'c')).toBe(HOUR)
  })

  test('tells of a ban that could not be saved, which is in force all the same', async () => {
    const full = new Error('disk full')
    const store = { ...memoryBans(), save: () => Promise.reject(full) }
    const { bans, failures } = await opened(store)
    bans.add(BAN)
    expect(await vi.waitUntil(() => (failures.length > 0 ? failures : undefined))).toEqual([full])
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('rejects when the bans of before cannot be read', async () => {
    await expect(opened(unreadable())).rejects.toThrow('unreadable')
  })

  const OF_ANN: Omit<Ban, 'endsAt'> = { rule: 'login', clientKey: ANN }
  const start = createFakeClock().now()

  test('follow takes over a ban that another process made, by the clock of the world', async () => {
    const store = memoryBans()
    const { bans, wall, steady, foreign } = await opened(store)
    wall.advance(DAY)
    store.kept.push({ ...OF_ANN, endsAt: wall.now() + HOUR })
    await bans.follow()
    expect(bans.isEmpty()).toBe(true)
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    expect(foreign).toEqual([`login ${ANN}`])
    wall.advance(-DAY)
    steady.advance(MINUTE)
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBe(59 * MINUTE)
    expect(foreign).toHaveLength(1)
  })

  test('follow takes over another end, and lets go of what another process lifted', async () => {
    const store = memoryBans([
      { ...OF_ANN, endsAt: start + HOUR },
      { ...OF_ANN, clientKey: BOB, endsAt: start + HOUR },
    ])
    const { bans, foreign } = await opened(store)
    store.kept.splice(0, 2, { ...OF_ANN, clientKey: BOB, endsAt: start + MINUTE })
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
    expect(bans.remainingMs('login', BOB)).toBe(MINUTE)
    expect(foreign.sort()).toEqual([`login ${ANN}`, `login ${BOB}`])
  })

  test('follow lets go of a ban of this process once it was kept, and not before', async () => {
    const store = memoryBans()
    const { bans } = await opened(store)
    bans.add(BAN)
    store.kept.length = 0
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
  })

  test('follow leaves what is kept nowhere else: bans on trial, and those that could not be saved', async () => {
    const store = { ...memoryBans(), save: () => Promise.reject(new Error('disk full')) }
    const { bans, foreign } = await opened(store)
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isKept: false })
    store.kept.push({ ...OF_ANN, clientKey: '192.0.2.1', endsAt: start + HOUR })
    store.written()
    await bans.follow()
    for (const key of [ANN, BOB, '192.0.2.1']) expect(bans.remainingMs('login', key)).toBe(HOUR)
    expect(foreign).toEqual(['login 192.0.2.1'])
  })

  test('follow leaves a ban that begins while it reads', async () => {
    const store = memoryBans()
    const { bans } = await opened({
      ...store,
      load: async function* () {
        yield [{ ...OF_ANN, clientKey: BOB, endsAt: start + HOUR }]
        await new Promise(setImmediate)
        yield []
      },
    })
    store.written()
    const following = bans.follow()
    await null
    bans.add(BAN)
    await following
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
  })

  test('follow tells of no change where a ban has ended by itself', async () => {
    const store = memoryBans([{ ...OF_ANN, endsAt: start + MINUTE }])
    const { bans, steady, foreign } = await opened(store)
    steady.advance(MINUTE)
    store.kept.length = 0
    store.written()
    await bans.follow()
    expect(foreign).toEqual([])
    expect(bans.isEmpty()).toBe(true)
  })

  test('follow keeps to as many bans as there may be', async () => {
    const store = memoryBans()
    const { bans } = await opened(store, 2)
    for (const clientKey of ['a', 'b', 'c']) {
      store.kept.push({ ...OF_ANN, clientKey, endsAt: start + HOUR })
    }
    store.written()
    await bans.follow()
    const found = ['a', 'b', 'c'].map(key => bans.remainingMs('login', key))
    expect(found).toEqual([undefined, HOUR, HOUR])
  })

  test('follow leaves the bans of before while they cannot be read, and tells so once', async () => {
    const store = memoryBans([{ ...OF_ANN, endsAt: start + HOUR }])
    let isBroken = false
    const { bans, readFailures } = await opened({
      ...store,
      load: () => (isBroken ? unreadable() : store).load(),
    })
    isBroken = true
    store.kept.length = 0
    store.written()
    for (let count = 0; count < 3; count++) await bans.follow()
    expect(readFailures).toHaveLength(1)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    isBroken = false
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
    isBroken = true
    store.written()
    await bans.follow()
    expect(readFailures).toHaveLength(2)
  })

  test('close ends a reading that is under way', async () => {
    const store = memoryBans()
    let parts = 0
    const { bans } = await opened({
      ...store,
      load: async function* () {
        for (; parts < 100; parts++) {
          yield []
          await new Promise(setImmediate)
        }
      },
    })
    parts = 0
    store.written()
    void bans.follow()
    await bans.close()
    expect(parts).toBeLessThan(100)
  })
})

function unreadable(): BanStore {
  return {
    ...memoryBans(),
    // biome-ignore lint/correctness/useYield: it fails before it has anything to give.
    load: async function* () {
      throw new Error('unreadable')
    },
  }
}
