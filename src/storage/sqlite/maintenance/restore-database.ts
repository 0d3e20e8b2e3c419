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
import { isSameFile, makeFolder, syncFolder } from '../../../files/durable-files.ts'
import { removeLeftovers } from '../../../files/partial-file.ts'
import type { Restored, TaskOptions } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { companionOf } from '../database-files.ts'
import { requireFile } from '../inspect-database.ts'
import { openAlone } from '../open-alone.ts'
import { createPrivately } from '../open-sqlite.ts'
import { Database } from '../sqlite-driver.ts'
import { asUnusable, explainErrors, IN_USE } from '../unusable-reasons.ts'
import { leaveWal } from './backup-database.ts'
import { copyFile } from './copy-file.ts'
import { copyPages } from './copy-pages.ts'
import { examine } from './find-faults.ts'
import { withPartialDatabase } from './partial-database.ts'

export interface RestoreOptions extends TaskOptions {
  /** The database, which need not exist. */
  readonly path: string
  /** Is only read. */
  readonly backup: string
  readonly now: () => number
}

const UNREADABLE =
  'it cannot be read, so it is unknown whether a service has it open: stop the service, then move that file ' +
  'and the files beside it whose names end with -wal, -shm or -journal away'

/** The header of the file, which every write changes: https://www.sqlite.org/fileformat.html#the_database_header */
const HEADER_BYTES = 100

const SELECT_IF_COUNTED = `
  SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'users_summary'`

/** `?` comes from the clock, so that the revision is new even if that of the previous database cannot be read. */
const BEGIN_LATER_REVISION = `
  UPDATE users_summary SET revision = max(revision + 1, ?) WHERE singleton = 1`

/**
 * Replaces a database by a backup. SQLite replaces the content of the file in one transaction, under its exclusive lock. A
 * service that starts meanwhile waits for the lock. However this process ends, the next one to open the file finds all of
 * the old database or all of the new one. A new file under the old name would be unsafe: a service that has just opened
 * the old file would write to a file that no longer has a name.
 *
 * Throws `UnusableDatabase`, and then leaves the database as it was.
 */
export async function restoreDatabase(options: RestoreOptions): Promise<Restored> {
  requireFile(options.path)
  requireBackup(options)
  const path = realPath(options.path)
  await explainErrors(() => {
    makeFolder(dirname(path))
    requireAlone(path)
    removeLeftovers(path)
  })
  return withPartialDatabase(path, async partial => {
    const pending = await verifiedCopy(partial, options)
    const setAside = await explainErrors(() => replace(path, partial, options))
    return { setAside, pending }
  })
}

function realPath(path: string): string {
  return existsSync(path) ? realpathSync(path) : resolve(path)
}

function requireBackup({ path, backup }: RestoreOptions): void {
  const refusal = (why: string) => new UnusableDatabase(why, { file: backup })
  const file = statSync(backup, { throwIfNoEntry: false })
  if (file === undefined) throw refusal('there is no such file')
  if (!file.isFile()) throw refusal('it is not a regular file')
  if (isSameFile(backup, path)) throw refusal('it is the database itself')
  const part = companionWithContent(backup)
  if (part !== undefined) throw refusal(`a part of it is in ${part}: take a \`backup\` of it`)
}

/** Checked first, so that the operator gets this error before a large backup is verified. */
function requireAlone(path: string): void {
  if (!existsSync(path)) {
    const orphan = companionWithContent(path)
    if (orphan === undefined) return
    throw new UnusableDatabase(`${orphan} exists without the database: move it away`)
  }
  const database = connectAlone(path)
  database.close()
}

/** A file beside a database, with content that is not yet in the database itself. */
function companionWithContent(path: string): string | undefined {
  return (['-wal', '-journal'] as const)
    .map(ending => companionOf(path, ending))
    .find(file => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0)
}

