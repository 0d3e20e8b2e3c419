import { describe, expect, onTestFinished, test } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { ANN, BOB, DAY, HOUR, MINUTE } from '../support/limited-app.ts'
import { memoryBans } from '../support/memory-bans.ts'
import { until } from '../support/until.ts'

const START = createFakeClock().now()

const BAN = { rule: 'login', clientKey: ANN, forMs: HOUR, isKept: true }

/** A ban in the store that ends some time after the start of the clocks. */
function stored(clientKey: string, endsAfterMs = HOUR): Ban {
  return { rule: 'login', clientKey, endsAt: START + endsAfterMs, lastsMs: DAY }
}

/** A list of bans over a store in memory of which parts may be replaced. */
async function open({
  kept = [],
  maxBans,
  replace = () => ({}),
}: {
  kept?: Ban[]
  maxBans?: number
  replace?: (store: BanStore) => Partial<BanStore>
} = {}) {
  const wall = createFakeClock()
  const steady = createFakeClock(5000)
  const failures: unknown[] = []
  const readFailures: unknown[] = []
  const foreign: string[] = []
  const store = memoryBans(kept)
  const bans = await openBanList({
    store: { ...store, ...replace(store) },
    now: wall.now,
    monotonicNow: steady.now,
    onStoreFailure: error => failures.push(error),
    onReadFailure: error => readFailures.push(error),
    onForeignChange: ({ happened, ban: { rule, clientKey, endsAt } }) => {
      foreign.push(`${happened} ${rule} ${clientKey} for ${endsAt - START} ms`)
    },
    ...(maxBans !== undefined && { maxBans }),
  })
  onTestFinished(() => bans.close())
  return {
    ...{ bans, kept, wall, steady, failures, readFailures, foreign },
    restOf: (...keys: string[]) => keys.map(key => bans.remainingMs('login', key)),
    /** Follows the store after another process has changed it. */
    followChange: () => {
      store.written()
      return bans.follow()
    },
  }
}

/** A promise to be resolved from outside. */
function createGate() {
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open: () => open() }
}

function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

/** A method of a store that fails while `isBroken()`. */
function unreadable(store: BanStore, method: 'load' | 'revision', isBroken = () => true) {
  return {
    [method]: () => {
      if (isBroken()) throw new Error('unreadable')
      return store[method]()
    },
  }
}

test('openBanList rejects when the stored bans cannot be read', async () => {
  const opened = open({ replace: store => unreadable(store, 'load') })
  await expect(opened).rejects.toThrow('unreadable')
})

describe('add', () => {
  test('of a ban that the store refuses is tried again, unless the ban ended or was replaced', async () => {
    let isAway = true
    const { bans, kept, steady, failures } = await open({
      replace: store => ({
        save: async ban => {
          if (isAway) throw new Error('away')
          await store.save(ban)
        },
      }),
    })
    bans.add({ ...BAN, clientKey: 'ended', forMs: MINUTE })
    bans.add({ ...BAN, clientKey: 'replaced' })
    bans.add({ ...BAN, clientKey: 'replaced', forMs: DAY })
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: 'in dry run', isKept: false })
    await bans.saved()
    expect(failures).toHaveLength(4)
    steady.advance(MINUTE)
    isAway = false
    await until(() => kept.length >= 2)
    expect(kept).toEqual([stored('replaced', DAY), { ...stored(ANN), lastsMs: HOUR }])
    expect(failures).toHaveLength(4)
  })

  test('is not affected when the wall clock is set, forwards or back', async () => {
    const { bans, wall, restOf } = await open()
    bans.add(BAN)
    for (const byMs of [DAY, -2 * DAY]) {
      wall.advance(byMs)
      expect(restOf(ANN)).toEqual([HOUR])
    }
  })

  test('resolves when the store has the ban, which is in force before', async () => {
    const gate = createGate()
    const { bans, kept, restOf } = await open({
      replace: store => ({ save: ban => gate.opened.then(() => store.save(ban)) }),
    })
    let isAdded = false
    const added = Promise.resolve(bans.add(BAN)).finally(() => {
      isAdded = true
    })
    expect(restOf(ANN)).toEqual([HOUR])
    await turn()
    expect(isAdded).toBe(false)
    gate.open()
    await added
    expect(kept).toHaveLength(1)
  })

  test('resolves although the store does not answer', async () => {
    const { bans, restOf } = await open({ replace: () => ({ save: () => new Promise(() => {}) }) })
    await bans.add(BAN)
    await bans.add({ ...BAN, clientKey: BOB })
    expect(restOf(BOB)).toEqual([HOUR])
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
})

