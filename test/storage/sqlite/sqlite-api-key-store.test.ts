import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteApiKeyStore } from '../../../src/storage/sqlite/sqlite-api-key-store.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import { describeApiKeyStore } from '../../contracts/api-key-store-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

async function openStore(path: string) {
  const database = await openSqlite({ path, now: Date.now })
  onTestFinished(() => {
    database.close()
  })
  const writes = createWriteQueue(database, createReadView(database))
  return { database, store: createSqliteApiKeyStore({ database, writes }) }
}

describeApiKeyStore({
  name: 'SQLite',
  open: async () => {
    const path = join(temporaryFolder(), 'users.db')
    const { store } = await openStore(path)
    const { store: commands } = await openStore(path)
    return { store, commands }
  },
})

const INSERT = `
  api_keys (name, key_hash, scopes, created_at) VALUES ('other', zeroblob(32), 'users:read', 0)`

test.each([
  `INSERT INTO ${INSERT}`,
  `INSERT OR IGNORE INTO ${INSERT}`,
  `UPDATE api_keys SET expires_at = 1`,
  `UPDATE OR REPLACE api_keys SET scopes = 'users:write'`,
  `UPDATE api_keys SET key_hash = zeroblob(32)`,
  `UPDATE api_keys SET name = 'other'`,
  `DELETE FROM api_keys`,
  `DELETE FROM api_key_changes`,
])('%s by an operator changes the revision', async statement => {
  const path = join(temporaryFolder(), 'users.db')
  const { store } = await openStore(path)
  const { database } = await openStore(path)
  await store.create({
    name: 'web',
    hash: Buffer.alloc(32, 1),
    scopes: ['users:read'],
    createdAt: 0,
    expiresAt: undefined,
  })
  const before = await store.revision()
  database.exec(statement)
  expect(await store.revision()).not.toBe(before)
})

test.each([
  ['a name', `('', zeroblob(32), 'users:read', 0)`],
  ['a name of at most 64 characters', `('${'x'.repeat(65)}', zeroblob(32), 'users:read', 0)`],
  ['a whole hash', `('web', zeroblob(31), 'users:read', 0)`],
  ['a scope', `('web', zeroblob(32), '', 0)`],
])('the table accepts no key without %s', async (_what, values) => {
  const { database } = await openStore(join(temporaryFolder(), 'users.db'))
  const insert = `INSERT INTO api_keys (name, key_hash, scopes, created_at) VALUES ${values}`
  expect(() => database.exec(insert)).toThrow('CHECK constraint failed: api_keys_')
})

test('list leaves out scopes that this release does not know', async () => {
  const { database, store } = await openStore(join(temporaryFolder(), 'users.db'))
  database.exec(`INSERT INTO api_keys (name, key_hash, scopes, created_at)
    VALUES ('web', zeroblob(32), 'users:write all users:read users:write', 0)`)
  expect((await store.list())[0]?.scopes).toEqual(['users:read', 'users:write'])
})
