import { closeSync, existsSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  partialNameOf,
  removeLeftovers,
  syncFile,
  syncFolder,
} from '../../../platform/durable-files.ts'
import type { BackupOptions } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { closing } from '../connect.ts'
import { COMPANIONS, isFileOfDatabase } from '../database-files.ts'
import { openView, requireThere, requireUsable } from '../inspect-database.ts'
import { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../sqlite-errors.ts'
import { expireReads } from '../sqlite-user-reads.ts'
import { examine } from './find-faults.ts'

/** Takes some milliseconds, after which the progress is shown. */
const PAGES_A_STEP = 500

/**
 * Copies a snapshot of a database, which may be in use, into one file of mode 600. The file is checked and on disk before it gets
 * its name. If it throws `UnusableDatabase`, an existing file of that name stays as it was.
 */
export async function backupDatabase(path: string, { file: target, onProgress }: BackupOptions) {
  requireThere(path)
  requireTarget(path, target)
  // One state of the database. Without its transaction, SQLite would restart the copy after each write of another process, and
  // not finish under constant writes.
  return closing(await explainErrors(() => openView(path)), async source => {
    await explainErrors(() => requireUsable(source))
    await explainErrors(() => removeLeftovers(target), target)
    return withPartialDatabase(target, async partial => {
      await explainErrors(() => copyPages(source, { file: partial, onProgress }), target)
      // Ends the read transaction. While it is open, the WAL of the service only grows.
      source.close()
      // Somebody may put the file in the place of a database by hand.
      await explainErrors(() => changeOutOfWal(partial, expireReads), target)
      const { faults } = await explainErrors(() => examine(partial))
      if (faults[0] !== undefined) throw new UnusableDatabase(`it is not sound: ${faults[0]}`)
      return explainErrors(() => publish(partial, target), target)
    })
  })
}

function requireTarget(path: string, target: string): void {
  const refusal = (why: string) => new UnusableDatabase(why, { file: target })
  if (!existsSync(dirname(target))) throw refusal('its folder does not exist')
  const there = statSync(target, { throwIfNoEntry: false })
  if (there !== undefined && !there.isFile()) throw refusal('it is not a regular file')
  if (isFileOfDatabase(target, path)) throw refusal('it is the database itself')
}

/** Copies a database page by page with SQLite's online backup. */
async function copyPages(source: Database, { file, onProgress }: BackupOptions): Promise<void> {
  const pageBytes = Number(source.pragma('page_size', { simple: true }))
  await source.backup(file, {
    progress: ({ totalPages, remainingPages }) => {
      onProgress((totalPages - remainingPages) * pageBytes, totalPages * pageBytes)
      return PAGES_A_STEP
    },
  })
}

function publish(partial: string, target: string) {
  syncFile(partial)
  renameSync(partial, target)
  syncFolder(dirname(target))
  return { bytes: statSync(target).size }
}

/**
 * Runs `work` on an empty file of mode 600 beside `path` and returns its result. Then removes the file, unless `work` has
 * renamed it, and the files that SQLite keeps beside it. Throws `UnusableDatabase` if the file cannot be created.
 */
export async function withPartialDatabase<T>(
  path: string,
  work: (partial: string) => Promise<T>,
): Promise<T> {
  const partial = partialNameOf(path)
  await explainErrors(() => closeSync(openSync(partial, 'wx', 0o600)), path)
  try {
    return await work(partial)
  } finally {
    for (const ending of ['', ...COMPANIONS]) rmSync(partial + ending, { force: true })
  }
}

/**
 * Changes such a file, and takes it out of WAL mode: a copy of a database has the mode of that one, and in WAL reading it would
 * create files beside it.
 */
export function changeOutOfWal<T>(path: string, change: (database: Database) => T): Promise<T> {
  return closing(new Database(path), database => {
    database.pragma('journal_mode = DELETE')
    return change(database)
  })
}
