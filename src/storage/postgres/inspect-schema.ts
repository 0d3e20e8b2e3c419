import { type AppliedMigration, checkHistory, type Migration } from '../migrations.ts'
import { FOREIGN, UNFINISHED_COPY, UnusableDatabase } from '../unusable-database.ts'
import type { Session } from './postgres-connections.ts'
import { sqlStateOf } from './postgres-errors.ts'

/** The oldest release with all that the statements use. */
const OLDEST_VERSION = 13

const SELECT_SERVER = `
  SELECT current_setting('server_version_num')::int, current_setting('server_version'),
    current_setting('server_encoding'), current_schema()`

/** All tables of the service in its schema. */
const TABLES = `
  FROM pg_class
  WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relname IN (
    'users', 'users_summary', 'idempotency_keys', 'bans', 'signing_keys', 'imports', 'schema_migrations',
    'unfinished_copies', 'api_keys', 'api_key_changes', 'webhooks', 'webhook_lease', 'words_rules', 'user_feed',
    'user_changes')`

/**
 * In one statement, because another process may be migrating. Other programs may have tables in the same schema, but not
 * under a name that the service uses.
 */
const SELECT_TABLES = `SELECT coalesce(bool_or(relname = 'schema_migrations'), false), count(*) > 0 ${TABLES}`

const SELECT_GUARDED = `
  SELECT relname, row_security_active(oid) ${TABLES} AND relrowsecurity ORDER BY relname`

const SELECT_HISTORY = `
  SELECT version, name, hash, applied_at FROM schema_migrations ORDER BY version`

const SELECT_IS_UNFINISHED = `SELECT EXISTS (SELECT FROM unfinished_copies)`

const UNDEFINED_COLUMN = '42703'

/** Throws `UnusableDatabase` for a server that is too old, and for a database that cannot hold the schema. */
async function requireUsable(session: Session): Promise<void> {
  type ServerRow = [versionNumber: number, version: string, encoding: string, schema: string | null]
  const [row] = await session.query<ServerRow>(SELECT_SERVER)
  const [versionNumber, version, encoding, schema] = row as ServerRow
  if (versionNumber < OLDEST_VERSION * 10_000) {
    throw new UnusableDatabase(
      `its server is PostgreSQL ${version}: this release needs ${OLDEST_VERSION} or newer`,
    )
  }
  if (encoding !== 'UTF8') {
    throw new UnusableDatabase(
      `its encoding is ${encoding}: create it again with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    )
  }
  if (schema === null) {
    throw new UnusableDatabase(
      'no schema of its search_path exists for this role: create it, or GRANT USAGE on it',
    )
  }
}

/** The migrations applied to a database; none if it is empty. Throws `UnusableDatabase` for the database of another program. */
export async function readHistory(session: Session): Promise<readonly AppliedMigration[]> {
  type TablesRow = [hasHistory: boolean, hasTables: boolean]
  const [[hasHistory, hasTables] = [false, false]] = await session.query<TablesRow>(SELECT_TABLES)
  if (!hasHistory && hasTables) throw new UnusableDatabase(FOREIGN, { isFault: true })
  if (!hasHistory) return []
  try {
    type HistoryRow = [version: number, name: string, hash: string, applied_at: string]
    const rows = await session.query<HistoryRow>(SELECT_HISTORY)
    return rows.map(([version, name, hash, applied_at]) => ({ version, name, hash, applied_at }))
  } catch (error) {
    // Its table of migrations has other columns.
    if (sqlStateOf(error) !== UNDEFINED_COLUMN) throw error
    throw new UnusableDatabase(FOREIGN, { isFault: true, cause: error })
  }
}

/** The same, after checking that this release can use the database. */
export async function readUsableHistory(
  session: Session,
  migrations: readonly Migration[],
): Promise<readonly AppliedMigration[]> {
  await requireUsable(session)
  const applied = await readHistory(session)
  checkHistory(applied, migrations)
  return applied
}

/** Whether a copy began in a database and is not complete. The schema must be that of this release. */
export async function isUnfinishedCopy(session: Session): Promise<boolean> {
  const [row] = await session.query<[boolean]>(SELECT_IS_UNFINISHED)
  return row?.[0] === true
}

/** Throws `UnusableDatabase` for such a database. */
export async function refuseUnfinishedCopy(session: Session): Promise<void> {
  if (await isUnfinishedCopy(session)) throw new UnusableDatabase(UNFINISHED_COPY)
}

/** The tables in which policies decide who sees a row: those of which they hide rows from this role, and the others. */
export async function readGuardedTables({ query }: Session) {
  const guarded = await query<[table: string, isActive: boolean]>(SELECT_GUARDED)
  const namesOf = (isActive: boolean) =>
    guarded
      .filter(each => each[1] === isActive)
      .map(([name]) => name)
      .join(', ')
  return { hiding: namesOf(true), open: namesOf(false) }
}

/**
 * Throws `UnusableDatabase` if row-level security may hide rows from this role: they would look like deleted ones. Sessions refuse
 * it by themselves, but not behind a pooler, where they have no settings.
 */
export async function requireAllRows(session: Session): Promise<void> {
  const { hiding } = await readGuardedTables(session)
  if (hiding === '') return
  throw new UnusableDatabase(
    `row-level security of ${hiding} hides rows from this role: disable it, or give the role BYPASSRLS`,
  )
}
