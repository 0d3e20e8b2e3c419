import { type ApiKeyStore, type StoredApiKey, scopesAmong } from '../access/api-key.ts'
import type { SharedStatements } from './storage.ts'

const SELECT_ALL = `
  SELECT name, key_hash, scopes, created_at, expires_at, last_used_at FROM api_keys ORDER BY name`

const SELECT_MARK = `SELECT mark FROM api_key_changes`

const INSERT_UNLESS_TAKEN = `
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at)
  VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (name) DO NOTHING RETURNING name`

const UPDATE_LAST_USE = `
  UPDATE api_keys SET last_used_at = $2 WHERE key_hash = $1 AND coalesce(last_used_at, -1) < $2`

const DELETE_ONE = `DELETE FROM api_keys WHERE name = $1 RETURNING name`

type ApiKeyRow = [
  name: string,
  hash: Buffer,
  scopes: string,
  createdAt: number,
  expiresAt: number | null,
  lastUsedAt: number | null,
]

/** API keys in the table `api_keys` of either engine. */
export function createApiKeyStore({ read, write }: SharedStatements): ApiKeyStore {
  return {
    list: async () => (await read<ApiKeyRow>(SELECT_ALL)).map(toApiKey),

    create: async ({ name, hash, scopes, createdAt, expiresAt = null }) => {
      const values = [name, hash, scopes.join(' '), createdAt, expiresAt]
      return (await write(INSERT_UNLESS_TAKEN, values)).length === 1
    },

    revoke: async name => (await write(DELETE_ONE, [name])).length === 1,

    // One after another: others need not wait for many.
    recordUses: async uses => {
      for (const { hash, usedAt } of uses) await write(UPDATE_LAST_USE, [hash, usedAt])
    },

    revision: async () => {
      const [row] = await read(SELECT_MARK)
      return String(row?.[0])
    },
  }
}

function toApiKey([name, hash, scopes, createdAt, expiresAt, lastUsedAt]: ApiKeyRow): StoredApiKey {
  return {
    name,
    hash,
    scopes: scopesAmong(scopes.split(' ')),
    createdAt,
    expiresAt: expiresAt ?? undefined,
    lastUsedAt: lastUsedAt ?? undefined,
  }
}
