import type { ApiKeyStore, StoredApiKey } from '../../access/api-key-store.ts'
import { scopesAmong } from '../../access/scopes.ts'
import type { Connections } from './postgres-connections.ts'

const SELECT_ALL = `
  SELECT name, key_hash, scopes, created_at, expires_at, last_used_at FROM api_keys ORDER BY name`

const SELECT_MARK = `SELECT mark FROM api_key_changes`

const INSERT_UNLESS_TAKEN = `
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at)
  VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (name) DO NOTHING RETURNING name`

const DELETE_ONE = `DELETE FROM api_keys WHERE name = $1 RETURNING name`

/** Locks rows in the order of hashes, so that two processes wait for each other in one direction only. */
const UPDATE_LAST_USES = `
  WITH used AS (
    SELECT key_hash, max(used_at) AS used_at FROM unnest($1::bytea[], $2::bigint[]) AS use (key_hash, used_at)
    GROUP BY key_hash
  ), locked AS (
    SELECT key_hash FROM api_keys WHERE key_hash = ANY($1) ORDER BY key_hash FOR NO KEY UPDATE
  )
  UPDATE api_keys SET last_used_at = used.used_at FROM used JOIN locked USING (key_hash)
  WHERE api_keys.key_hash = used.key_hash AND coalesce(last_used_at, -1) < used.used_at`

type ApiKeyRow = [
  name: string,
  hash: Buffer,
  scopes: string,
  createdAt: number,
  expiresAt: number | null,
  lastUsedAt: number | null,
]

/** API keys in the table `api_keys` of PostgreSQL. */
export function createPostgresApiKeyStore(connections: Connections): ApiKeyStore {
  return {
    list: async () => {
      const statement = { name: 'list_api_keys', text: SELECT_ALL }
      const rows = await connections.read(session => session.query<ApiKeyRow>(statement), {
        lane: 'aside',
      })
      return rows.map(toApiKey)
    },

    create: async ({ name, hash, scopes, createdAt, expiresAt = null }) => {
      const values = [name, hash, scopes.join(' '), createdAt, expiresAt]
      const rows = await connections.write(
        session => session.query({ text: INSERT_UNLESS_TAKEN }, values),
        { countWrites: () => 1 },
      )
      return rows.length === 1
    },

    revoke: async name => {
      const rows = await connections.write(session => session.query({ text: DELETE_ONE }, [name]), {
        countWrites: () => 1,
      })
      return rows.length === 1
    },

    recordUses: async uses => {
      const values = [uses.map(({ hash }) => hash), uses.map(({ usedAt }) => usedAt)]
      // Another process may be writing the uses of the same keys.
      await connections.write(session => session.query({ text: UPDATE_LAST_USES }, values), {
        lane: 'aside',
        countWrites: () => 1,
      })
    },

    revision: async () => {
      const statement = { name: 'read_api_key_mark', text: SELECT_MARK }
      const [row] = await connections.read(session => session.query<[number]>(statement), {
        lane: 'aside',
      })
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
