import type { ApiKeyStore } from '../../access/api-key-store.ts'
import { createApiKeyStore } from '../create-api-key-store.ts'
import { type Connections, createPostgresSharedStatements } from './postgres-connections.ts'

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

/** API keys in PostgreSQL. */
export function createPostgresApiKeyStore(connections: Connections): ApiKeyStore {
  return createApiKeyStore({
    ...createPostgresSharedStatements(connections),
    recordUses: async uses => {
      const values = [uses.map(({ hash }) => hash), uses.map(({ usedAt }) => usedAt)]
      // Another process may be writing the uses of the same keys.
      await connections.write(session => session.query({ text: UPDATE_LAST_USES }, values), {
        lane: 'aside',
        countWrites: () => 1,
      })
    },
  })
}
