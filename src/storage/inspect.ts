import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import Database from 'better-sqlite3'
import { DAMAGED, DatabaseRefused, FOREIGN, NO_DATABASE } from './database-refused.ts'
import { canReadAhead, isDamaged } from './find-damage.ts'
import {
  type AppliedMigration,
  appliedMigrations,
  checkHistory,
  type Migration,
} from './migrator.ts'

/** How long is waited for another process that is starting, migrating or checkpointing. */
export const START_PATIENCE_MS = 5000

export const IN_MEMORY = ':memory:'

/** https://www.sqlite.org/fileformat.html#magic_header_string */
const SQLITE_HEADER = Buffer.from('SQLite format 3\0')

/** https://www.sqlite.org/fileformat.html#the_rollback_journal */
const JOURNAL_HEADER = Buffer.from('d9d505f920a163d7', 'hex')

/** Refuses what no other process can reach. */
export function requireFile(path: string): void {
  if (path !== IN_MEMORY) return
  const why = 'such a database is in the memory of the service, and nobody else can reach it'
  throw new DatabaseRefused(why)
}

/** The same, and a path where there is nothing. */
export function requireThere(path: string): void {
  requireFile(path)
  if (!existsSync(path)) throw new DatabaseRefused('there is no such file')
}

/**
 * What a database went through, whose pages make sense as far as there is time to look at them, and which this release
 * can use. Reads through a connection that cannot write, so that a file which is refused stays as it was.
 */
export function inspect(
  path: string,
  migrations: readonly Migration[],
): readonly AppliedMigration[] {
  if (path === IN_MEMORY || !existsSync(path)) return []
  // Before the file is open: to close a file takes away the locks of all connections that a process has to it.
  const isCached = canReadAhead(path)
  const database = openToRead(path)
  try {
    const applied = readHistory(database)
    if (applied.length > 0 && isDamaged(database, { path, isCached })) {
      throw new DatabaseRefused(DAMAGED, { isFault: true })
    }
    checkHistory(applied, migrations)
    return applied
  } finally {
    database.close()
  }
}

/** A connection that cannot write, to a file which is SQLite's by its first bytes. */
export function openToRead(path: string): Database.Database {
  rollBack(path)
  requireHeader(path)
  return new Database(path, { readonly: true, timeout: START_PATIENCE_MS })
}

/** The migrations that a database went through; none where it is empty. Refuses that of another program. */
export function readHistory(database: Database.Database): readonly AppliedMigration[] {
  // In one view, because another process may be migrating.
  const read = database.transaction(() => {
    const applied = appliedMigrations(database)
    if (applied === undefined && holdsTables(database)) {
      throw new DatabaseRefused(FOREIGN, { isFault: true })
    }
    return applied ?? []
  })
  return read()
}

/**
 * Undoes what a process left half done that ended amid a write before there was a WAL: this service at its first
 * start, or whoever wrote to a copy. A connection that cannot write refuses to read such a file.
 */
function rollBack(path: string): void {
  const start = startOf(`${path}-journal`).subarray(0, JOURNAL_HEADER.length)
  if (!start.equals(JOURNAL_HEADER)) return
  const database = new Database(path, { timeout: START_PATIENCE_MS })
  try {
    database.pragma('schema_version')
  } finally {
    database.close()
  }
}

/** SQLite takes a file that is shorter than a page of it for an empty database. */
function requireHeader(path: string): void {
  const start = startOf(path)
  if (start.length > 0 && !start.equals(SQLITE_HEADER)) {
    throw new DatabaseRefused(NO_DATABASE, { isFault: true })
  }
}

/** As many bytes as SQLite's header has, or fewer where there are no more, or no file. */
function startOf(path: string): Buffer {
  const start = Buffer.alloc(SQLITE_HEADER.length)
  try {
    const file = openSync(path, 'r')
    try {
      return start.subarray(0, readSync(file, start, 0, start.length, 0))
    } finally {
      closeSync(file)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}

function holdsTables(database: Database.Database): boolean {
  return database.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() !== 0
}
