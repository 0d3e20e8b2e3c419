import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import { type AppliedMigration, checkHistory, type Migration } from '../migrations.ts'
import { FOREIGN, UnusableDatabase } from '../unusable-database.ts'
import { connect, isOpenHere } from './connect.ts'
import { companionOf, IN_MEMORY } from './database-files.ts'
import { canReadAhead, isDamaged } from './find-damage.ts'
import { appliedMigrations, migrationsOfRelease } from './migrator.ts'
import type { Database } from './sqlite-driver.ts'
import { hasTable } from './sqlite-statements.ts'
import { DAMAGED, EMPTY, NO_DATABASE } from './unusable-reasons.ts'

/** How long a start waits for another process that starts, migrates or checkpoints. */
export const START_PATIENCE_MS = 5000

/** For reading a whole database: its index by e-mail is read in random order, and with 16 MB, a million users take twice as long. */
export const WHOLE_CACHE_KIB = 64_000

/** https://www.sqlite.org/fileformat.html#magic_header_string */
const SQLITE_HEADER = Buffer.from('SQLite format 3\0')

/** https://www.sqlite.org/fileformat.html#the_rollback_journal */
const JOURNAL_HEADER = Buffer.from('d9d505f920a163d7', 'hex')

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

/** What is known of a database before it is opened for writing. */
export interface Inspected {
  /** None for a database that is empty or missing. */
  readonly applied: readonly AppliedMigration[]
  readonly isUnfinishedCopy: boolean
}

/**
 * Checks that this release can use a database and, as far as startup time allows, that its pages are intact. Reads through a
 * read-only connection, so a rejected file stays unchanged.
 */
export async function inspect(path: string): Promise<Inspected> {
  if (path === IN_MEMORY || !existsSync(path)) return { applied: [], isUnfinishedCopy: false }
  const isCached = !isOpenHere(path) && canReadAhead(path)
  const database = await openView(path)
  try {
    const applied = readHistory(database)
    if (applied.length > 0 && isDamaged(database, { path, isCached })) {
      throw new UnusableDatabase(DAMAGED, { isFault: true })
    }
    checkHistory(applied, migrationsOfRelease())
    return { applied, isUnfinishedCopy: isUnfinishedCopy(database) }
  } finally {
    database.close()
  }
}

/**
 * Opens one state of a database: a read-only connection in a transaction that lasts until it is closed. Throws
 * `UnusableDatabase` for a file without SQLite's header.
 */
export async function openView(path: string): Promise<Database> {
  await rollBack(path)
  requireHeader(path)
  return connect(path, {
    readonly: true,
    timeout: START_PATIENCE_MS,
    lock: database => {
      database.exec('BEGIN')
      database.pragma('schema_version')
    },
  })
}

/** The migrations applied to a database; none if it is empty. Throws `UnusableDatabase` for the database of another program. */
export function readHistory(database: Database): readonly AppliedMigration[] {
  const applied = appliedMigrations(database)
  if (applied === undefined && holdsTables(database)) {
    throw new UnusableDatabase(FOREIGN, { isFault: true })
  }
  return applied ?? []
}

/** Whether a copy began in a database and is not complete. Older schemas have no such copies. */
export function isUnfinishedCopy(database: Database): boolean {
  const sql = 'SELECT EXISTS (SELECT 1 FROM unfinished_copies)'
  return hasTable(database, 'unfinished_copies') && database.prepare(sql).pluck().get() === 1
}

/** The migrations that a database lacks. Throws `UnusableDatabase` for an empty one and for one that this release cannot use. */
export function requireUsable(database: Database): readonly Migration[] {
  const applied = readHistory(database)
  if (applied.length === 0) throw new UnusableDatabase(EMPTY)
  const migrations = migrationsOfRelease()
  checkHistory(applied, migrations)
  return migrations.slice(applied.length)
}

/**
 * Undoes a write that was cut off by the end of its process while the database was not in WAL: the first start of this
 * service, or a program that wrote to a copy. A read-only connection cannot read such a file.
 */
async function rollBack(path: string): Promise<void> {
  const start = startOf(companionOf(path, '-journal')).subarray(0, JOURNAL_HEADER.length)
  if (!start.equals(JOURNAL_HEADER)) return
  const database = await connect(path, {
    timeout: START_PATIENCE_MS,
    lock: opened => void opened.pragma('schema_version'),
  })
  database.close()
}

/** Throws `UnusableDatabase` for a file that is not a SQLite database, or shorter than a page: SQLite treats that as empty. */
export function requireHeader(path: string): void {
  if (isOpenHere(path)) return
  const start = startOf(path)
  if (start.length > 0 && !start.equals(SQLITE_HEADER)) {
    throw new UnusableDatabase(NO_DATABASE, { isFault: true })
  }
}

/** The bytes of a file where SQLite has its header; fewer if the file is shorter or missing. */
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

function holdsTables(database: Database): boolean {
  return database.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() !== 0
}
