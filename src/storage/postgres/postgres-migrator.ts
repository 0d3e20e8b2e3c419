import { performance, sleep } from '../../platform/timers.ts'
import type { MigrationStatus } from '../database-tasks.ts'
import {
  type AppliedMigration,
  checkHistory,
  type Migration,
  migrationsFor,
  statusOf,
} from '../migrations.ts'
import { FOREIGN, OLDER_SCHEMA, UnusableDatabase } from '../unusable-database.ts'
import { readHistory, readUsableHistory } from './inspect-schema.ts'
import type { Connections, Session } from './postgres-connections.ts'
import { isOfState, LOCK_NOT_AVAILABLE, NO_RIGHTS } from './postgres-errors.ts'

export interface MigrateOptions {
  readonly connections: Connections
  /** By default those of this release. */
  readonly migrations?: readonly Migration[]
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** How long to wait for another process that migrates the database. */
  readonly patienceMs?: number
}

const PATIENCE_MS = 60_000

/** Between two attempts to get the lock. A statement that waits for it would hold a connection. */
const LOCK_PAUSE_MS = 50

/** The lock of one schema: two schemas of a database do not wait for each other. It ends with its transaction. */
const TRY_LOCK = `
  SELECT pg_try_advisory_xact_lock(hashtextextended('schema_migrations of ' || current_schema(), 0))`

/**
 * New tables and functions belong to one schema, also if there is another one in the search path. The functions keep this
 * search path. It ends with temporary tables, so that none of them can stand in for a table of the service.
 */
const SET_SEARCH_PATH = `
  SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true),
    set_config('statement_timeout', '0', true), set_config('synchronous_commit', 'local', true)`

const CREATE_HISTORY = `
  CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer CONSTRAINT schema_migrations_primary_key PRIMARY KEY,
    name text NOT NULL,
    hash text NOT NULL,
    applied_at text NOT NULL
  )`

const INSERT_HISTORY = `
  INSERT INTO schema_migrations (version, name, hash, applied_at) VALUES ($1, $2, $3, $4)`

const NO_RIGHT_TO_MIGRATE =
  'its schema is not current, and this role may not change it: run `migrate` with the role that owns the tables'

const BUSY =
  'its schema is not current, and a transaction uses its tables, such as that of pg_dump: migrate once that has ended'

/** SQLSTATEs for a table, an index, a type or a function that exists already. */
const DUPLICATES: readonly string[] = ['42P07', '42710', '42723']

/**
 * Applies the missing migrations, each in its own transaction. Processes that migrate at the same time take turns through
 * an advisory lock; each reads the history again once it holds the lock. A current database is only read.
 * Throws `UnusableDatabase` for a database that this release cannot use.
 */
export async function migratePostgres(options: MigrateOptions): Promise<void> {
  const { connections, migrations = migrationsFor('postgres'), patienceMs = PATIENCE_MS } = options
  const deadline = performance.now() + patienceMs
  for (;;) {
    const applied = await appliedTo(connections, migrations)
    if (applied.length === migrations.length) return
    if (await applyNext({ ...options, migrations })) continue
    if (performance.now() > deadline) {
      throw new UnusableDatabase('another process is migrating it, and does not end')
    }
    await sleep(LOCK_PAUSE_MS)
  }
}

/** Throws `UnusableDatabase` unless the schema is that of this release. */
export async function requireMigrated(connections: Connections): Promise<void> {
  const migrations = migrationsFor('postgres')
  const applied = await appliedTo(connections, migrations)
  if (applied.length < migrations.length) throw new UnusableDatabase(OLDER_SCHEMA)
}

/** The migrations of this release, each with the time at which it was applied. Changes nothing. */
export async function postgresMigrationStatus(
  connections: Connections,
): Promise<readonly MigrationStatus[]> {
  const migrations = migrationsFor('postgres')
  return statusOf(await appliedTo(connections, migrations), migrations)
}

/** The history of a database, after checking that this release can use it. */
async function appliedTo(
  connections: Connections,
  migrations: readonly Migration[],
): Promise<readonly AppliedMigration[]> {
  return connections.snapshot(session => readUsableHistory(session, migrations))
}

/** Returns false if another process holds the lock. */
async function applyNext({
  connections,
  migrations,
  now,
}: Required<Omit<MigrateOptions, 'patienceMs'>>): Promise<boolean> {
  try {
    return await connections.transaction(
      async session => {
        const [[hasLock] = [false]] = await session.query<[boolean]>(TRY_LOCK)
        if (!hasLock) return false
        const applied = await readHistory(session)
        checkHistory(applied, migrations)
        const next = migrations[applied.length]
        if (next !== undefined) await apply(session, next, now())
        return true
      },
      { share: 'long' },
    )
  } catch (error) {
    throw explain(error)
  }
}

function explain(error: unknown): unknown {
  if (isOfState(error, DUPLICATES)) {
    return new UnusableDatabase(FOREIGN, { isFault: true, cause: error })
  }
  if (isOfState(error, [LOCK_NOT_AVAILABLE])) {
    return new UnusableDatabase(BUSY, { cause: error })
  }
  if (!isOfState(error, [NO_RIGHTS])) return error
  return new UnusableDatabase(NO_RIGHT_TO_MIGRATE, { cause: error })
}

async function apply(session: Session, next: Migration, now: number): Promise<void> {
  await session.query(SET_SEARCH_PATH)
  if (next.version === 1) await session.query(CREATE_HISTORY)
  await session.query({ text: next.sql, withinMs: Infinity })
  const { version, name, hash } = next
  await session.query(INSERT_HISTORY, [version, name, hash, new Date(now).toISOString()])
}
