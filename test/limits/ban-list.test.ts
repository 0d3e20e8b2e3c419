import { describe, expect, onTestFinished, test } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { memoryBans } from '../support/memory-bans.ts'
import { until } from '../support/until.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const start = createFakeClock().now()

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
      onForeignChange: ({ happened, ban: { rule, clientKey, endsAt } }) => {
        foreign.push(`${happened} ${rule} ${clientKey} for ${endsAt - start} ms`)
      },
      ...(maxBans !== undefined && { maxBans }),
    })
    onTestFinished(() => bans.close())
    return { bans, wall, steady, failures, readFailures, foreign }
  }

  const OF_ANN: Omit<Ban, 'endsAt'> = { rule: 'login', clientKey: ANN, lastsMs: DAY }

  const BAN = { rule: 'login', clientKey: ANN, forMs: HOUR, isKept: true }

  test('returns the rest of a ban, for that rule and client only', async () => {
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

  test('saves bans that the store refused once it takes them, unless they ended or were replaced', async () => {
    const store = memoryBans()
    let isAway = true
    const save = async (ban: Ban) => {
      if (isAway) throw new Error('away')
      await store.save(ban)
    }
    const { bans, steady, failures } = await opened({ ...store, save })
    bans.add({ ...BAN, clientKey: 'ended', forMs: MINUTE })
    bans.add({ ...BAN, clientKey: 'replaced' })
    bans.add({ ...BAN, clientKey: 'replaced', forMs: DAY })
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: 'in dry run', isKept: false })
    await bans.saved()
    expect(failures).toHaveLength(4)
    steady.advance(MINUTE)
    isAway = false
    await until(() => store.kept.length >= 2)
    expect(store.kept).toEqual([
      { rule: 'login', clientKey: 'replaced', endsAt: start + DAY, lastsMs: DAY },
      { rule: 'login', clientKey: ANN, endsAt: start + HOUR, lastsMs: HOUR },
    ])
    expect(failures).toHaveLength(4)
  })

  test('does not change a ban when the wall clock is set, forwards or back', async () => {
    const { bans, wall } = await opened(memoryBans())
    bans.add(BAN)
    wall.advance(DAY)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    wall.advance(-2 * DAY)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('add resolves when the store has the ban, which is in force before', async () => {
    const store = memoryBans()
    let write = () => {}
    const written = new Promise<void>(resolve => {
      write = resolve
    })
    const { bans } = await opened({ ...store, save: ban => written.then(() => store.save(ban)) })
    let isAdded = false
    const added = Promise.resolve(bans.add(BAN)).finally(() => {
      isAdded = true
    })
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    await new Promise(resolve => setImmediate(resolve))
    expect(isAdded).toBe(false)
    write()
    await added
    expect(store.kept).toHaveLength(1)
  })

  test('add resolves although the store does not answer', async () => {
    const { bans } = await opened({ ...memoryBans(), save: () => new Promise(() => {}) })
    await bans.add(BAN)
    await bans.add({ ...BAN, clientKey: BOB })
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
  })

  test('saves the end by the wall clock, which outlives the process', async () => {
    const store = memoryBans()
    const { bans, wall } = await opened(store)
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isKept: false })
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
    expect(store.kept).toEqual([
      { rule: 'login', clientKey: ANN, endsAt: wall.now() + HOUR, lastsMs: HOUR },
    ])
  })

  test('begins with the bans in the store', async () => {
    const endsAt = createFakeClock().now() + MINUTE
    const { bans, steady } = await opened(memoryBans([{ ...OF_ANN, endsAt }]))
    expect(bans.remainingMs('login', ANN)).toBe(MINUTE)
    steady.advance(MINUTE)
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
  })

  test('reads no ban as longer than it was made, even after the clock was set back', async () => {
    const endsAt = createFakeClock().now() + HOUR + MINUTE
    const { bans } = await opened(memoryBans([{ ...OF_ANN, endsAt, lastsMs: MINUTE }]))
    expect(bans.remainingMs('login', ANN)).toBe(MINUTE)
  })

  test('does not restart a ban that has ended here, while the wall clock is still behind', async () => {
    const store = memoryBans()
    const { bans, wall, steady } = await opened(store)
    bans.add(BAN)
    wall.advance(-DAY)
    steady.advance(HOUR)
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
    bans.add({ ...BAN, clientKey: BOB })
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
    bans.add(BAN)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('replaces a ban by a later ban of the same client', async () => {
    const { bans, steady } = await opened(memoryBans())
    bans.add(BAN)
    steady.advance(MINUTE)
    bans.add(BAN)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('drops the oldest ban when there are too many', async () => {
    const { bans } = await opened(memoryBans(), 2)
    for (const clientKey of ['a', 'b', 'a', 'c']) bans.add({ ...BAN, clientKey })
    expect(bans.remainingMs('login', 'b')).toBeUndefined()
    expect(bans.remainingMs('login', 'a')).toBe(HOUR)
    expect(bans.remainingMs('login', 'c')).toBe(HOUR)
  })

  test('reports a ban that could not be saved, and enforces it', async () => {
    const full = new Error('disk full')
    const store = { ...memoryBans(), save: () => Promise.reject(full) }
    const { bans, failures } = await opened(store)
    bans.add(BAN)
    expect(await until(() => (failures.length > 0 ? failures : undefined))).toEqual([full])
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('rejects when the stored bans cannot be read', async () => {
    await expect(opened(unreadable())).rejects.toThrow('unreadable')
  })

  test('follow takes over a ban that another process made, by the wall clock', async () => {
    const store = memoryBans()
    const { bans, wall, steady, foreign } = await opened(store)
    wall.advance(DAY)
    store.kept.push({ ...OF_ANN, endsAt: wall.now() + HOUR })
    await bans.follow()
    expect(bans.isEmpty()).toBe(true)
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    expect(foreign).toEqual([`made login ${ANN} for ${DAY + HOUR} ms`])
    wall.advance(-DAY)
    steady.advance(MINUTE)
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBe(59 * MINUTE)
    expect(foreign).toHaveLength(1)
  })

  test('follow takes over a changed end, and drops a ban that another process lifted', async () => {
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
    expect(foreign).toEqual([
      `made login ${BOB} for ${MINUTE} ms`,
      `lifted login ${ANN} for ${HOUR} ms`,
    ])
  })

  test('follow drops a lifted ban of this process, but not before it was saved', async () => {
    const store = memoryBans()
    let finishSave = () => {}
    const { bans } = await opened({
      ...store,
      save: () =>
        new Promise(resolve => {
          finishSave = resolve
        }),
    })
    bans.add(BAN)
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    finishSave()
    store.written()
    await bans.follow()
    expect(bans.remainingMs('login', ANN)).toBeUndefined()
  })

  test('follow keeps bans that are not in the store: those of dry runs, and those that could not be saved', async () => {
    const store = { ...memoryBans(), save: () => Promise.reject(new Error('disk full')) }
    const { bans, foreign } = await opened(store)
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isKept: false })
    store.kept.push({ ...OF_ANN, clientKey: '192.0.2.1', endsAt: start + HOUR })
    store.written()
    await bans.follow()
    for (const key of [ANN, BOB, '192.0.2.1']) expect(bans.remainingMs('login', key)).toBe(HOUR)
    expect(foreign).toEqual([`made login 192.0.2.1 for ${HOUR} ms`])
  })

  test('follow keeps a ban that begins while it reads', async () => {
    const store = memoryBans()
    let hasBegun = false
    const { bans } = await opened({
      ...store,
      load: async function* () {
        hasBegun = true
        yield [{ ...OF_ANN, clientKey: BOB, endsAt: start + HOUR }]
        await new Promise(setImmediate)
        yield []
      },
    })
    store.written()
    hasBegun = false
    const following = bans.follow()
    while (!hasBegun) await null
    bans.add(BAN)
    await following
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
    expect(bans.remainingMs('login', BOB)).toBe(HOUR)
  })

  test('follow reports no change when a ban has ended by itself', async () => {
    const store = memoryBans([{ ...OF_ANN, endsAt: start + MINUTE }])
    const { bans, steady, foreign } = await opened(store)
    steady.advance(MINUTE)
    store.kept.length = 0
    store.written()
    await bans.follow()
    expect(foreign).toEqual([])
    expect(bans.isEmpty()).toBe(true)
  })

  test('follow keeps at most maxBans bans', async () => {
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

  test('follow keeps the previous bans while the store cannot be read, and reports it once', async () => {
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

  test('follow never reads a slow store twice at the same time, and close waits for the read', async () => {
    const store = memoryBans()
    let waiting = 0
    let answer = () => {}
    const { bans } = await opened({
      ...store,
      revision: async () => {
        waiting++
        await new Promise<void>(resolve => {
          answer = resolve
          if (waiting === 1) resolve()
        })
        return store.revision()
      },
    })
    const following = [bans.follow(), bans.follow(), bans.follow()]
    await new Promise(setImmediate)
    expect(waiting).toBe(2)
    let isClosed = false
    const closing = bans.close().then(() => {
      isClosed = true
    })
    await new Promise(setImmediate)
    expect(isClosed).toBe(false)
    answer()
    await Promise.all([...following, closing])
    expect(waiting).toBe(2)
  })

  test('follow reports a revision that cannot be read like bans that cannot be read', async () => {
    const store = memoryBans([{ ...OF_ANN, endsAt: start + HOUR }])
    let isBroken = false
    const { bans, readFailures } = await opened({
      ...store,
      revision: async () => {
        if (isBroken) throw new Error('unreadable')
        return store.revision()
      },
    })
    isBroken = true
    await bans.follow()
    await bans.follow()
    expect(readFailures).toHaveLength(1)
    expect(bans.remainingMs('login', ANN)).toBe(HOUR)
  })

  test('close ends a read that is running', async () => {
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
    // biome-ignore lint/correctness/useYield: it fails before it yields anything.
    load: async function* () {
      throw new Error('unreadable')
    },
  }
}
