import type {
  CopiedApiKey,
  CopiedBan,
  CopiedKey,
  CopiedSigningKey,
  CopiedUser,
  CopyReader,
} from '../../copy/database-copy.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../unusable-reasons.ts'

const SELECT_USERS = `
  SELECT id, name, name_lower, email, password_digest, created_at, updated_at FROM users
  WHERE id > ? ORDER BY id LIMIT ?`

const SELECT_KEYS = `
  SELECT lower(hex(key_hash)), user_id, fingerprint, user_version, user_json, expires_at
  FROM idempotency_keys WHERE key_hash > unhex(?) ORDER BY key_hash LIMIT ?`

/** A ban without `lasts_ms` gets a length of decades, as in the service. */
const SELECT_BANS = `
  SELECT rule, client_key, ends_at, coalesce(lasts_ms, ends_at) FROM bans
  WHERE @rule IS NULL OR (rule, client_key) > (@rule, @clientKey)
  ORDER BY rule, client_key LIMIT @limit`

const SELECT_API_KEYS = `
  SELECT name, lower(hex(key_hash)), scopes, created_at, expires_at, last_used_at FROM api_keys
  WHERE name > ? ORDER BY name LIMIT ?`

const SELECT_SIGNING_KEYS = `SELECT name, lower(hex(key)) FROM signing_keys ORDER BY name`

const SELECT_LAST_ID = `
  SELECT max(coalesce((SELECT max(id) FROM users), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0))`

/** Reads what is copied from a SQLite database. */
export function createSqliteCopyReader(database: Database): CopyReader {
  const selectUsers = database.prepare<unknown[], CopiedUser>(SELECT_USERS).raw()
  const selectKeys = database.prepare<unknown[], CopiedKey>(SELECT_KEYS).raw()
  const selectBans = database.prepare<unknown[], CopiedBan>(SELECT_BANS).raw()
  const selectApiKeys = database.prepare<unknown[], CopiedApiKey>(SELECT_API_KEYS).raw()
  const selectSigningKeys = database.prepare<[], CopiedSigningKey>(SELECT_SIGNING_KEYS).raw()
  const selectLastId = database.prepare<[], number>(SELECT_LAST_ID).pluck()

  return {
    users: (after, limit) => explainErrors(() => selectUsers.all(after?.[0] ?? 0, limit)),
    idempotencyKeys: (after, limit) => explainErrors(() => selectKeys.all(after?.[0] ?? '', limit)),
    bans: (after, limit) =>
      explainErrors(() => {
        const [rule, clientKey] = after ?? [null, null]
        return selectBans.all({ rule, clientKey, limit })
      }),
    apiKeys: (after, limit) => explainErrors(() => selectApiKeys.all(after?.[0] ?? '', limit)),
    signingKeys: () => explainErrors(() => selectSigningKeys.all()),
    lastId: () => explainErrors(() => requireExact(selectLastId.get() ?? 0)),
  }
}

/** No release gives out a greater id, but a program that writes to the file can. */
function requireExact(lastId: number): number {
  if (Number.isSafeInteger(lastId)) return lastId
  throw new UnusableDatabase('it has given out ids greater than 9007199254740991')
}
