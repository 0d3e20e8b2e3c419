import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { ANN, BOB, DAY, HOUR, MINUTE } from '../support/limited-app.ts'
import { until } from '../support/until.ts'

const START = createFakeClock().now()

const BAN = { rule: 'login', clientKey: ANN, forMs: HOUR }

/** A ban in the store that ends some time after the start of the clocks. */
function stored(clientKey: string, endsAfterMs = HOUR): Ban {
  return { rule: 'login', clientKey, endsAt: START + endsAfterMs, lastsMs: DAY }
}

interface Scene {
  readonly kept?: Ban[]
  readonly maxBans?: number
  /** Replaces parts of the store. */
  readonly replace?: (store: BanStore) => Partial<BanStore>
}

/** A list of bans over a store in memory. */
async function open({ kept = [], maxBans, replace = () => ({}) }: Scene = {}) {
  const steady = createFakeClock(5000)
  const failures: unknown[] = []
  const changed: string[] = []
  const store: BanStore = {
    now: async () => START + steady.now() - 5000,
    load: async function* () {
      yield [...kept]
    },
    list: async ({ limit }) => ({ bans: kept.slice(0, limit), hasMore: kept.length > limit }),
    save: async ban => kept.push(ban) > 0,
    lift: async () => kept.splice(0),
    recent: async () => undefined,
  }
  const bans = await openBanList({
    store: { ...store, ...replace(store) },
    monotonicNow: steady.now,
    onStoreFailure: error => failures.push(error),
    onReadFailure: error => failures.push(error),
    onForeignChange: ({ clientKey, endsAt }) => {
      changed.push(`${clientKey} for ${endsAt - START} ms`)
    },
    ...(maxBans !== undefined && { maxBans }),
  })
  onTestFinished(() => bans.close())
  return {
    ...{ bans, kept, steady, failures, changed },
    restOf: (...keys: string[]) =>
      keys.map(clientKey => bans.remainingMs({ rule: 'login', clientKey })),
    /** Follows the store after another process has changed it. */
    followChange: () => bans.follow(),
  }
}

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
    await until(() => kept.length >= 2)
    expect(kept).toEqual([stored('replaced', DAY), { ...stored(ANN), lastsMs: HOUR }])
    expect(failures).toHaveLength(4)
  })

  test('resolves although the store does not answer', async () => {
    const { bans, restOf } = await open({ replace: () => ({ save: () => new Promise(() => {}) }) })
    await Promise.all([bans.add(BAN), bans.add({ ...BAN, clientKey: BOB })])
    expect(restOf(ANN, BOB)).toEqual([HOUR, HOUR])
  })

  test('and follow drop the oldest ban when there are too many', async () => {
    const { bans, kept, restOf, followChange } = await open({ maxBans: 2 })
    for (const clientKey of ['a', 'b', 'a', 'c']) bans.add({ ...BAN, clientKey })
    expect(restOf('a', 'b', 'c')).toEqual([HOUR, undefined, HOUR])
    await bans.saved()
    kept.splice(0, Infinity, stored('x'), stored('y'), stored('z'))
    await followChange()
    expect(restOf('x', 'y', 'z')).toEqual([undefined, HOUR, HOUR])
  })

  test('and follow drop no ban of one rule for those of another', async () => {
    const { bans, kept, restOf, followChange } = await open({ maxBans: 1 })
    bans.add(BAN)
    bans.add({ ...BAN, rule: 'other' })
    bans.add({ ...BAN, clientKey: BOB, isDryRun: true })
    expect(restOf(ANN)).toEqual([HOUR])
    await bans.saved()
    kept.splice(0, Infinity, stored(ANN, MINUTE), { ...stored(BOB), rule: 'other' })
    await followChange()
    expect(restOf(ANN)).toEqual([MINUTE])
  })

  test('drops no ban in force for those that have ended', async () => {
    const { bans, steady, restOf } = await open({ maxBans: 2, kept: [stored('long', DAY)] })
    bans.add({ ...BAN, clientKey: 'short', forMs: MINUTE })
    steady.advance(MINUTE)
    // Twice a second those that have ended are dropped.
    await sleep(600)
    bans.add({ ...BAN, clientKey: 'new' })
    expect(restOf('long', 'short', 'new')).toEqual([DAY - MINUTE, undefined, HOUR])
  })

  test('replaces a ban that has ended here, but not yet in the store', async () => {
    const { bans, kept, steady, restOf } = await open({
      replace: store => ({
        save: async (ban, how) => (how?.replaces || kept.length === 0) && store.save(ban),
      }),
    })
    await bans.add({ ...BAN, forMs: MINUTE })
    steady.advance(MINUTE)
    expect(restOf(ANN)).toEqual([undefined])
    expect(await bans.add(BAN)).toBe(true)
    expect(restOf(ANN)).toEqual([HOUR])
    expect(kept.at(-1)).toMatchObject({ lastsMs: HOUR })
  })

  test('obeys the ban that another process was first to save', async () => {
    const { bans, kept, restOf } = await open({
      replace: () => ({ save: async () => false }),
    })
    kept.push(stored(ANN, DAY))
    expect(await bans.add(BAN)).toBe(false)
    expect(restOf(ANN)).toEqual([DAY])
  })
})