describe('follow', () => {
  test('takes over a ban that another process made, by the wall clock', async () => {
    const { bans, kept, wall, steady, foreign, restOf, followChange } = await open()
    wall.advance(DAY)
    kept.push(stored(ANN, DAY + HOUR))
    await bans.follow()
    expect(bans.isEmpty()).toBe(true)
    await followChange()
    expect(restOf(ANN)).toEqual([HOUR])
    expect(foreign).toEqual([`made login ${ANN} for ${DAY + HOUR} ms`])
    wall.advance(-DAY)
    steady.advance(MINUTE)
    await followChange()
    expect(restOf(ANN)).toEqual([59 * MINUTE])
    expect(foreign).toHaveLength(1)
  })

  test('takes over a changed end, and drops a ban that another process lifted', async () => {
    const { kept, foreign, restOf, followChange } = await open({ kept: [stored(ANN), stored(BOB)] })
    kept.splice(0, 2, stored(BOB, MINUTE))
    await followChange()
    expect(restOf(ANN, BOB)).toEqual([undefined, MINUTE])
    expect(foreign).toEqual([
      `made login ${BOB} for ${MINUTE} ms`,
      `lifted login ${ANN} for ${HOUR} ms`,
    ])
  })

  test('drops a lifted ban of this process, but not before it was saved', async () => {
    const gate = createGate()
    const { bans, restOf, followChange } = await open({
      replace: () => ({ save: () => gate.opened }),
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
    const { bans, kept, foreign, restOf, followChange } = await open({
      replace: () => ({ save: () => Promise.reject(new Error('disk full')) }),
    })
    bans.add(BAN)
    bans.add({ ...BAN, clientKey: BOB, isKept: false })
    kept.push(stored('other'))
    await followChange()
    expect(restOf(ANN, BOB, 'other')).toEqual([HOUR, HOUR, HOUR])
    expect(foreign).toEqual([`made login other for ${HOUR} ms`])
  })

  test('keeps a ban that begins while it reads', async () => {
    let gate = createGate()
    const { bans, restOf, followChange } = await open({
      replace: () => ({
        load: async function* () {
          gate.open()
          yield [stored(BOB)]
          await turn()
          yield []
        },
      }),
    })
    gate = createGate()
    const following = followChange()
    await gate.opened
    bans.add(BAN)
    await following
    expect(restOf(ANN, BOB)).toEqual([HOUR, HOUR])
  })

  test('does not restart a ban that has ended here, while the wall clock is still behind', async () => {
    const { bans, wall, steady, restOf, followChange } = await open()
    bans.add(BAN)
    wall.advance(-DAY)
    steady.advance(HOUR)
    expect(restOf(ANN)).toEqual([undefined])
    bans.add({ ...BAN, clientKey: BOB })
    await followChange()
    expect(restOf(ANN, BOB)).toEqual([undefined, HOUR])
    bans.add(BAN)
    expect(restOf(ANN)).toEqual([HOUR])
  })

  test('reports no change when a ban has ended by itself', async () => {
    const { bans, kept, steady, foreign, followChange } = await open({ kept: [stored(ANN)] })
    steady.advance(HOUR)
    kept.length = 0
    await followChange()
    expect(foreign).toEqual([])
    expect(bans.isEmpty()).toBe(true)
  })

  test.each(['load', 'revision'] as const)(
    'keeps the previous bans while %s of the store fails, and reports it once',
    async method => {
      let isBroken = false
      const { kept, readFailures, restOf, followChange } = await open({
        kept: [stored(ANN)],
        replace: store => unreadable(store, method, () => isBroken),
      })
      isBroken = true
      kept.length = 0
      for (let count = 0; count < 3; count++) await followChange()
      expect(readFailures).toHaveLength(1)
      expect(restOf(ANN)).toEqual([HOUR])
      isBroken = false
      await followChange()
      expect(restOf(ANN)).toEqual([undefined])
      isBroken = true
      await followChange()
      expect(readFailures).toHaveLength(2)
    },
  )

  test('never reads a slow store twice at the same time, and close waits for the read', async () => {
    let reads = 0
    const gate = createGate()
    const { bans } = await open({
      replace: store => ({
        revision: async () => {
          reads++
          if (reads > 1) await gate.opened
          return store.revision()
        },
      }),
    })
    const following = [bans.follow(), bans.follow(), bans.follow()]
    await turn()
    expect(reads).toBe(2)
    let isClosed = false
    const closing = bans.close().then(() => {
      isClosed = true
    })
    await turn()
    expect(isClosed).toBe(false)
    gate.open()
    await Promise.all([...following, closing])
    expect(reads).toBe(2)
  })

  test('ends early when the list is closed', async () => {
    let parts = 0
    const { bans, followChange } = await open({
      replace: () => ({
        load: async function* () {
          for (; parts < 100; parts++) {
            yield []
            await turn()
          }
        },
      }),
    })
    parts = 0
    void followChange()
    await bans.close()
    expect(parts).toBeLessThan(100)
  })
})
