import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Ban, BanStore } from '../../../src/limits/ban-store.ts'
import { createPostgresBanStore } from '../../../src/storage/postgres/postgres-ban-store.ts'
import { describeBanStore } from '../../contracts/ban-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'

async function opened(now: () => number = Date.now) {
  const url = await copyPostgresTemplate()
  const openStore = () => createPostgresBanStore(connectTo(url), { steadyNow: now, serverNow: now })
  const sql = (text: string) => queryPostgres(url, text)
  return { sql, openStore, store: openStore() }
}

function banOf(clientKey: string, more: Partial<Ban> = {}): Ban {
  return { rule: 'login', clientKey, endsAt: Date.now() + 3_600_000, lastsMs: 3_600_000, ...more }
}

async function all(store: BanStore): Promise<Ban[]> {
  const bans: Ban[] = []
  for await (const part of store.load()) bans.push(...part)
  return bans
}

describeBanStore({
  name: 'PostgreSQL',
  open: async now => {
    const { store, openStore } = await opened(now)
    return { store, other: openStore() }
  },
})

describe('createPostgresBanStore', () => {
  test('saving a ban deletes the rows of bans that have ended, and of processes that are long gone', async () => {
    const clock = createFakeClock()
    const { sql, store, openStore } = await opened(clock.now)
    const count = (table: string) => sql(`SELECT count(*) FROM ${table}`)
    const endsAt = clock.now() + 1000
    await store.revision()
    await openStore().save(banOf('ann', { endsAt }))
    await sql(`UPDATE ban_changes SET changed_at = now() - interval '2 days'`)
    clock.advance(1000)
    await store.save(banOf('bob', { endsAt: endsAt + 1000 }))
    expect([await count('bans'), await count('ban_changes')]).toEqual([
      [{ count: 1 }],
      [{ count: 1 }],
    ])
  })

  test.each([
    ['an INSERT', `INSERT INTO bans VALUES (decode(repeat('00', 32), 'hex'), 'a', 'b', 1, 1)`],
    ['an UPDATE', 'UPDATE bans SET ends_at = ends_at + 1'],
    ['a DELETE', 'DELETE FROM bans'],
    ['a TRUNCATE', 'TRUNCATE bans'],
  ])(
    '%s by an operator changes the revision, and what changes no ban does not',
    async (_, statement) => {
      const { sql, store } = await opened()
      await store.save(banOf('ann'))
      const before = await store.revision()
      await sql('DELETE FROM bans WHERE false')
      await sql(`INSERT INTO signing_keys VALUES ('other', decode(repeat('00', 32), 'hex'))`)
      expect(await store.revision()).toBe(before)
      await sql(statement)
      expect(await store.revision()).not.toBe(before)
    },
  )

  test('processes that never ask for the revision, such as commands, share one mark', async () => {
    const { sql, store, openStore } = await opened()
    let before = await store.revision()
    for (const client of ['ann', 'bob']) {
      await openStore().save(banOf(client))
      expect(await store.revision()).not.toBe(before)
      before = await store.revision()
    }
    expect(await sql('SELECT writer FROM ban_changes')).toEqual([{ writer: '' }])
  })

  test('long texts that do not compress are saved and lifted unchanged', async () => {
    const { store, openStore } = await opened()
    const text = randomBytes(12_000).toString('hex')
    const ban = banOf(text, { rule: text })
    await store.save(ban)
    await store.save({ ...ban, lastsMs: 7 })
    expect(await all(openStore())).toEqual([{ ...ban, lastsMs: 7 }])
    expect(await store.lift({ rule: text, clientKeys: [text] })).toHaveLength(1)
  })

  test('several processes can save and lift the same bans at the same time', async () => {
    const { openStore } = await opened()
    const stores = Array.from({ length: 4 }, openStore)
    const bans = Array.from({ length: 200 }, (_, index) => banOf(`client ${index}`))
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
