import { statSync } from 'node:fs'
import { sleep } from '../../platform/timers.ts'
import { UnusableDatabase } from '../unusable-database.ts'
import { Database } from './sqlite-driver.ts'
import { IN_USE, isBusy } from './sqlite-errors.ts'

export interface ConnectOptions {
  readonly readonly?: boolean
  /** How long SQLite waits for locks, in milliseconds. */
  readonly timeout: number
  /** Takes a lock that the connection keeps. It changes nothing but the journal mode. By default it reads, which is enough in WAL. */
  readonly lock?: ((database: Database) => void | Promise<void>) | undefined
}

/**
 * Connects to an existing file, or to a database in memory. `restore` puts a new file in the place of a database that it has
 * locked. A process that opened the old one before notices it with a lock of its own, and connects again: the names of
 * its WAL and journal now belong to the new file. Until that lock, SQLite itself refuses to write to a file that was moved.
 */
export async function connect(path: string, options: ConnectOptions): Promise<Database> {
  const { lock = lockForReading, ...driverOptions } = options
  for (;;) {
    const key = keyOf(path)
    const database = new Database(path, { ...driverOptions, fileMustExist: true })
    try {
      await lock(database)
      if (keyOf(path) === key) return database
    } catch (error) {
      if (keyOf(path) === key) {
        database.close()
        throw error
      }
    }
    database.close()
  }
}

/** Runs `work` with a database, which it closes then. */
export async function closing<T>(
  database: Database,
  work: (database: Database) => T | Promise<T>,
): Promise<T> {
  try {
    return await work(database)
  } finally {
    database.close()
  }
}

function keyOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && `${stats.dev}:${stats.ino}`
}

/**
 * Opens an existing database that no other process has open, and locks out all others until it is closed. The journal mode
 * stays, unless another `lock` is given. Throws `UnusableDatabase` soon if another connection is open.
 */
export async function openExclusively(path: string, lock = lockWhileOpen): Promise<Database> {
  const open = () => connect(path, { timeout: 0, lock })
  try {
    return await open().catch(async error => {
      if (!isBusy(error)) throw error
      // Two processes that try at once both find the other. Processes that start together have different ids.
      await sleep(25 * (process.pid % 8))
      return open()
    })
  } catch (error) {
    throw isBusy(error) ? new UnusableDatabase(IN_USE, { cause: error }) : error
  }
}

function lockForReading(database: Database): void {
  database.pragma('schema_version')
}

function lockWhileOpen(database: Database): void {
  // In WAL mode every open connection, even an idle one, holds a shared lock. The next read takes it exclusively.
  database.pragma('locking_mode = EXCLUSIVE')
  database.pragma('synchronous = FULL')
  database.exec('BEGIN EXCLUSIVE; COMMIT')
}