/** Opens a database that no other process has open, and takes it out of WAL mode. */
function connectAlone(path: string): Database {
  try {
    return openAlone(path, database => {
      // Every open connection, even an idle one, holds a shared lock. Leaving WAL mode takes it exclusively.
      database.pragma('journal_mode = DELETE')
      database.exec('BEGIN EXCLUSIVE')
    })
  } catch (error) {
    const unusable = asUnusable(error)
    if (!(unusable instanceof UnusableDatabase && unusable.isFault)) throw error
    throw new UnusableDatabase(UNREADABLE, { cause: error })
  }
}

/** Copies the backup to `partial` and checks it. Returns the names of the migrations that it still lacks. */
async function verifiedCopy(partial: string, options: RestoreOptions): Promise<readonly string[]> {
  const { backup } = options
  const from = await explainErrors(() => open(backup, 'r'), backup)
  try {
    const to = await explainErrors(() => open(partial, 'r+'))
    try {
      await explainErrors(() => copyFile({ from, to }, options))
    } finally {
      await to.close()
    }
  } finally {
    await from.close()
  }
  return explainErrors(() => {
    leaveWal(partial)
    options.onProgress('check')
    const { faults, applied, pending } = examine(partial)
    if (faults[0] !== undefined) throw new UnusableDatabase(faults[0])
    if (applied === 0) throw new UnusableDatabase('it is empty')
    return pending
  }, backup)
}

/** Clients cache lists by their revision: if one came twice, they would keep an old list. */
function beginLaterRevision(partial: string, least: number): void {
  const database = new Database(partial)
  try {
    const isCounted = database.prepare(SELECT_IF_COUNTED).pluck().get() === 1
    if (isCounted) database.prepare(BEGIN_LATER_REVISION).run(least)
  } finally {
    database.close()
  }
}

/** Returns where the previous database is, if there was one. */
async function replace(
  path: string,
  partial: string,
  options: RestoreOptions,
): Promise<string | undefined> {
  createPrivately(path)
  // Stays open to the end: closing it would drop the locks that SQLite holds on the file.
  const file = await open(path, 'r')
  try {
    chmodSync(path, 0o600)
    const { copy, header, revision } = await setAside(path, file, options)
    const isAsBefore = () => headerOf(file).equals(header)
    try {
      beginLaterRevision(partial, Math.max(options.now(), revision + 1))
      await replaceContent(path, partial, {
        ...options,
        onLocked: () => {
          if (!isAsBefore()) throw new UnusableDatabase(IN_USE)
        },
      })
    } catch (error) {
      if (copy !== undefined && isAsBefore()) rmSync(copy, { force: true })
      throw error
    }
    syncFolder(dirname(path))
    return copy
  } finally {
    await file.close()
  }
}

async function replaceContent(
  path: string,
  partial: string,
  options: TaskOptions & { readonly onLocked: () => void },
): Promise<void> {
  const source = new Database(partial, { readonly: true })
  try {
    await copyPages(source, { ...options, target: path })
  } finally {
    source.close()
  }
}

interface SetAside {
  /** The path of the copy; undefined if the database was empty. */
  readonly copy: string | undefined
  /** The first bytes of the database, which every write changes. */
  readonly header: Buffer
  /** The revision of its lists. */
  readonly revision: number
}

/**
 * Copies the previous database to another name. A service may start between this lock and the next one; the header shows
 * whether it has written.
 */
async function setAside(
  path: string,
  file: FileHandle,
  options: RestoreOptions,
): Promise<SetAside> {
  const database = connectAlone(path)
  try {
    const header = headerOf(file)
    if (header.length === 0) return { copy: undefined, header, revision: 0 }
    const copy = freeName(path, options.now())
    await withPartialDatabase(path, async partial => {
      const to = await open(partial, 'r+')
      try {
        await copyFile({ from: file, to }, options)
      } finally {
        await to.close()
      }
      renameSync(partial, copy)
      syncFolder(dirname(copy))
    })
    return { copy, header, revision: revisionIn(database) }
  } finally {
    database.close()
  }
}

/** 0 if the database is damaged or its schema has no revision. */
function revisionIn(database: Database): number {
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
