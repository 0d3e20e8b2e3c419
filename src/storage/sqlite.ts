import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { isDamaged } from './find-damage.ts'
import {
  type AppliedMigration,
  appliedMigrations,
  checkHistory,
  type Migration,
  MigrationMismatch,
  migrate,
  readMigrations,
} from './migrator.ts'
import { createSigningKeys } from './signing-keys.ts'
import { isBusy, isDamage } from './sqlite-errors.ts'

/** Raised when a path cannot serve as the database; the message ends a sentence that begins with the path. */
export class DatabaseRefused extends Error {
  override readonly name = 'DatabaseRefused'
}

const MIGRATIONS_FOLDER = new URL('../../migrations/sqlite/', import.meta.url)

/** How long a start waits for another process that is starting, migrating or checkpointing. */
const START_PATIENCE_MS = 5000

const BUSY_PAUSE_MS = 20

/** A quarter of what better-sqlite3 takes by itself: the rest is in the system's cache, and costs no more CPU from there. */
const CACHE_KIB = 4000

const IN_MEMORY = ':memory:'

/** https://www.sqlite.org/fileformat.html#magic_header_string */
const SQLITE_HEADER = Buffer.from('SQLite format 3\0')

/** https://www.sqlite.org/fileformat.html#the_rollback_journal */
const JOURNAL_HEADER = Buffer.from('d9d505f920a163d7', 'hex')

const FOREIGN = 'it is the database of another program'

const NO_DATABASE = 'it is no SQLite database'

const DAMAGED =
  'it is damaged: restore it from a backup, or save what `sqlite3 FILE .recover` still reads of it'

const NOT_WRITABLE =
  'it cannot be written: give the user of this process the right to write the file and its folder'

const FULL = 'its disk is full: make room on it'

const NOT_THERE = 'there is no such file'

const OF_THE_SERVICE =
  'such a database is in the memory of the service, and nobody else can reach it'

const OLDER = 'its schema is that of an older release: bring it up to date by `migrate`'

export interface OpenOptions {
  /** A path, whose missing folders are made, or `:memory:`. */
  readonly path: string
  readonly now: () => number
  /** Whether it must be there, with the schema of this release; it is neither made nor migrated then. */
  readonly mustExist?: boolean
}

/**
 * The database, migrated, in WAL with `synchronous=FULL`, so that what is committed is on disk.
 * Throws `DatabaseRefused`, and then leaves the file as it was.
 */