describe('follow', () => {
  test('takes over bans that another process makes, changes and lifts, by the clock of the store', async () => {
    const { kept, steady, changed, restOf, followChange } = await open({ kept: [stored(BOB, DAY)] })
    steady.advance(30 * MINUTE)
    kept.push(stored(ANN))
    await followChange()
    expect(restOf(ANN)).toEqual([30 * MINUTE])
    kept.splice(0, 2, stored(ANN, 2 * HOUR))
    await followChange()
    expect(restOf(ANN, BOB)).toEqual([90 * MINUTE, undefined])
    const [made, prolonged] = [HOUR, 2 * HOUR].map(ms => `${ANN} for ${ms} ms`)
    expect(changed).toEqual([made, prolonged, `${BOB} for ${DAY} ms`])
  })

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
    const { steady, failures, changed, restOf, followChange } = await open({
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
      await followChange()
      return reads
    }
    recent = [{ ...stored(BOB), lastsMs: -DAY }, stored('new')]
    expect(await follow(1000)).toEqual(['recent'])
    const rest = HOUR - 1000
    expect(restOf(ANN, BOB, 'new')).toEqual([rest, undefined, rest])
    expect(changed).toEqual([`${BOB} for ${HOUR} ms`, `new for ${HOUR} ms`])
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
    const { steady, changed, restOf, followChange, kept } = await open({ kept: [stored(ANN)] })
    steady.advance(HOUR)
    kept.pop()
    await followChange()
    expect([restOf(ANN), changed]).toEqual([[undefined], []])
  })

  test('drops a lifted ban of this process, but not before it was saved', async () => {
    const gate = createGate()
    const { bans, restOf, followChange } = await open({
      replace: () => ({ save: () => gate.opened.then(() => true) }),
    })
    const added = bans.add(BAN)
    await followChange()
    expect(restOf(ANN)).toEqual([HOUR])
    gate.open()
    await added
    await followChange()
    expect(restOf(ANN)).toEqual([undefined])
  })

  test('keeps bans that are not in the store: those of dry runs, and those that could not be saved', async () => {
    const { bans, kept, restOf, followChange } = await open({
      replace: () => ({ save: () => Promise.reject(new Error('disk full')) }),
    })
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isDryRun: true })
    kept.push(stored('other'))
    await followChange()
    expect(restOf(ANN, 'other')).toEqual([HOUR, HOUR])
    const ofDryRun = { rule: 'login', clientKey: BOB, isDryRun: true }
    expect([bans.remainingMs(ofDryRun), ...restOf(BOB)]).toEqual([HOUR, undefined])
  })

  test('keeps a ban that begins while it reads', async () => {
    let onRead = () => {}
    const { bans, restOf, followChange } = await open({
      replace: () => ({
        load: async function* () {
          onRead()
          yield [stored(BOB)]
          await turn()
          yield []
        },
      }),
    })
    onRead = () => void bans.add(BAN)
    await followChange()
    expect(restOf(ANN, BOB)).toEqual([HOUR, HOUR])
  })
})

test('what operators change while the store is being read stays changed', async () => {
  const gate = createGate()
  let isSlow = false
  const { bans, restOf, followChange } = await open({
    kept: [stored(ANN)],
    replace: () => ({
      load: async function* () {
        if (isSlow) await gate.opened
        yield [stored(ANN)]
      },
    }),
  })
  isSlow = true
  const followed = followChange()
  await turn()
  bans.obey(stored(BOB))
  const forgotten = bans.forget([stored(ANN)])
  await turn()
  gate.open()
  await Promise.all([followed, forgotten])
  expect(restOf(ANN, BOB)).toEqual([undefined, HOUR])
})
