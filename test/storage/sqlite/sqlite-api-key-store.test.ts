import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteApiKeyStore } from '../../../src/storage/sqlite/sqlite-api-key-store.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import { describeApiKeyStore, keyNamed } from '../../contracts/api-key-store-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

async function openStore(path = join(temporaryFolder(), 'users.db')) {
  const database = await openSqlite({ path, now: Date.now })
  onTestFinished(() => void database.close())
  const writes = createWriteQueue(database, createReadView(database))
  return { path, database, store: createSqliteApiKeyStore({ database, writes }) }
}

describeApiKeyStore({
  name: 'SQLite',
  open: async () => {
    const { store, path } = await openStore()
    return { store, commands: (await openStore(path)).store }
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
  const { database } = await openStore(path)
  await store.create(keyNamed('web'))
  const before = await store.revision()
  database.exec(statement)
  expect(await store.revision()).not.toBe(before)
})

test('list leaves out scopes that this release does not know', async () => {
  const { database, store } = await openStore()
  database.exec(
    `INSERT INTO ${OTHER.replace('users:read', 'users:write all users:read users:write')}`,
  )
  expect((await store.list())[0]?.scopes).toEqual(['users:read', 'users:write'])
})
