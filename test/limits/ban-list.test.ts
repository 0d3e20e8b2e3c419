import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { ANN, BOB, DAY, HOUR, MINUTE } from '../support/limited-app.ts'
import { openStored } from '../support/stored.ts'
import { until } from '../support/until.ts'

hurryPolls()

const START = createFakeClock().now()

/** After it all bans are read, not only what has changed. */
const PAUSE = 5001

const BAN = { rule: 'login', clientKey: ANN, forMs: HOUR }

/** A ban in the store that ends some time after the start of the clocks. */
function stored(clientKey: string, endsAfterMs = HOUR): Ban {
  return { rule: 'login', clientKey, endsAt: START + endsAfterMs, lastsMs: DAY }
}

interface Scene {
  readonly kept?: readonly Ban[]
  readonly maxBans?: number
  /** Replaces calls of the store. */
  readonly replace?: (store: BanStore) => Partial<BanStore>
}

/** A list of bans over the store of a database. Their clocks stand still until the test moves them. */
async function open({ kept = [], maxBans, replace = () => ({}) }: Scene = {}) {
  const steady = createFakeClock(5000)
  const { storage } = await openStored({ now: () => START + steady.now() - 5000 })
  const store = storage.bans
  const save = async (...bans: readonly Ban[]) => {
    for (const ban of bans) await store.save(ban)
  }
  await save(...kept)
  const failures: unknown[] = []
  const changed: string[] = []
  const bans = await openBanList({
    store: { ...store, ...replace(store) },
    monotonicNow: steady.now,
    onStoreFailure: error => failures.push(error),
    onReadFailure: error => failures.push(error),
    onForeignChange: ({ clientKey, endsAt, lastsMs }) => {
      changed.push(`${clientKey} ${lastsMs < 0 ? 'lifted' : `for ${endsAt - START} ms`}`)
    },
    ...(maxBans !== undefined && { maxBans }),
  })
  onTestFinished(() => bans.close())
  return {
    ...{ bans, steady, failures, changed },
    restOf: (...keys: string[]) =>
      keys.map(clientKey => bans.remainingMs({ rule: 'login', clientKey })),
    kept: async () => (await store.list({ limit: 100 })).bans,
    /** As another process does. */
    save,
    lift: (...clientKeys: string[]) => store.lift({ clientKeys }),
    /** Follows the store after another process has changed it. A read that runs may have begun before that. */
    followChange: async () => {
      await bans.follow()
      await bans.follow()
    },
    /** Reads all bans of the store, as after a pause. */
    readAll: async () => {
      await bans.follow()
      steady.advance(PAUSE)
      await bans.follow()
    },
  }
}

/** The list has not yet read what others have saved. */
const withoutRecent = () => ({ recent: async () => [] })

/** A promise to be resolved from outside. */
function createGate() {
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open }
}

const turn = () => new Promise(resolve => setImmediate(resolve))

describe('add', () => {
  test('of a ban that the store refuses is tried again, unless the ban ended or was replaced', async () => {
    let isAway = true
    const { bans, kept, steady, failures } = await open({
      replace: store => ({
        save: async ban => {
          if (isAway) throw new Error('away')
          return store.save(ban)
        },
      }),
    })
    bans.add({ ...BAN, clientKey: 'ended', forMs: MINUTE })
    bans.add({ ...BAN, clientKey: 'replaced' })
    bans.add({ ...BAN, clientKey: 'replaced', forMs: DAY })
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: 'in dry run', isDryRun: true })
    await bans.saved()
    steady.advance(MINUTE)
    isAway = false
    await until(async () => (await kept()).length >= 2)
    expect(await kept()).toEqual([{ ...stored(ANN), lastsMs: HOUR }, stored('replaced', DAY)])
    expect(failures).toHaveLength(4)
  })

  test('resolves although the store does not answer', async () => {
    const { bans, restOf } = await open({ replace: () => ({ save: () => new Promise(() => {}) }) })
    await Promise.all([bans.add(BAN), bans.add({ ...BAN, clientKey: BOB })])
    expect(restOf(ANN, BOB)).toEqual([HOUR, HOUR])
  })

  test('and follow drop the oldest ban of a rule when it has too many', async () => {
    const { bans, restOf, save, lift, readAll } = await open({
      maxBans: 2,
      replace: withoutRecent,
    })
    for (const clientKey of ['a', 'b', 'a', 'c']) bans.add({ ...BAN, clientKey })
    bans.add({ ...BAN, rule: 'other', forMs: DAY })
    bans.add({ ...BAN, forMs: DAY, isDryRun: true })
    expect(restOf('a', 'b', 'c')).toEqual([HOUR, undefined, HOUR])
    await bans.saved()
    await lift('a', 'b', 'c')
    await save(stored('z', DAY), stored('x'), stored('y', 2 * HOUR))
    await readAll()
    expect(restOf('x', 'y', 'z')).toEqual([undefined, 2 * HOUR - PAUSE, DAY - PAUSE])
  })

  test('drops no ban in force for those that have ended', async () => {
    const { bans, steady, restOf } = await open({ maxBans: 2, kept: [stored('long', DAY)] })
    bans.add({ ...BAN, clientKey: 'short', forMs: MINUTE })
    steady.advance(MINUTE)
    // Meanwhile those that have ended are dropped.
    await sleep(60)
    bans.add({ ...BAN, clientKey: 'new' })
    expect(restOf('long', 'short', 'new')).toEqual([DAY - MINUTE, undefined, HOUR])
  })

  test('replaces a ban that has ended here, but not yet in the store', async () => {
    const { bans, kept, save, steady, restOf } = await open({ replace: withoutRecent })
    await bans.add({ ...BAN, forMs: MINUTE })
    // As a process with a clock that is behind has it.
    await save(stored(ANN, 2 * MINUTE))
    steady.advance(MINUTE)
    expect(restOf(ANN)).toEqual([undefined])
    expect(await bans.add(BAN)).toBe(true)
    expect(restOf(ANN)).toEqual([HOUR])
    expect(await kept()).toMatchObject([{ lastsMs: HOUR }])
  })

  test('obeys the ban that another process was first to save', async () => {
    const { bans, save, restOf } = await open({ replace: withoutRecent })
    await save(stored(ANN, DAY))
    expect(await bans.add(BAN)).toBe(false)
    expect(restOf(ANN)).toEqual([DAY])
  })
})

