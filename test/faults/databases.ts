import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { readMigrations } from '../../src/storage/migrations.ts'
import { appliedMigrations, migrate } from '../../src/storage/sqlite/migrator.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { representationOf, userRows } from './user-rows.ts'
import type { WrittenUser } from './written-users.ts'

const MIGRATIONS = readMigrations(new URL('../../migrations/sqlite/', import.meta.url))

const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @users)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Filled ' || i, 'filled ' || i, printf('%08x.%d@example.com', i * 2654435761 & 0xffffffff, i), time, time
  FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time FROM serial)`

const SELECT_SCHEMA = `
  SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name`

export interface DatabaseOptions {
  readonly users: number
  /** Number of migrations applied; all if left out. */
  readonly migrations?: number
}

/** Makes a database with users in the form of a backup: one file, not in WAL mode. */
export function makeDatabase(path: string, { users, migrations }: DatabaseOptions): void {
  mkdirSync(dirname(path), { recursive: true })
  const database = new Database(path)
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -500000')
  migrate(database, MIGRATIONS.slice(0, 1), Date.now)
  // Before the later indexes exist: inserting is faster then.
  database.prepare(FILL).run({ users })
  migrate(database, MIGRATIONS.slice(0, migrations), Date.now)
  database.close()
}

/** The users of a database, which must stay the same. */
export function usersIn(path: string): WrittenUser[] {
  const database = new Database(path, { readonly: true })
  const rows = userRows(database)
  database.close()
  return rows.map(row => ({
    id: row.id,
    idempotencyKey: undefined,
    createBody: '',
    versions: [{ fields: row, body: representationOf(row), acknowledgedAt: 0n }],
  }))
}

/** Copies a database, if it exists, and the files from which SQLite recovers it. */
export function copyDatabase(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  for (const ending of ['', '-wal', '-journal']) {
    if (existsSync(from + ending)) copyFileSync(from + ending, to + ending)
  }
}

/** The schema of a database, and the schema that its applied migrations make. */
export function schemas(database: Database): { there: unknown[]; expected: unknown[] } {
  const count = appliedMigrations(database)?.length ?? 0
  return { there: database.prepare(SELECT_SCHEMA).all(), expected: schemaAfter(count) }
}

function schemaAfter(migrations: number): unknown[] {
  const fresh = new Database(':memory:')
  migrate(fresh, MIGRATIONS.slice(0, migrations), Date.now)
  const schema = migrations === 0 ? [] : fresh.prepare(SELECT_SCHEMA).all()
  fresh.close()
  return schema
}