export async function openSqlite(options: OpenOptions): Promise<Database.Database> {
  const { path, now, mustExist = false } = options
  const migrations = readMigrations(MIGRATIONS_FOLDER)
  const database = await refusing(() => {
    if (mustExist) requireThere(path)
    if (path !== IN_MEMORY) {
      if (!mustExist) createPrivately(path)
      const applied = inspect(path, migrations)
      if (mustExist && applied.length < migrations.length) throw new DatabaseRefused(OLDER)
      syncRecovered(path)
    }
    return new Database(path, { timeout: START_PATIENCE_MS })
  })
  try {
    await refusing(async () => {
      // better-sqlite3 is built with NORMAL as its default in WAL, which may lose the last commits with the power.
      database.pragma('synchronous = FULL')
      await switchToWal(database)
      migrate(database, migrations, now)
      createSigningKeys(database)
    })
    // From here on nobody waits inside SQLite, because the event loop would wait too: writes retry by a timer.
    database.pragma('busy_timeout = 0')
    database.pragma(`cache_size = -${CACHE_KIB}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

export interface MigrationStatus {
  readonly name: string
  readonly appliedAt: string | undefined
}

/** The migrations of this release, with the time at which each was applied, if it was. Changes nothing. */
export async function migrationStatus(path: string): Promise<readonly MigrationStatus[]> {
  const migrations = readMigrations(MIGRATIONS_FOLDER)
  const applied = await refusing(() => inspect(path, migrations))
  return migrations.map(({ version, name }) => ({
    name,
    appliedAt: applied.find(row => row.version === version)?.applied_at,
  }))
}

function requireThere(path: string): void {
  if (path === IN_MEMORY) throw new DatabaseRefused(OF_THE_SERVICE)
  if (!existsSync(path)) throw new DatabaseRefused(NOT_THERE)
}

/** Folders get mode 700 and the file 600; SQLite gives its WAL the mode of the file. What exists keeps its own. */
function createPrivately(path: string): void {
  makeFolder(dirname(path))
  closeSync(openSync(path, 'a', 0o600))
}

/** Step by step, because Node's own way never ends where a folder that is there takes no other, as in /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process that starts may have been quicker.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  syncFolder(dirname(path))
}

/**
 * Puts the names in a folder on disk: those of its own files SQLite takes care of, that of their folder it does not.
 * Where a folder cannot be synced, as on Windows, there is nothing to be done, and SQLite goes on as well.
 */
function syncFolder(path: string): void {
  try {
    sync(path, 'r')
  } catch {}
}

/**
 * Puts on disk what SQLite is about to recover. A process that was killed between writing a commit and syncing it
 * leaves one that is there again but for the power, and a retry would be told that it was done.
 */
function syncRecovered(path: string): void {
  const wal = `${path}-wal`
  if (existsSync(wal)) sync(wal, 'r+')
}

function sync(path: string, flags: 'r' | 'r+'): void {
  const file = openSync(path, flags)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Reads through a connection that cannot write, so that a file which is refused stays as it was. */
function inspect(path: string, migrations: readonly Migration[]): readonly AppliedMigration[] {
  if (path === IN_MEMORY || !existsSync(path)) return []
  rollBack(path)
  requireHeader(path)
  const database = new Database(path, { readonly: true, timeout: START_PATIENCE_MS })
  // In one view, because another process may be migrating.
  const read = database.transaction(() => {
    const applied = appliedMigrations(database)
    if (applied === undefined && holdsTables(database)) {
      throw new DatabaseRefused(FOREIGN)
    }
    return applied ?? []
  })
  try {
    const applied = read()
    if (applied.length > 0 && isDamaged(database, path)) throw new DatabaseRefused(DAMAGED)
    checkHistory(applied, migrations)
    return applied
  } finally {
    database.close()
  }
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
  if (start.length > 0 && !start.equals(SQLITE_HEADER)) throw new DatabaseRefused(NO_DATABASE)
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

/** Switching to WAL asks the busy handler in some states and not in others, so it is told not to wait at all. */
async function switchToWal(database: Database.Database): Promise<void> {
  const deadline = performance.now() + START_PATIENCE_MS
  database.pragma('busy_timeout = 0')
  for (;;) {
    try {
      database.pragma('journal_mode = WAL')
      break
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error
      await sleep(BUSY_PAUSE_MS)
    }
  }
  database.pragma(`busy_timeout = ${START_PATIENCE_MS}`)
}

async function refusing<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof DatabaseRefused) throw error
    throw new DatabaseRefused(refusalReason(error), { cause: error })
  }
}

function refusalReason(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (code === 'SQLITE_NOTADB') return NO_DATABASE
  if (isDamage(error)) return DAMAGED
  if (code.startsWith('SQLITE_BUSY')) return 'another process keeps it locked'
  if (/^(SQLITE_READONLY|SQLITE_CANTOPEN|EACCES$|EPERM$|EROFS$)/.test(code))
    return `${NOT_WRITABLE} (${code})`
  if (code === 'SQLITE_FULL' || code === 'ENOSPC') return `${FULL} (${code})`
  if (code.startsWith('SQLITE_IOERR')) return `its disk fails: look at the system's log (${code})`
  // Its history has other columns.
  if (code === 'SQLITE_ERROR') return FOREIGN
  if (error instanceof MigrationMismatch) return message
  return code === '' ? message : `it cannot be opened (${code})`
}
