import type { ApiKeyStore } from '../../access/api-key.ts'
import { createApiKeyStore } from '../create-api-key-store.ts'
import {
  createSqliteSharedStatements,
  type SqliteTableOptions,
} from './sqlite-shared-statements.ts'

const UPDATE_LAST_USE = `
  UPDATE api_keys SET last_used_at = $2 WHERE key_hash = $1 AND coalesce(last_used_at, -1) < $2`

/** API keys in SQLite. */
export function createSqliteApiKeyStore(options: SqliteTableOptions): ApiKeyStore {
  const { run, ...statements } = createSqliteSharedStatements(options)
  return createApiKeyStore({
    ...statements,
    recordUses: uses =>
      options.writes.run(() => {
        for (const { hash, usedAt } of uses) run(UPDATE_LAST_USE, [hash, usedAt])
      }),
  })
}
