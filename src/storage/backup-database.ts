import { existsSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { checkDatabase, type WorkOptions } from './check-database.ts'
import { copyPages } from './copy-pages.ts'
import { DatabaseRefused, refusing } from './database-refused.ts'
import { isSameFile, syncFile, syncFolder } from './durable-files.ts'
import { openToRead, readHistory, requireThere } from './inspect.ts'
import { checkHistory, migrationsOfRelease } from './migrator.ts'
import { removeLeftovers, withPartialFile } from './partial-file.ts'

export interface BackupOptions extends WorkOptions {
  /** The database, which may be in use. */
  readonly path: string
  /** What is there already is replaced once the backup is whole. */
  readonly target: string
}

export interface Backup {
  readonly bytes: number
}

/**
 * Copies a database as it is at one moment into one file of mode 600, which is on disk and was checked before it gets
 * its name. Throws `DatabaseRefused`, and then whatever had that name before still has it.
 */
export async function backupDatabase(options: BackupOptions): Promise<Backup> {
  const { path, target } = options
  requireThere(path)
  requireTarget(path, target)
  const source = await refusing(() => openToRead(path))
  try {
    await refusing(() => beginView(source))
    await refusing(() => removeLeftovers(target), target)
    return await withPartialFile(target, async partial => {
      await refusing(() => copyPages(source, { ...options, target: partial, step: 'copy' }), target)
      // From here on the service can write its WAL back again.
      source.close()
      await refusing(() => leaveWal(partial), target)
      const { faults } = await checkDatabase(partial, options)
      if (faults[0] !== undefined) throw new DatabaseRefused(`it is not sound: ${faults[0]}`)
      options.signal.throwIfAborted()
      return await refusing(() => publish(partial, target), target)
    })
  } finally {
    source.close()
  }
}

function requireTarget(path: string, target: string): void {
  const refusal = (why: string) => new DatabaseRefused(why, { file: target })
  if (!existsSync(dirname(target))) throw refusal('its folder is not there')
  const there = statSync(target, { throwIfNoEntry: false })
  if (there !== undefined && !there.isFile()) throw refusal('it is no file')
  const own = ['', '-wal', '-shm', '-journal'].map(ending => path + ending)
  if (own.some(file => isSameFile(file, target))) throw refusal('it is the database itself')
}

/**
 * What is copied is then as it was at that moment. Without, SQLite begins again with each change that another process
 * makes meanwhile, which under constant writes is before it has come far.
 */
function beginView(source: Database.Database): void {
  source.exec('BEGIN')
  const applied = readHistory(source)
  if (applied.length === 0) throw new DatabaseRefused('it holds nothing yet')
  checkHistory(applied, migrationsOfRelease())
}

function publish(partial: string, target: string): Backup {
  syncFile(partial)
  renameSync(partial, target)
  syncFolder(dirname(target))
  return { bytes: statSync(target).size }
}

/** A copy of a database in WAL says that it is in WAL too, so that whoever reads it makes files beside it. */
export function leaveWal(path: string): void {
  const database = new Database(path)
  try {
    database.pragma('journal_mode = DELETE')
  } finally {
    database.close()
  }
}
