import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createPostgresApiKeyStore } from '../../../src/storage/postgres/postgres-api-key-store.ts'
import { describeApiKeyStore } from '../../contracts/api-key-store-contract.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

async function opened() {
  const url = await copyPostgresTemplate()
  const openStore = () => createPostgresApiKeyStore(connectTo(url))
  return { sql: (text: string) => queryPostgres(url, text), openStore, store: openStore() }
}

function newKey(name: string) {
  const scopes = ['users:read'] as const
  return { name, hash: randomBytes(32), scopes, createdAt: 0, expiresAt: undefined }
}

describeApiKeyStore({
  name: 'PostgreSQL',
  open: async () => {
    const { store, openStore } = await opened()
    return { store, commands: openStore() }
  },
})

describe('createPostgresApiKeyStore', () => {
  test('any change by an operator changes the revision', async () => {
    const { sql, store } = await opened()
    await store.create(newKey('web'))
    for (const statement of [
      `INSERT INTO api_keys VALUES ('other', decode(repeat('00', 32), 'hex'), 'users:read', 0)`,
      `UPDATE api_keys SET expires_at = 1`,
      `UPDATE api_keys SET scopes = 'users:write'`,
      `DELETE FROM api_keys WHERE name = 'other'`,
      `TRUNCATE api_keys`,
      `DELETE FROM api_key_changes`,
    ]) {
      const before = await store.revision()
      await sql(statement)
      expect(await store.revision(), statement).not.toBe(before)
    }
  })

  test('list leaves out scopes that this release does not know', async () => {
    const { sql, store } = await opened()
    await sql(`INSERT INTO api_keys VALUES
      ('web', decode(repeat('00', 32), 'hex'), 'users:write all users:read users:write', 0)`)
    expect((await store.list())[0]?.scopes).toEqual(['users:read', 'users:write'])
  })

  test('several processes can create, use and revoke the same keys at the same time', async () => {
    const { openStore, store } = await opened()
    const stores = Array.from({ length: 4 }, openStore)
    const names = Array.from({ length: 20 }, (_, index) => `key-${index}`)
    for (let round = 0; round < 5; round++) {
      const results = await Promise.all(
        stores.map(async (each, index) => {
          const mine = index % 2 === 0 ? names : names.toReversed()
          // One after the other, because a connection that does not become free in time is an error.
          const created: boolean[] = []
          for (const name of mine) created.push(await each.create(newKey(name)))
          const uses = (await each.list()).map(({ hash }) => ({ hash, usedAt: round }))
          await each.recordUses(index % 2 === 0 ? uses : uses.toReversed())
          const revoked: boolean[] = []
          for (const name of mine) revoked.push(await each.revoke(name))
          return { created, revoked }
        }),
      )
      const created = results.flatMap(result => result.created.filter(Boolean))
      expect(results.flatMap(result => result.revoked.filter(Boolean))).toHaveLength(created.length)
    }
    expect(await store.list()).toEqual([])
  })
})