describe('follow', () => {
  test('does not prolong a ban that lasts too long in the store, or begin it again', async () => {
    const { steady, restOf, followChange } = await open({ kept: [stored(ANN, 3 * DAY)] })
    const rests: unknown[] = []
    for (const ms of [HOUR, DAY - HOUR]) {
      steady.advance(ms)
      await followChange()
      rests.push(...restOf(ANN))
    }
    expect(rests).toEqual([DAY - HOUR, undefined])
  })

  test('reads only what has changed, and all bans after a failure, a pause, and once a minute', async () => {
    const reads: string[] = []
    let recent: Ban[] | Error = []
    const { bans, steady, failures, changed, restOf } = await open({
      kept: [stored(ANN), stored(BOB)],
      replace: store => ({
        load: () => {
          reads.push('all')
          return store.load()
        },
        recent: async () => {
          reads.push('recent')
          if (recent instanceof Error) throw recent
          return recent
        },
      }),
    })
    const follow = async (afterMs: number) => {
      steady.advance(afterMs)
      reads.length = 0
      await bans.follow()
      return reads
    }
    recent = [{ ...stored(BOB), lastsMs: -DAY }, stored('new')]
    expect(await follow(1000)).toEqual(['recent'])
    const rest = HOUR - 1000
    expect(restOf(ANN, BOB, 'new')).toEqual([rest, undefined, rest])
    expect(changed).toEqual([`${BOB} lifted`, `new for ${HOUR} ms`])
    recent = new Error('away')
    expect(await follow(0)).toEqual(['recent'])
    expect(failures).toHaveLength(1)
    recent = []
    expect(await follow(0)).toEqual(['all'])
    expect(await follow(5001)).toEqual(['all'])
    for (let seconds = 4; seconds < 60; seconds += 4) {
      expect(await follow(4000)).toEqual(['recent'])
    }
    expect(await follow(4000)).toEqual(['all'])
  })

  test('a ban that has ended is no change of another process', async () => {
    const { steady, changed, restOf, followChange } = await open({ kept: [stored(ANN)] })
    steady.advance(HOUR)
    await followChange()
    expect([restOf(ANN), changed]).toEqual([[undefined], []])
  })

  test('drops a lifted ban of this process, but not before it was saved', async () => {
    const gate = createGate()
    const { bans, lift, restOf, followChange, readAll } = await open({
      replace: store => ({ save: (...given) => gate.opened.then(() => store.save(...given)) }),
    })
    const added = bans.add(BAN)
    await readAll()
    expect(restOf(ANN)).toEqual([HOUR - PAUSE])
    gate.open()
    await added
    await followChange()
    await lift(ANN)
    await readAll()
    expect(restOf(ANN)).toEqual([undefined])
  })

  test('keeps bans that are not in the store: those of dry runs, and those that could not be saved', async () => {
    const { bans, save, restOf, readAll } = await open({
      replace: () => ({ save: () => Promise.reject(new Error('disk full')) }),
    })
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isDryRun: true })
    await save(stored('other'))
    await readAll()
    const rest = HOUR - PAUSE
    expect(restOf(ANN, 'other')).toEqual([rest, rest])
    const ofDryRun = { rule: 'login', clientKey: BOB, isDryRun: true }
    expect([bans.remainingMs(ofDryRun), ...restOf(BOB)]).toEqual([rest, undefined])
  })

  test('keeps a ban that begins while it reads', async () => {
    let onRead = () => {}
    const { bans, restOf, readAll } = await open({
      kept: [stored(BOB)],
      replace: store => ({
        load: async function* () {
          yield* store.load()
          onRead()
          await turn()
          yield []
        },
      }),
    })
    onRead = () => void bans.add(BAN)
    await readAll()
    expect(restOf(ANN, BOB)).toEqual([HOUR, HOUR - PAUSE])
  })
})

test('what operators change while the store is being read stays changed', async () => {
  const gate = createGate()
  let isSlow = false
  const { bans, steady, restOf } = await open({
    kept: [stored(ANN)],
    replace: store => ({
      load: async function* () {
        if (isSlow) await gate.opened
        yield* store.load()
      },
    }),
  })
  await bans.follow()
  isSlow = true
  steady.advance(PAUSE)
  const followed = bans.follow()
  await turn()
  bans.obey(stored(BOB))
  const forgotten = bans.forget([stored(ANN)])
  await turn()
  gate.open()
  await Promise.all([followed, forgotten])
  expect(restOf(ANN, BOB)).toEqual([undefined, HOUR - PAUSE])
})
