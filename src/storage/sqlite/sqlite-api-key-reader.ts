import type { ApiKeyStore, StoredApiKey } from '../../access/api-key-store.ts'
import { scopesAmong } from '../../access/scopes.ts'
import { ServiceError } from '../../errors.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'

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

/** Reads the keys in the table `api_keys`. */
export function createSqliteApiKeyReader(
  database: Database,
): Pick<ApiKeyStore, 'list' | 'revision'> {
  const selectAll = database.prepare<[], ApiKeyRow>(SELECT_ALL)
  const selectMark = database.prepare<[], number>(SELECT_MARK).pluck()

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
