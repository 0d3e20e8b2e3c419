import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import type { Database } from 'better-sqlite3'

/** One numbered SQL file, such as `0001_create_users.sql`. */
export interface Migration {
  readonly version: number
  /** The file's name without its ending. */
  readonly name: string
  readonly sql: string
  /** SHA-256 of the file, in hexadecimal. */
  readonly hash: string
}

/** A row of the table in which the database remembers what it went through. */
export interface AppliedMigration {
  readonly version: number
  readonly name: string
  readonly hash: string
  readonly applied_at: string
}

/** The history of a database and the files of this release do not fit together. */
export class MigrationMismatch extends Error {
  override readonly name = 'MigrationMismatch'
}

const MIGRATIONS_FOLDER = new URL('../../migrations/sqlite/', import.meta.url)

const FILE_NAME = /^(\d{4})_[a-z0-9_]+\.sql$/

const HISTORY_EXISTS = `
  SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'`

const CREATE_HISTORY = `
  CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER CONSTRAINT schema_migrations_primary_key PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    applied_at TEXT NOT NULL
  ) STRICT`

const SELECT_HISTORY = `
  SELECT version, name, hash, applied_at FROM schema_migrations ORDER BY version`

const INSERT_HISTORY = `
  INSERT INTO schema_migrations (version, name, hash, applied_at) VALUES (?, ?, ?, ?)`

/** Those that this release brings a database through. */
export function migrationsOfRelease(): readonly Migration[] {
  return readMigrations(MIGRATIONS_FOLDER)
}

/** The migrations of a folder, whose files must be numbered 0001, 0002, … without a gap. */
export function readMigrations(folder: URL): readonly Migration[] {
  const files = readdirSync(folder).filter(file => file.endsWith('.sql'))
  return files.sort().map((file, index) => {
    const version = Number(FILE_NAME.exec(file)?.[1])
    if (version !== index + 1) {
      throw new Error(`${file} stands where migration ${index + 1} should be`)
    }
    const sql = readFileSync(new URL(file, folder), 'utf8')
    const hash = createHash('sha256').update(sql).digest('hex')
    return { version, name: file.slice(0, -'.sql'.length), sql, hash }
  })
}

/** What was applied to a database, or `undefined` where no migration ever was. */
export function appliedMigrations(database: Database): readonly AppliedMigration[] | undefined {
  if (database.prepare(HISTORY_EXISTS).pluck().get() === 0) return undefined
  return database.prepare<[], AppliedMigration>(SELECT_HISTORY).all()
}

/** Throws `MigrationMismatch` for a newer schema, and for an applied file that was edited, by its name. */
export function checkHistory(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): void {
  const newest = applied.at(-1)?.version ?? 0
  if (newest > migrations.length) {
    throw new MigrationMismatch(
      `its schema is of version ${newest} and this release knows ${migrations.length}: a newer release made it`,
    )
  }
  for (const [index, row] of applied.entries()) {
    const file = migrations[index]
    if (file?.version !== row.version || file.hash !== row.hash) {
      throw new MigrationMismatch(`its migration ${row.name} is not the one in this release`)
    }
  }
}

/**
 * Applies what is missing, each file in a transaction of its own. Processes that do so at once take turns by
 * SQLite's write lock, and each looks again at the history once it holds it.
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
