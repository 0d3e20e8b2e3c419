import { closeSync, existsSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeFolder, syncFile } from '../../files/durable-files.ts'
import type { MigrationStatus } from '../database-tasks.ts'
import { OLDER_SCHEMA, UNFINISHED_COPY, UnusableDatabase } from '../unusable-database.ts'
import { companionOf, IN_MEMORY } from './database-files.ts'
import { inspect, requireThere, START_PATIENCE_MS } from './inspect-database.ts'
import { migrate, migrationsOfRelease } from './migrator.ts'
import { countConnection, isOpenHere } from './own-connections.ts'
import { createSigningKeys } from './signing-keys.ts'
import { isUnfinishedCopy } from './sqlite-copy-mark.ts'
import { Database } from './sqlite-driver.ts'
import { isBusy } from './sqlite-errors.ts'
import { explainErrors } from './unusable-reasons.ts'
import { clearOutdatedWords } from './word-index.ts'

const BUSY_PAUSE_MS = 20

/** Memory for pages: a quarter of better-sqlite3's default. The rest is in the system's cache, and reading it from there costs no more CPU. */
export const CACHE_KIB = 4000

export interface OpenOptions {
  /** A path whose missing folders are created, or `:memory:`. */
  readonly path: string
  readonly now: () => number
  /** Whether it must exist with the schema of this release. It is then neither created nor migrated. */
  readonly mustExist?: boolean
  /** Whether it may be an unfinished copy of another database. */
  readonly isCopyTarget?: boolean
}

/**
 * Opens and migrates a database, in WAL mode with `synchronous=FULL`: what is committed is on disk.
 * If it throws `UnusableDatabase`, the file stays as it was.
 */
export async function openSqlite(options: OpenOptions): Promise<Database> {
  const { path, now, mustExist = false, isCopyTarget = false } = options
  const migrations = migrationsOfRelease()
  const database = await explainErrors(() => {
    if (mustExist) requireThere(path)
    if (path !== IN_MEMORY) {
      if (!mustExist) createPrivately(path)
      const applied = inspect(path, migrations, isCopyTarget ? () => {} : refuseUnfinished)
      if (mustExist && applied.length < migrations.length) throw new UnusableDatabase(OLDER_SCHEMA)
      syncRecovered(path)
    }
    const opened = new Database(path, { timeout: START_PATIENCE_MS })
    countConnection(opened, path)
    return opened
  })
  try {
    await explainErrors(async () => {
      // The default of better-sqlite3 in WAL is NORMAL, which may lose the last commits in a power cut.
      database.pragma('synchronous = FULL')
      await switchToWal(database)
      migrate(database, migrations, now)
      createSigningKeys(database)
      clearOutdatedWords(database)
    })
    // From here on SQLite must not wait for locks, because that blocks the event loop. Writes retry with a timer.
    database.pragma('busy_timeout = 0')
    database.pragma(`cache_size = -${CACHE_KIB}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

/** The migrations of this release, each with the time at which it was applied. Changes nothing. */
export async function migrationStatus(path: string): Promise<readonly MigrationStatus[]> {
  const migrations = migrationsOfRelease()
  const applied = await explainErrors(() => inspect(path, migrations))
  return migrations.map(({ version, name }) => ({
    name,
    appliedAt: applied.find(row => row.version === version)?.applied_at,
  }))
}

function refuseUnfinished(database: Database): void {
  if (isUnfinishedCopy(database)) throw new UnusableDatabase(UNFINISHED_COPY)
}

/** Creates folders with mode 700 and the file with 600; SQLite gives the WAL the mode of the file. Existing ones stay. */
export function createPrivately(path: string): void {
  makeFolder(dirname(path))
  if (!isOpenHere(path)) closeSync(openSync(path, 'a', 0o600))
}

/**
 * Syncs the WAL that SQLite is about to recover. A process killed between write and fsync leaves a commit that survives the
 * kill but not a power cut, and a client that retries must not be told that it succeeded before it is on disk.
 */
export function syncRecovered(path: string): void {
  const wal = companionOf(path, '-wal')
  if (existsSync(wal)) syncFile(wal)
}

/** SQLite calls its busy handler only in some states of this switch, so this loop waits instead. */
async function switchToWal(database: Database): Promise<void> {
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
