import { existsSync, statSync } from 'node:fs'
import { type AppliedMigration, checkHistory, migrationsFor } from '../migrations.ts'
import { FOREIGN, UnusableDatabase } from '../unusable-database.ts'
import { closing, connect } from './connect.ts'
import { bytesOf, companionOf, IN_MEMORY } from './database-files.ts'
import { appliedMigrations } from './migrator.ts'
import type { Database } from './sqlite-driver.ts'
import { DAMAGED, EMPTY, NO_DATABASE } from './sqlite-errors.ts'

/** How long a start waits for another process that starts, migrates or checkpoints. */
export const START_PATIENCE_MS = 5000

/** For reading a whole database: its index by e-mail is read in random order, and with 16 MB, a million users take twice as long. */
export const WHOLE_CACHE_KIB = 64_000

/** The size of a database of 250,000 users. Checking it takes 0.1 s, and more if it has to be read from a disk. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024

/** Throws `UnusableDatabase` for a database in memory. */
export function requireFile(path: string): void {
  if (path !== IN_MEMORY) return
  const why = 'such a database is in the memory of the service, and no other process can reach it'
  throw new UnusableDatabase(why)
}

/** Throws `UnusableDatabase` for a database in memory and for a path without a file. */
export function requireThere(path: string): void {
  requireFile(path)
  if (!existsSync(path)) throw new UnusableDatabase('there is no such file')
}

/**
 * Checks that this release can use a database and, as far as startup time allows, that its pages are intact. Reads through a
 * read-only connection, so a rejected file stays unchanged. No migration is applied to one that is empty or missing.
 */
export async function inspect(path: string) {
  if (!existsSync(path)) return { applied: [], isUnfinishedCopy: false }
  return closing(await openView(path), database => {
    const applied = readHistory(database)
    if (applied.length > 0 && isDamaged(database, path)) {
      throw new UnusableDatabase(DAMAGED, { isFault: true })
    }
    return { applied, isUnfinishedCopy: applied.length > 0 && isUnfinishedCopy(database) }
  })
}

/**
 * Opens one state of a database: a read-only connection in a transaction that lasts until it is closed. Throws
 * `UnusableDatabase` for what is no file of SQLite.
 */
export async function openView(path: string): Promise<Database> {
  requireContent(path)
  await rollBack(path)
  return connect(path, {
    readonly: true,
    timeout: START_PATIENCE_MS,
    lock: database => {
      database.exec('BEGIN')
      database.pragma('schema_version')
    },
  })
}

/** The migrations applied to a database; none if it is empty. Throws `UnusableDatabase` for one that this release cannot use. */
export function readHistory(database: Database): readonly AppliedMigration[] {
  const applied = appliedMigrations(database)
  if (applied === undefined && holdsTables(database)) {
    throw new UnusableDatabase(FOREIGN, { isFault: true })
  }
  checkHistory(applied ?? [], migrationsFor('sqlite'))
  return applied ?? []
}

/** Throws `UnusableDatabase` for an empty database, and for one that this release cannot use. */
export function requireUsable(database: Database): void {
  if (readHistory(database).length === 0) throw new UnusableDatabase(EMPTY)
}

/** Whether a copy began in a database and is not complete. The database must not be empty. */
export function isUnfinishedCopy(database: Database): boolean {
  const sql = 'SELECT EXISTS (SELECT 1 FROM unfinished_copies)'
  return database.prepare(sql).pluck().get() === 1
}

/**
 * Undoes a write that was cut off by the end of its process while the database was not in WAL: the first start of this
 * service, or a program that wrote to a copy. A read-only connection cannot read such a file.
 */
async function rollBack(path: string): Promise<void> {
  if (bytesOf(companionOf(path, '-journal')) === 0) return
  const database = await connect(path, { timeout: START_PATIENCE_MS })
  database.close()
}

/**
 * Throws `UnusableDatabase` for what SQLite itself does not refuse in plain words. Does not open the file: closing it would
 * drop the locks of all connections of this process: https://www.sqlite.org/howtocorrupt.html, 2.2.
 */
export function requireContent(path: string): void {
  if (!statSync(path).isFile()) throw new UnusableDatabase('it is not a regular file')
  // SQLite takes it for an empty database.
  if (bytesOf(path) === 1) throw new UnusableDatabase(NO_DATABASE, { isFault: true })
}

/** Whether a file is shorter than its database or, unless it is large, has pages that are not intact. */
function isDamaged(database: Database, path: string): boolean {
  const pages = Number(database.pragma('page_count', { simple: true }))
  const pageBytes = Number(database.pragma('page_size', { simple: true }))
  // SQLite checks this itself only without a WAL. With one, the pages that the file lacks may be in the WAL.
  if (bytesOf(path) + bytesOf(companionOf(path, '-wal')) < pages * pageBytes) return true
  if (bytesOf(path) > MAX_CHECKED_BYTES) return false
  return database.pragma('quick_check(1)', { simple: true }) !== 'ok'
}

function holdsTables(database: Database): boolean {
  return database.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() !== 0
}
