import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Ban, BanStore } from '../../../src/limits/ban-store.ts'
import { createClosing } from '../../../src/storage/postgres/batches.ts'
import { createPostgresBanStore } from '../../../src/storage/postgres/postgres-ban-store.ts'
import { describeBanStore } from '../../contracts/ban-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

const HOUR = 3_600_000

async function opened(now: () => number = Date.now) {
  const url = await copyPostgresTemplate()
  const openStore = () =>
    createPostgresBanStore({
      connections: connectTo(url),
      closing: createClosing(),
      now,
    })
  const sql = (text: string) => queryPostgres(url, text)
  return { sql, openStore, store: openStore() }
}

describeBanStore({
  name: 'PostgreSQL',
  open: async now => {
    const { store, openStore } = await opened(now)
    return { store, other: openStore() }
  },
})

describe('createPostgresBanStore', () => {
  test('saving a ban deletes the rows of bans that have ended', async () => {
    const clock = createFakeClock()
    const { sql, store } = await opened(clock.now)
    const count = async () => (await sql('SELECT count(*) FROM bans'))[0]?.count
    await store.save({ rule: 'login', clientKey: 'ann', endsAt: clock.now() + 1000, lastsMs: 1000 })
    clock.advance(1000)
    expect(await count()).toBe(1)
    await store.save({ rule: 'login', clientKey: 'bob', endsAt: clock.now() + 1000, lastsMs: 1000 })
    expect(await count()).toBe(1)
  })

  test('writes to other tables do not change the revision', async () => {
    const { sql, store } = await opened()
    const before = await store.revision()
    await sql(`INSERT INTO signing_keys VALUES ('other', decode(repeat('00', 32), 'hex'))`)
    expect(await store.revision()).toBe(before)
  })

  test.each([
    ['an INSERT', `INSERT INTO bans VALUES (decode(repeat('00', 32), 'hex'), 'a', 'b', 1, 1)`],
    ['an UPDATE', 'UPDATE bans SET ends_at = ends_at + 1'],
    ['a DELETE', 'DELETE FROM bans'],
    ['a TRUNCATE', 'TRUNCATE bans'],
  ])('%s by an operator changes the revision', async (_, statement) => {
    const { sql, store } = await opened()
    await store.save({ rule: 'login', clientKey: 'ann', endsAt: Date.now() + HOUR, lastsMs: HOUR })
    const before = await store.revision()
    await sql('DELETE FROM bans WHERE false')
    expect(await store.revision()).toBe(before)
    await sql(statement)
    expect(await store.revision()).not.toBe(before)
  })

  test('rows of processes that are long gone are deleted', async () => {
    const { sql, store, openStore } = await opened()
    const ban = { rule: 'login', clientKey: 'ann', endsAt: Date.now() + HOUR, lastsMs: HOUR }
    await openStore().save(ban)
    await sql(`UPDATE ban_changes SET changed_at = now() - interval '2 days'`)
    await store.save(ban)
    expect(await sql('SELECT count(*) FROM ban_changes')).toEqual([{ count: 1 }])
  })

  test.each([
    ['long texts that do not compress', randomBytes(12_000).toString('hex')],
    ['backslashes and NULs', '\\0\0\\\\0\0\0\\'],
    ['a backslash at the end', 'a\\'],
  ])('%s are saved and lifted unchanged', async (_, text) => {
    const { store, openStore } = await opened()
    const ban = { rule: text, clientKey: text, endsAt: Date.now() + HOUR, lastsMs: HOUR }
    await store.save(ban)
    await store.save({ ...ban, lastsMs: 7 })
    expect(await all(openStore())).toEqual([{ ...ban, lastsMs: 7 }])
    expect(await store.lift({ rule: text, clientKeys: [text] })).toHaveLength(1)
  })

  test('a lone surrogate breaks nothing', async () => {
    const { store } = await opened()
    const ban = { rule: 'login', endsAt: Date.now() + HOUR, lastsMs: HOUR }
    const keys = ['a\ud800', 'a\udfff', 'b']
    await Promise.all(keys.map(clientKey => store.save({ ...ban, clientKey })))
    expect((await all(store)).map(({ clientKey }) => clientKey)).toEqual(['a\ufffd', 'b'])
    expect(await store.lift({ clientKeys: ['a\ud800'] })).toHaveLength(1)
  })

  test('bans that end together are in the order of rule and client, as on SQLite', async () => {
    const { store } = await opened()
    const endsAt = Date.now() + HOUR
    const rules = ['a', 'B', 'é', 'b', 'aa', '_']
    await Promise.all(
      rules.flatMap(rule =>
        ['y', 'x'].map(clientKey => store.save({ rule, clientKey, endsAt, lastsMs: 1 })),
      ),
    )
    const found = (await all(store)).map(({ rule, clientKey }) => rule + clientKey)
    expect(found).toEqual(['B', '_', 'a', 'aa', 'b', 'é'].flatMap(rule => [`${rule}x`, `${rule}y`]))
  })

  test('several processes can save and lift the same bans at the same time', async () => {
    const { openStore } = await opened()
    const stores = Array.from({ length: 4 }, openStore)
    const bans = Array.from({ length: 200 }, (_, index) => ({
      rule: 'login',
      clientKey: `client ${index}`,
      endsAt: Date.now() + HOUR,
      lastsMs: HOUR,
    }))
    for (let round = 0; round < 5; round++) {
      await Promise.all(
        stores.map(async (store, index) => {
          const mine = index % 2 === 0 ? bans : bans.toReversed()
          if (index === 3) await store.lift({ rule: 'login' })
          else await Promise.all(mine.map(ban => store.save(ban)))
        }),
      )
    }
    await stores[3]?.lift({})
    expect(await all(stores[0] as BanStore)).toEqual([])
  })
})

async function all(store: BanStore): Promise<Ban[]> {
  const bans: Ban[] = []
  for await (const part of store.load()) bans.push(...part)
  return bans
}
