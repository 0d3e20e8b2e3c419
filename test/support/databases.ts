import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { migrationsFor } from '../../src/storage/migrations.ts'
import { migrate } from '../../src/storage/sqlite/migrator.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'

const MIGRATIONS = migrationsFor('sqlite')

/** Where `@name` is given, it is one word. */
const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @users),
    filled AS (
      SELECT i, coalesce(@name, 'Filled ' || i) AS name, printf('%08x', i * 2654435761 & 0xffffffff) AS start,
        strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time
      FROM serial)
  INSERT INTO users (name, name_lower, email, words, created_at, updated_at)
  SELECT name, lower(name), start || '.' || i || '@example.com',
    coalesce(substr(lower(@name), 1, 64), 'filled') || ' ' || i || ' ' || start || ' example com', time, time
  FROM filled`

export interface DatabaseOptions {
  readonly users: number
  /** Of each of them, in place of one of its own. */
  readonly name?: string
}

/** Makes a database with users in the form of a backup: one file, not in WAL mode. */
export function makeDatabase(path: string, { users, name }: DatabaseOptions): void {
  mkdirSync(dirname(path), { recursive: true })
  const database = new Database(path)
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -500000')
  migrate(database, MIGRATIONS, Date.now)
  database.prepare(FILL).run({ users, name: name ?? null })
  database.close()
}

/** The same where a service in this folder has its database. Returns the path. */
export function makeDatabaseIn(folder: string, options: DatabaseOptions): string {
  const path = join(folder, 'data', 'users.db')
  makeDatabase(path, options)
  return path
}

/** Copies a database, if it exists, and the files from which SQLite recovers it. */
export function copyDatabase(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  for (const ending of ['', '-wal', '-journal']) {
    if (existsSync(from + ending)) copyFileSync(from + ending, to + ending)
  }
}

/** Opens a database of SQLite for the time of `work`. */
export function withSqlite<T>(
  path: string,
  work: (database: Database) => T,
  options?: { readonly readonly: boolean },
): T {
  const database = new Database(path, options)
  try {
    return work(database)
  } finally {
    database.close()
  }
}

/** Rows of a database to which no process writes meanwhile. */
export function rowsIn<T>(path: string, sql: string): T[] {
  return withSqlite(path, database => database.prepare<[], T>(sql).all(), { readonly: true })
}

/** The e-mails of all users by id. No process may write to the database meanwhile. */
export function emailsIn(path: string): string[] {
  const rows = rowsIn<{ email: string }>(path, 'SELECT email FROM users ORDER BY id')
  return rows.map(({ email }) => email)
}

/** The names in the folder of a path that begin with the name of its file, which is included. */
export function filesOf(path: string): string[] {
  if (!existsSync(dirname(path))) return []
  return readdirSync(dirname(path)).filter(name => name.startsWith(basename(path)))
}

/** The permissions of a file, such as 0o600. */
export function modeOf(path: string): number {
  return statSync(path).mode & 0o777
}

/** Changes a database directly, in a way that no release does. Creates a missing one. */
export function execute(path: string, sql: string): void {
  withSqlite(path, database => database.exec(sql))
}
