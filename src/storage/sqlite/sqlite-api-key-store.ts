import type { ApiKeyStore } from '../../access/api-key-store.ts'
import { createSqliteApiKeyReader } from './sqlite-api-key-reader.ts'
import type { Database } from './sqlite-driver.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteApiKeyStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
}

const INSERT_UNLESS_TAKEN = `
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (name) DO NOTHING`

const DELETE_ONE = `DELETE FROM api_keys WHERE name = ?`

const UPDATE_LAST_USE = `
  UPDATE api_keys SET last_used_at = @usedAt
  WHERE key_hash = @hash AND coalesce(last_used_at, -1) < @usedAt`

/** API keys in the table `api_keys`. */
export function createSqliteApiKeyStore(options: SqliteApiKeyStoreOptions): ApiKeyStore {
  const { database, writes } = options
  const insert = database.prepare(INSERT_UNLESS_TAKEN)
  const deleteOne = database.prepare(DELETE_ONE)
  const updateLastUse = database.prepare(UPDATE_LAST_USE)

  return {
    ...createSqliteApiKeyReader(database),

    create: ({ name, hash, scopes, createdAt, expiresAt = null }) =>
      writes.run(
        () => insert.run(name, hash, scopes.join(' '), createdAt, expiresAt).changes === 1,
      ),

    revoke: name => writes.run(() => deleteOne.run(name).changes === 1),

    recordUses: uses =>
      writes.run(() => {
        for (const use of uses) updateLastUse.run(use)
      }),
  }
}
