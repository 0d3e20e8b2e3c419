import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Ban, BanQuery, BanSelection, BanStore } from '../../src/limits/ban-store.ts'
import { byEngine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openStored } from '../support/stored.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const MANY = 2500

const ANN = '198.51.100.1'

/** In the order of their bytes as UTF-8. */
const ODD_TEXTS = [
  ...['', '\0', '\n', '%', "'; --", 'A', '\\', '\\\0', '\\0', '\\0\0\\\\0\0\0\\', '__proto__'],
  ...['a', 'a\0b', 'aA', 'a\\', 'ab', 'é', '\uffee', '😀'],
]
/** How a ban is saved that must not replace one in force. */
const FIRST = { replaces: false }

const LONG = '😀'.repeat(5000)

/** An empty store, and the same store as another process opens it. The clock stands for those of the machine. */
async function opened() {
  const clock = createFakeClock()
  const { storage, again, sql } = await openStored({ now: clock.now })
  const store = storage.bans
  const openOther = async (aheadMs = 0) => (await again({ now: () => clock.now() + aheadMs })).bans
  const startedAt = (await store.now()) - clock.now()
  const banOf = (rule: string, clientKey: string, minutes = 60): Ban => {
    const endsAt = startedAt + clock.now() + minutes * MINUTE
    return { rule, clientKey, endsAt, lastsMs: HOUR }
  }
  /** In the order of clients. */
  const recentOf = async (each: BanStore) =>
    (await each.recent())?.toSorted((one, next) => (one.clientKey < next.clientKey ? -1 : 1))
  return { clock, banOf, recentOf, store, sql, openOther, other: await openOther() }
}

