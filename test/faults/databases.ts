import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { readMigrations } from '../../src/storage/migrations.ts'
import { migrate } from '../../src/storage/sqlite/migrator.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'

const MIGRATIONS = readMigrations(new URL('../../migrations/sqlite/', import.meta.url))

const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @users)
  INSERT INTO users (name, name_lower, email, words, created_at, updated_at)
  SELECT 'Filled ' || i, 'filled ' || i, printf('%08x.%d@example.com', i * 2654435761 & 0xffffffff, i),
    printf('filled %d %08x example com', i, i * 2654435761 & 0xffffffff), time, time
  FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time FROM serial)`

export interface DatabaseOptions {
  readonly users: number
}

/** Makes a database with users in the form of a backup: one file, not in WAL mode. */
export function makeDatabase(path: string, { users }: DatabaseOptions): void {
  mkdirSync(dirname(path), { recursive: true })
  const database = new Database(path)
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -500000')
  migrate(database, MIGRATIONS, Date.now)
  database.prepare(FILL).run({ users })
  database.close()
}

/** Copies a database, if it exists, and the files from which SQLite recovers it. */
export function copyDatabase(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  for (const ending of ['', '-wal', '-journal']) {
    if (existsSync(from + ending)) copyFileSync(from + ending, to + ending)
  }
}
