import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeApiKeyStore, keyNamed } from '../../contracts/api-key-store-contract.ts'
import { execute } from '../../support/databases.ts'
import { openSqliteStored } from '../../support/open-stored.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

async function openStore() {
  const path = join(temporaryFolder(), 'users.db')
  return { path, store: (await openSqliteStored(path)).apiKeys }
}

describeApiKeyStore({
  name: 'SQLite',
  open: async () => {
    const { store, path } = await openStore()
    return { store, commands: (await openSqliteStored(path)).apiKeys }
  },
})

const OTHER = `
  api_keys (name, key_hash, scopes, created_at) VALUES ('other', zeroblob(32), 'users:read', 0)`

test.each([
  `INSERT OR IGNORE INTO ${OTHER}`,
  `UPDATE OR REPLACE api_keys SET scopes = 'users:write'`,
  `UPDATE api_keys SET key_hash = zeroblob(32)`,
  `DELETE FROM api_keys`,
  `DELETE FROM api_key_changes`,
])('%s by an operator changes the revision', async statement => {
  const { store, path } = await openStore()
  await store.create(keyNamed('web'))
  const before = await store.revision()
  execute(path, statement)
  expect(await store.revision()).not.toBe(before)
})

test('list leaves out scopes that this release does not know', async () => {
  const { path, store } = await openStore()
  execute(
    path,
    `INSERT INTO ${OTHER.replace('users:read', 'users:write all users:read users:write')}`,
  )
  expect((await store.list())[0]?.scopes).toEqual(['users:read', 'users:write'])
})
