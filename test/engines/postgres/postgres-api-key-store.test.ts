import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createApiKeyStore } from '../../../src/storage/create-api-key-store.ts'
import { createPostgresSharedStatements } from '../../../src/storage/postgres/postgres-connections.ts'
import { describeApiKeyStore, keyNamed } from '../../contracts/api-key-store-contract.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'

async function opened() {
  const url = await copyPostgresTemplate()
  const openStore = () => createApiKeyStore(createPostgresSharedStatements(connectTo(url)))
  return { sql: (text: string) => queryPostgres(url, text), openStore, store: openStore() }
}

describeApiKeyStore({
  name: 'PostgreSQL',
  open: async () => {
    const { store, openStore } = await opened()
    return { store, commands: openStore() }
  },
})

test('any change by an operator changes the revision, and unknown scopes are left out', async () => {
  const { sql, store } = await opened()
  await store.create(keyNamed('web'))
  for (const statement of [
    `INSERT INTO api_keys
      VALUES ('other', decode(repeat('00', 32), 'hex'), 'users:write all users:read users:write', 0)`,
    `UPDATE api_keys SET expires_at = 1`,
    `DELETE FROM api_keys WHERE name = 'web'`,
    `DELETE FROM api_key_changes`,
  ]) {
    const before = await store.revision()
    await sql(statement)
    expect(await store.revision(), statement).not.toBe(before)
  }
  expect(await store.list()).toMatchObject([{ scopes: ['users:read', 'users:write'] }])
  const before = await store.revision()
  await sql('TRUNCATE api_keys')
  expect(await store.revision()).not.toBe(before)
})

test('several processes can create, use and revoke the same keys at the same time', async () => {
  const { openStore, store } = await opened()
  const names = Array.from({ length: 20 }, (_, index) => `key-${index}`)
  const work = async (each: ReturnType<typeof openStore>, mine: readonly string[]) => {
    // One after the other, because a connection that does not become free in time is an error.
    let count = 0
    for (const name of mine) {
      if (await each.create(keyNamed(name, { hash: randomBytes(32) }))) count++
    }
    const uses = (await each.list()).map(({ hash }) => ({ hash, usedAt: 1 }))
    await each.recordUses(mine === names ? uses : uses.toReversed())
    for (const name of mine) if (await each.revoke(name)) count--
    return count
  }
  for (let round = 0; round < 5; round++) {
    const counts = await Promise.all(
      [names, names.toReversed(), names, names.toReversed()].map(mine => work(openStore(), mine)),
    )
    expect(counts.reduce((sum, count) => sum + count)).toBe(0)
  }
  expect(await store.list()).toEqual([])
})
