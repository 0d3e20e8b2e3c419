import { closeSync, existsSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { DatabaseRefused, refusing } from './database-refused.ts'
import { makeFolder, syncFile } from './durable-files.ts'
import { IN_MEMORY, inspect, requireThere, START_PATIENCE_MS } from './inspect.ts'
import { migrate, migrationsOfRelease } from './migrator.ts'
import { createSigningKeys } from './signing-keys.ts'
import { isBusy } from './sqlite-errors.ts'

const BUSY_PAUSE_MS = 20

/** A quarter of what better-sqlite3 takes by itself: the rest is in the system's cache, and costs no more CPU from there. */
const CACHE_KIB = 4000

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
  const migrations = migrationsOfRelease()
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
  const migrations = migrationsOfRelease()
  const applied = await refusing(() => inspect(path, migrations))
  return migrations.map(({ version, name }) => ({
    name,
    appliedAt: applied.find(row => row.version === version)?.applied_at,
  }))
}

/** Folders get mode 700 and the file 600; SQLite gives its WAL the mode of the file. What exists keeps its own. */
export function createPrivately(path: string): void {
  makeFolder(dirname(path))
  closeSync(openSync(path, 'a', 0o600))
}

/**
 * Puts on disk what SQLite is about to recover. A process that was killed between writing a commit and syncing it
 * leaves one that is there again but for the power, and a retry would be told that it was done.
 */
function syncRecovered(path: string): void {
  const wal = `${path}-wal`
  if (existsSync(wal)) syncFile(wal)
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
