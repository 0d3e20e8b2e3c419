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
  const sql = (text: string) => queryPostgres(url, text)
  return { sql, openStore, store: openStore() }
}

describeApiKeyStore({
  name: 'PostgreSQL',
  open: async () => {
    const { store, openStore } = await opened()
    return { store, commands: openStore() }
  },
})

describe('createPostgresApiKeyStore', () => {
  test.each([
    `INSERT INTO api_keys VALUES ('other', decode(repeat('00', 32), 'hex'), 'users:read', 0)`,
    `UPDATE api_keys SET expires_at = 1`,
    `UPDATE api_keys SET scopes = 'users:write'`,
    `DELETE FROM api_keys`,
    `TRUNCATE api_keys`,
    `DELETE FROM api_key_changes`,
  ])('%s by an operator changes the revision', async statement => {
    const { sql, store } = await opened()
    await store.create({
      name: 'web',
      hash: Buffer.alloc(32, 1),
      scopes: ['users:read'],
      createdAt: 0,
      expiresAt: undefined,
    })
    const before = await store.revision()
    await sql(statement)
    expect(await store.revision()).not.toBe(before)
  })

  test('list leaves out scopes that this release does not know', async () => {
    const { sql, store } = await opened()
    await sql(`INSERT INTO api_keys VALUES
      ('web', decode(repeat('00', 32), 'hex'), 'users:write all users:read users:write', 0)`)
    expect((await store.list())[0]?.scopes).toEqual(['users:read', 'users:write'])
  })

  test('several processes can create, use and revoke the same keys at the same time', async () => {
    const { openStore } = await opened()
    const stores = Array.from({ length: 4 }, openStore)
    const names = Array.from({ length: 20 }, (_, index) => `key-${index}`)
    const newKey = (name: string) => ({
      name,
      hash: randomBytes(32),
      scopes: ['users:read'] as const,
      createdAt: 0,
      expiresAt: undefined,
    })
    for (let round = 0; round < 5; round++) {
      const results = await Promise.all(
        stores.map(async (store, index) => {
          const mine = index % 2 === 0 ? names : names.toReversed()
          const created = await Promise.all(mine.map(name => store.create(newKey(name))))
          const uses = (await store.list()).map(({ hash }) => ({ hash, usedAt: round }))
          await store.recordUses(index % 2 === 0 ? uses : uses.toReversed())
          const revoked = await Promise.all(mine.map(name => store.revoke(name)))
          return { created, revoked }
        }),
      )
      const count = (all: boolean[][]) => all.flat().filter(Boolean).length
      expect(count(results.map(({ created }) => created))).toBe(
        count(results.map(({ revoked }) => revoked)),
      )
    }
    expect(await stores[0]?.list()).toEqual([])
  })
})
