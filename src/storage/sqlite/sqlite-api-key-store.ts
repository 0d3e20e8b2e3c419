import type { ApiKeyStore, StoredApiKey } from '../../access/api-key-store.ts'
import { scopesAmong } from '../../access/scopes.ts'
import { ServiceError } from '../../errors.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteApiKeyStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
}

interface ApiKeyRow extends Pick<StoredApiKey, 'name' | 'hash' | 'createdAt'> {
  readonly scopes: string
  readonly expiresAt: number | null
  readonly lastUsedAt: number | null
}

const SELECT_ALL = `
  SELECT name, key_hash AS hash, scopes, created_at AS createdAt, expires_at AS expiresAt,
    last_used_at AS lastUsedAt
  FROM api_keys ORDER BY name`

const SELECT_MARK = `SELECT mark FROM api_key_changes`

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
  const selectAll = database.prepare<[], ApiKeyRow>(SELECT_ALL)
  const selectMark = database.prepare<[], number>(SELECT_MARK).pluck()
  const insert = database.prepare(INSERT_UNLESS_TAKEN)
  const deleteOne = database.prepare(DELETE_ONE)
  const updateLastUse = database.prepare(UPDATE_LAST_USE)

  /** Throws `storage_unavailable` or `storage_damaged` if the database cannot be used. */
  function read<T>(query: () => T): T {
    if (!database.open) throw new ServiceError('shutting_down')
    try {
      return query()
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  return {
    list: async () => read(() => selectAll.all()).map(toApiKey),
    revision: async () => String(read(() => selectMark.get())),

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

function toApiKey({ scopes, expiresAt, lastUsedAt, ...row }: ApiKeyRow): StoredApiKey {
  return {
    ...row,
    scopes: scopesAmong(scopes.split(' ')),
    expiresAt: expiresAt ?? undefined,
    lastUsedAt: lastUsedAt ?? undefined,
  }
}
