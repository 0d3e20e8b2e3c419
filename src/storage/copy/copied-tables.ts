/** The values of a row in the order of the columns of its table. */
export type CopiedRow = readonly (string | number | Buffer | null)[]

/** `anyText` may have characters that PostgreSQL cannot store as they are. */
type ColumnType = 'integer' | 'text' | 'anyText' | 'bytes'

/** A table that every engine has under this name and with these columns. */
export interface CopiedTable {
  readonly name: string
  /** What its rows are, for people. */
  readonly label: string
  /** The first one is the key, or begins it: rows are read in its order. */
  readonly columns: Readonly<Record<string, ColumnType>>
  /** Names a row in an error. */
  readonly nameRow: (row: CopiedRow) => string
}

export const USERS: CopiedTable = {
  name: 'users',
  label: 'users',
  columns: {
    id: 'integer',
    name: 'text',
    name_lower: 'text',
    email: 'text',
    password_digest: 'text',
    created_at: 'text',
    updated_at: 'text',
  },
  nameRow: ([id]) => `user ${id}`,
}

/** The user of a row, for the index of its words. */
export function namedUserOf([id, name, , email]: CopiedRow) {
  return { id: Number(id), name: String(name), email: String(email) }
}

const IDEMPOTENCY_KEYS: CopiedTable = {
  name: 'idempotency_keys',
  label: 'idempotency keys',
  columns: {
    key_hash: 'bytes',
    user_id: 'integer',
    fingerprint: 'text',
    user_version: 'text',
    user_json: 'text',
    expires_at: 'integer',
  },
  nameRow: ([, id]) => `an idempotency key of user ${id}`,
}

/** An engine may store it with further columns. */
export const BANS: CopiedTable = {
  name: 'bans',
  label: 'bans',
  columns: { rule: 'anyText', client_key: 'anyText', ends_at: 'integer', lasts_ms: 'integer' },
  nameRow: ([rule]) => `a ban of ${JSON.stringify(rule)}`,
}

const API_KEYS: CopiedTable = {
  name: 'api_keys',
  label: 'API keys',
  columns: {
    name: 'text',
    key_hash: 'bytes',
    scopes: 'text',
    created_at: 'integer',
    expires_at: 'integer',
    last_used_at: 'integer',
  },
  nameRow: ([name]) => `the API key ${name}`,
}

const SIGNING_KEYS: CopiedTable = {
  name: 'signing_keys',
  label: 'signing keys',
  columns: { name: 'text', key: 'bytes' },
  nameRow: ([name]) => `the signing key ${name}`,
}

/** Empty in a new database. Their numbers of rows and one checksum of them all are the result of a copy. */
export const COUNTED_TABLES: readonly CopiedTable[] = [USERS, IDEMPOTENCY_KEYS, BANS, API_KEYS]

/** In the order in which they are filled. A new database has signing keys of its own, which are replaced. */
export const COPIED_TABLES: readonly CopiedTable[] = [...COUNTED_TABLES, SIGNING_KEYS]

/** SQL for whether a database has rows that a copy would have to keep. */
export const HAS_ROWS = COUNTED_TABLES.map(({ name }) => `EXISTS (SELECT 1 FROM ${name})`).join(
  ' OR ',
)

/** SQL for all rows of a table. A ban without `lasts_ms` gets a length of decades, as in the service. */
export function selectOf({ name, columns }: CopiedTable): string {
  const values = Object.keys(columns).join(', ').replace('lasts_ms', 'coalesce(lasts_ms, ends_at)')
  return `SELECT ${values} FROM ${name} ORDER BY 1`
}
