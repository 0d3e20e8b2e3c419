import {
  chmodSync,
  existsSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { leaveWal } from './backup-database.ts'
import { checkDatabase, type WorkOptions } from './check-database.ts'
import { copyFile } from './copy-file.ts'
import { copyPages } from './copy-pages.ts'
import { asRefusal, DatabaseRefused, refusing } from './database-refused.ts'
import { isSameFile, makeFolder, syncFolder } from './durable-files.ts'
import { requireFile } from './inspect.ts'
import { removeLeftovers, withPartialFile } from './partial-file.ts'
import { createPrivately } from './sqlite.ts'
import { isBusy } from './sqlite-errors.ts'

export interface RestoreOptions extends WorkOptions {
  /** Where the database is, or is to be. */
  readonly path: string
  /** Stays as it is. */
  readonly backup: string
  readonly now: () => number
}

export interface Restored {
  /** Where the database of before is, if there was one. */
  readonly kept: string | undefined
  /** The names of the migrations that it has yet to go through. */
  readonly pending: readonly string[]
}

const IN_USE = 'a process has it open: stop the service before'

const UNREADABLE =
  'what is there cannot be read, so that nobody can tell whether a service has it open: stop it, and move that file ' +
  'and those beside it with -wal, -shm or -journal after its name away'

/** Of the file, where what changes with each write to it stands: https://www.sqlite.org/fileformat.html#the_database_header */
const HEADER_BYTES = 100

const SELECT_IF_COUNTED = `
  SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'users_summary'`

/** By the clock, so that it is later than any that was told where the database of before cannot be read. */
const BEGIN_LATER_REVISION = `
  UPDATE users_summary SET revision = max(revision + 1, ?) WHERE singleton = 1`

/**
 * Puts a backup in the place of the database. The file stays the same one and its content is replaced by SQLite in one
 * transaction, under its exclusive lock: a service that starts meanwhile waits for it, and whatever ends the process,
 * the next one to open the file finds all of the old database or all of the new one. A new file under the old name
 * would leave a service that has just opened the old one writing to what is gone.
 *
 * Throws `DatabaseRefused`, and then the database is as it was.
 */
export async function restoreDatabase(options: RestoreOptions): Promise<Restored> {
  requireFile(options.path)
  requireBackup(options)
  const path = realPath(options.path)
  await refusing(() => {
    makeFolder(dirname(path))
    requireAlone(path)
    removeLeftovers(path)
  })
  return withPartialFile(path, async partial => {
    const pending = await verifiedCopy(partial, options)
    const kept = await refusing(() => replace(path, partial, options))
    return { kept, pending }
  })
}

function realPath(path: string): string {
  return existsSync(path) ? realpathSync(path) : resolve(path)
}

function requireBackup({ path, backup }: RestoreOptions): void {
  const refusal = (why: string) => new DatabaseRefused(why, { file: backup })
  const file = statSync(backup, { throwIfNoEntry: false })
  if (file === undefined) throw refusal('there is no such file')
  if (!file.isFile()) throw refusal('it is no file')
  if (isSameFile(backup, path)) throw refusal('it is the database itself')
  const part = companionWithContent(backup)
  if (part !== undefined) throw refusal(`a part of it is in ${part}: take a \`backup\` of it`)
}

/** A first look, so that nobody waits for a refusal until a large backup is verified. */
function requireAlone(path: string): void {
  if (!existsSync(path)) {
    const orphan = companionWithContent(path)
    if (orphan === undefined) return
    throw new DatabaseRefused(`${orphan} is there without it: move it away`)
  }
  const database = connectAlone(path)
  database.close()
}

/** The file beside a database in which SQLite keeps what is not in the database itself. */
function companionWithContent(path: string): string | undefined {
  return ['-wal', '-journal']
    .map(ending => path + ending)
    .find(file => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0)
}

/** A connection whose database, which is not in WAL then, no other has open. */
function connectAlone(path: string): Database.Database {
  const database = new Database(path, { timeout: 0 })
  try {
    // To leave WAL takes the lock that each connection to a database in WAL shares, also one that does nothing.
    database.pragma('journal_mode = DELETE')
    database.exec('BEGIN EXCLUSIVE')
    return database
  } catch (error) {
    database.close()
    if (isBusy(error)) throw new DatabaseRefused(IN_USE, { cause: error })
    const refusal = asRefusal(error)
    if (!(refusal instanceof DatabaseRefused && refusal.isFault)) throw error
    throw new DatabaseRefused(UNREADABLE, { cause: error })
  }
}

/** The migrations that the copy has yet to go through. */
async function verifiedCopy(partial: string, options: RestoreOptions): Promise<readonly string[]> {
  const { backup } = options
  const from = await refusing(() => open(backup, 'r'), backup)
  try {
    const to = await refusing(() => open(partial, 'r+'))
    try {
      await refusing(() => copyFile({ from, to, step: 'copy' }, options))
    } finally {
      await to.close()
    }
  } finally {
    await from.close()
  }
  return refusing(async () => {
    leaveWal(partial)
    const { faults, applied, pending } = await checkDatabase(partial, options)
    if (faults[0] !== undefined) throw new DatabaseRefused(faults[0])
    if (applied === 0) throw new DatabaseRefused('it is empty')
    return pending
  }, backup)
}

/** A list is told from another by its revision, and clients would take a later one for what they have. */
function beginLaterRevision(partial: string, least: number): void {
  const database = new Database(partial)
  try {
    const isCounted = database.prepare(SELECT_IF_COUNTED).pluck().get() === 1
    if (isCounted) database.prepare(BEGIN_LATER_REVISION).run(least)
  } finally {
    database.close()
  }
}

/** Where the database of before is, if there was one. */
async function replace(
  path: string,
  partial: string,
  options: RestoreOptions,
): Promise<string | undefined> {
  createPrivately(path)
  // Open to the end, because to close it would take away the locks that SQLite has.
  const file = await open(path, 'r')
  try {
    chmodSync(path, 0o600)
    const { kept, header, revision } = await keep(path, file, options)
    const isAsBefore = () => headerOf(file).equals(header)
    try {
      beginLaterRevision(partial, Math.max(options.now(), revision + 1))
      await replaceContent(path, partial, {
        ...options,
        onLocked: () => {
          if (!isAsBefore()) throw new DatabaseRefused(IN_USE)
        },
      })
    } catch (error) {
      if (kept !== undefined && isAsBefore()) rmSync(kept, { force: true })
      throw error
    }
    syncFolder(dirname(path))
    return kept
  } finally {
    await file.close()
  }
}

async function replaceContent(
  path: string,
  partial: string,
  options: WorkOptions & { readonly onLocked: () => void },
): Promise<void> {
  const source = new Database(partial, { readonly: true })
  try {
    await copyPages(source, { ...options, target: path, step: 'replace' })
  } finally {
    source.close()
  }
}

interface Kept {
  readonly kept: string | undefined
  /** What the database begins with, which each write to it changes. */
  readonly header: Buffer
  /** Of its lists. */
  readonly revision: number
}

/** Between this and the next lock a service may start: what it did to the file then shows in its header. */
async function keep(path: string, file: FileHandle, options: RestoreOptions): Promise<Kept> {
  const database = connectAlone(path)
  try {
    const header = headerOf(file)
    if (header.length === 0) return { kept: undefined, header, revision: 0 }
    const kept = freeName(path, options.now())
    await withPartialFile(path, async partial => {
      const to = await open(partial, 'r+')
      try {
        await copyFile({ from: file, to, step: 'keep' }, options)
      } finally {
        await to.close()
      }
      renameSync(partial, kept)
      syncFolder(dirname(kept))
    })
    return { kept, header, revision: revisionIn(database) }
  } finally {
    database.close()
  }
}

/** 0 where it is damaged, or of a schema that has none. */
function revisionIn(database: Database.Database): number {
  try {
    return database.prepare<[], number>('SELECT revision FROM users_summary').pluck().get() ?? 0
  } catch {
    return 0
  }
}

function headerOf({ fd }: FileHandle): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  return header.subarray(0, readSync(fd, header, 0, HEADER_BYTES, 0))
}

/** Such as `users.db.replaced-20260131T120000Z`. */
function freeName(path: string, nowMs: number): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const name = `${path}.replaced-${time}`
  let serial = 1
  while (existsSync(serial === 1 ? name : `${name}-${serial}`)) serial++
  return serial === 1 ? name : `${name}-${serial}`
}