describe('BanStore', () => {
  test('load returns the last ban of each rule and client, ordered by their end, in every process', async () => {
    const { store, other, banOf } = await opened()
    const bans = [banOf('login', ANN, 1), banOf('other', ANN, 60), banOf('login', 'é', 120)]
    await store.save(banOf('other', ANN, 240))
    for (const ban of bans.toReversed()) await store.save(ban)
    expect(await all(store)).toEqual(bans)
    expect(await all(other)).toEqual(bans)
  })

  test('save without replacing saves a ban unless one of its rule and client is in force, in whichever process', async () => {
    const { store, other, banOf, clock } = await opened()
    const ban = banOf('login', ANN, 1)
    expect(await store.save(ban, FIRST)).toBe(true)
    for (const each of [store, other])
      expect(await each.save(banOf('login', ANN, 2), FIRST)).toBe(false)
    expect(await all(other)).toEqual([ban])
    const neighbours = [banOf('other', ANN), banOf('login', 'é')]
    for (const each of neighbours) expect(await other.save(each, FIRST)).toBe(true)
    await store.lift({ rule: 'login', clientKeys: [ANN] })
    expect(await other.save(ban, FIRST)).toBe(true)
    clock.advance(MINUTE)
    const next = banOf('login', ANN, 3)
    expect(await store.save(next, FIRST)).toBe(true)
    expect(await all(store)).toEqual([next, ...neighbours.toReversed()])
  })

  test('of bans that two processes save at once without replacing, one is saved', async () => {
    const { store, other, banOf } = await opened()
    for (let round = 0; round < 10; round++) {
      const bans = [banOf('login', `${round}`, 1), banOf('login', `${round}`, 2)] as const
      const begun = await Promise.all([store.save(bans[0], FIRST), other.save(bans[1], FIRST)])
      expect(begun.toSorted()).toEqual([false, true])
      const { bans: found } = await store.list({ rule: 'login', limit: 100 })
      expect(found).toContainEqual(bans[begun.indexOf(true)])
    }
  })

  test('of bans of one client that are saved at once the last counts, and without replacing the first', async () => {
    const { store, banOf } = await opened()
    const bans = [1, 2, 3].map(minutes => banOf('login', ANN, minutes))
    const neighbour = banOf('login', 'é', 4)
    const save = (ban: Ban, how = FIRST) => store.save(ban, how)
    expect(await Promise.all([...bans, neighbour].map(ban => save(ban)))).toEqual([
      ...[true, false, false],
      true,
    ])
    expect(await all(store)).toEqual([bans[0], neighbour])
    const replaced = await Promise.all(bans.map(ban => save(ban, { replaces: true })))
    expect(replaced).toEqual([true, true, true])
    expect(await all(store)).toEqual([bans[2], neighbour])
  })

  test('load yields many bans in pages, each ban once', async () => {
    const { store, banOf } = await opened()
    // Many bans with the same end, so that a page can end between two of them.
    const bans = Array.from({ length: MANY }, (_, index) =>
      banOf(`rule ${index % 3}`, `client ${index}`, 1 + Math.floor(index / 700)),
    )
    await Promise.all(bans.map(ban => store.save(ban)))
    let parts = 0
    for await (const _part of store.load()) parts++
    expect(parts).toBeGreaterThan(1)
    const found = await all(store)
    expect(found).toHaveLength(MANY)
    expect(new Set(found.map(({ clientKey }) => clientKey)).size).toBe(MANY)
    const ends = found.map(({ endsAt }) => endsAt)
    expect(ends).toEqual(ends.toSorted((one, other) => one - other))
  })

  test('odd texts, and long ones that do not compress, are saved and lifted unchanged', async () => {
    const { store, other, banOf } = await opened()
    for (const text of [...ODD_TEXTS, randomBytes(12_000).toString('hex')]) {
      const [ban, neighbour] = [banOf(text, text), banOf(text, `${text}x`)]
      for (const each of [{ ...ban, lastsMs: 7 }, ban, neighbour]) await store.save(each)
      expect(await all(other)).toContainEqual(ban)
      expect((await store.list({ clientKeys: [text], limit: 9 })).bans).toEqual([ban])
      expect(await store.lift({ rule: text, clientKeys: [text] })).toEqual([ban])
      expect(await all(store)).toEqual([neighbour])
      await store.lift({})
    }
  })

  test('a ban that has ended is neither loaded, listed nor lifted', async () => {
    const { store, clock, banOf } = await opened()
    const [ban, late] = [banOf('login', ANN, 1), banOf('login', 'late', 2)]
    for (const each of [late, ban]) await store.save(each)
    clock.advance(MINUTE - 1)
    expect(await all(store)).toEqual([ban, late])
    clock.advance(1)
    expect(await all(store)).toEqual([late])
    expect(await store.list({ limit: 1 })).toEqual({ bans: [late], hasMore: false })
    expect(await store.lift({})).toEqual([late])
  })

  test.each<[BanSelection, string[]]>([
    [{ rule: 'a' }, ['ax', 'ay']],
    [{ clientKeys: ['y', 'z'] }, ['ay', 'by']],
    [{ clientKeys: ['y', 'x'] }, ['ax', 'ay', 'bx', 'by']],
    [{ rule: 'b', clientKeys: ['x'] }, ['bx']],
    [{ rule: 'c' }, []],
    [{ clientKeys: [] }, []],
    [{}, ['ax', 'ay', 'bx', 'by']],
  ])('%j lists and lifts those bans and no others', async (selection, names) => {
    const { store, other, banOf } = await opened()
    const bans = [banOf('a', 'x', 1), banOf('a', 'y', 2), banOf('b', 'x', 3), banOf('b', 'y', 4)]
    await Promise.all(bans.map(ban => store.save(ban)))
    const namesOf = (found: readonly Ban[]) => found.map(({ rule, clientKey }) => rule + clientKey)
    const { listed } = await walk(store, { ...selection, limit: 1 })
    expect(namesOf(listed)).toEqual(names)
    expect(namesOf(await store.lift(selection))).toEqual(names)
    const left = ['ax', 'ay', 'bx', 'by'].filter(each => !names.includes(each))
    expect(namesOf(await all(other))).toEqual(left)
  })

  test('list returns pages by rule and then client, as UTF-8, whatever the ends, in every process', async () => {
    const { store, other, banOf } = await opened()
    const bans = [...ODD_TEXTS, LONG].flatMap((rule, index) =>
      ['', `${rule}1`, `${rule}2`].map(key => banOf(rule, key, 99 - index)),
    )
    await Promise.all(bans.toReversed().map(ban => store.save(ban)))
    for (const each of [store, other]) {
      const { listed, sizes } = await walk(each, { limit: 7 })
      expect(listed).toEqual(bans)
      expect(sizes).toEqual([...Array(8).fill(7), 4])
    }
    expect((await store.list({ limit: 60 })).hasMore).toBe(false)
    expect((await store.list({ limit: 59 })).hasMore).toBe(true)
  })

  test('list finds clients by a part of their key, whatever its case, beside those of the keys', async () => {
    const { store, banOf } = await opened()
    const keys = ['10.0.0.1', '10.0.0.12', '110.0.0.1', 'Ann%_!\\', 'ann', '2001:db8::/56', 'Ü\0x']
    for (const key of keys) await store.save(banOf('a', key))
    await store.save(banOf('b', '10.0.0.1'))
    const found = async (keyPart: string, query: Partial<BanQuery> = {}) =>
      (await store.list({ rule: 'a', keyPart, limit: 9, ...query })).bans.map(
        ({ clientKey }) => clientKey,
      )
    expect(await found('10.0.0.1')).toEqual(['10.0.0.1', '10.0.0.12', '110.0.0.1'])
    expect(await found('ANN')).toEqual(['Ann%_!\\', 'ann'])
    expect(await found('2001:DB8')).toEqual(['2001:db8::/56'])
    for (const odd of ['%', '_', '!', '\\']) expect(await found(odd)).toEqual(['Ann%_!\\'])
    for (const part of ['\0', 'X', 'Ü']) expect(await found(part)).toEqual(['Ü\0x'])
    expect(await found('0.12', { clientKeys: ['ann'] })).toEqual(['10.0.0.12', 'ann'])
    const after = { rule: 'a', clientKey: '10.0.0.1' }
    expect(await found('0.0', { after })).toEqual(['10.0.0.12', '110.0.0.1'])
  })

  test('list goes on after a place where no ban is any more, also of a rule', async () => {
    const { store, banOf } = await opened()
    const bans = [banOf('a', '1'), banOf('a', '3'), banOf('b', '0')]
    for (const ban of bans) await store.save(ban)
    const after = { rule: 'a', clientKey: '2' }
    expect((await store.list({ after, limit: 9 })).bans).toEqual(bans.slice(1))
    expect((await store.list({ rule: 'a', after, limit: 9 })).bans).toEqual(bans.slice(1, 2))
    expect((await store.list({ rule: 'b', after, limit: 9 })).bans).toEqual(bans.slice(2))
  })

  test('recent has what any process has made, changed or lifted within ten seconds', async () => {
    const { store, other, banOf, recentOf } = await opened()
    expect(await recentOf(store)).toEqual([])
    const [ban, lifted] = [banOf('login', ANN), banOf('login', 'é')]
    for (const each of [ban, lifted]) await other.save(each)
    expect(await recentOf(store)).toEqual([ban, lifted])
    await other.save({ ...ban, endsAt: ban.endsAt + 1 })
    await store.lift({ clientKeys: ['é'] })
    const changed = [
      { ...ban, endsAt: ban.endsAt + 1 },
      { ...lifted, lastsMs: -HOUR },
    ]
    for (const each of [store, other]) expect(await recentOf(each)).toEqual(changed)
    await other.save(lifted, FIRST)
    expect(await recentOf(store)).toContainEqual(lifted)
  })

  test.skipIf(byEngine({ sqlite: true, postgres: false }))(
    'after a failover to a server whose clock is slower, recent has its changes, and lifted bans stay lifted',
    async () => {
      const { store, openOther, banOf, recentOf } = await opened()
      const slow = await openOther(-MINUTE)
      const [ban, lifted] = [banOf('login', ANN), banOf('login', 'é')]
      for (const each of [ban, lifted]) await slow.save(each)
      await store.lift({ clientKeys: ['é'] })
      for (const each of [store, slow]) {
        expect(await recentOf(each)).toEqual([ban, { ...lifted, lastsMs: -HOUR }])
        expect(await all(each)).toEqual([ban])
      }
    },
  )

  test('recent has no change of long ago, and none of the bans that have ended', async () => {
    const { store, sql, clock, banOf, recentOf } = await opened()
    await store.save(banOf('login', ANN, 0.1))
    await store.save(banOf('login', 'old'))
    await sql(`UPDATE bans SET changed_at = changed_at - 10001 WHERE client_key = 'old'`)
    clock.advance(6000)
    expect(await recentOf(store)).toEqual([])
  })

  test('recent leaves many changes to load', async () => {
    const { store, sql } = await opened()
    const endsAt = (await store.now()) + HOUR
    await store.save({ rule: 'login', clientKey: ANN, endsAt, lastsMs: HOUR })
    await sql(
      byEngine({
        sqlite: `INSERT INTO bans (rule, client_key, ends_at, lasts_ms, changed_at)
          WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 10000)
          SELECT rule, n, ends_at, lasts_ms, changed_at FROM bans, n`,
        postgres: `INSERT INTO bans (key_hash, rule, client_key, ends_at, lasts_ms, changed_at)
          SELECT sha256(n::text::bytea), rule, n::text, ends_at, lasts_ms, changed_at
          FROM bans, generate_series(1, 10000) AS n`,
      }),
    )
    expect(await store.recent()).toBe(undefined)
    expect(await all(store)).toHaveLength(10_001)
  })

  test('save deletes some of the bans that have ended, until none is left', async () => {
    const { sql, store, clock } = await opened()
    const save = async (clientKey: string) =>
      store.save({ rule: 'login', clientKey, endsAt: (await store.now()) + 1000, lastsMs: 1000 })
    await Promise.all(Array.from({ length: 25 }, (_, index) => save(`client ${index}`)))
    clock.advance(61_000)
    const left: number[] = []
    for (const name of ['ann', 'bob', 'eve', 'ann']) {
      await save(name)
      left.push((await sql('SELECT 1 FROM bans')).length)
    }
    expect(left).toEqual([16, 7, 3, 3])
  })

  test('several processes can save and lift the same bans at the same time', async () => {
    const { store, other, openOther, banOf } = await opened()
    const stores = [store, other, await openOther(), await openOther()]
    const bans = Array.from({ length: 200 }, (_, index) => banOf('login', `client ${index}`))
    for (let round = 0; round < 5; round++) {
      await Promise.all(
        stores.map(async (each, index) => {
          const mine = index % 2 === 0 ? bans : bans.toReversed()
          if (index === 3) await each.lift({ rule: 'login' })
          else await Promise.all(mine.map(ban => each.save(ban)))
        }),
      )
    }
    await other.lift({})
    expect(await all(store)).toEqual([])
  })
})

async function all(store: BanStore): Promise<Ban[]> {
  const bans: Ban[] = []
  for await (const part of store.load()) bans.push(...part)
  return bans
}

/** All bans that match, and the sizes of the pages. */
async function walk(store: BanStore, query: BanQuery) {
  const listed: Ban[] = []
  const sizes: number[] = []
  let { after } = query
  for (;;) {
    const { bans, hasMore } = await store.list({ ...query, ...(after && { after }) })
    listed.push(...bans)
    sizes.push(bans.length)
    if (sizes.length > MANY) throw new Error('the list has no end')
    after = bans.at(-1)
    if (!hasMore || after === undefined) return { listed, sizes }
  }
}
