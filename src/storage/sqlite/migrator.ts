import { type AppliedMigration, checkHistory, type Migration } from '../migrations.ts'
import type { Database } from './sqlite-driver.ts'

const CREATE_HISTORY = `
  CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER CONSTRAINT schema_migrations_primary_key PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    applied_at TEXT NOT NULL
  ) STRICT`

const HAS_HISTORY = `
  SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations')`

const SELECT_HISTORY = `
  SELECT version, name, hash, applied_at FROM schema_migrations ORDER BY version`

const INSERT_HISTORY = `
  INSERT INTO schema_migrations (version, name, hash, applied_at) VALUES (?, ?, ?, ?)`

/** The history of a database; `undefined` if it has none. */
export function appliedMigrations(database: Database): readonly AppliedMigration[] | undefined {
  if (database.prepare(HAS_HISTORY).pluck().get() === 0) return undefined
  return database.prepare<[], AppliedMigration>(SELECT_HISTORY).all()
}

/**
 * Applies the missing migrations, each in its own transaction. Processes that migrate at the same time take turns through
 * SQLite's write lock; each reads the history again once it holds the lock.
 */
export function migrate(
  database: Database,
  migrations: readonly Migration[],
  now: () => number,
): void {
  const applyNext = database.transaction((): boolean => {
    database.exec(CREATE_HISTORY)
    const applied = appliedMigrations(database) ?? []
    checkHistory(applied, migrations)
    const next = migrations[applied.length]
    if (next === undefined) return false
    database.exec(next.sql)
    database
      .prepare(INSERT_HISTORY)
      .run(next.version, next.name, next.hash, new Date(now()).toISOString())
    return true
  })
  while (applyNext.immediate());
}
