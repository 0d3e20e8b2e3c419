import { closeSync, existsSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { makeFolder, syncFile } from '../../platform/durable-files.ts'
import { performance, sleep } from '../../platform/timers.ts'
import { migrationsFor } from '../migrations.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { OLDER_SCHEMA, UNFINISHED_COPY, UnusableDatabase } from '../unusable-database.ts'
import { connect } from './connect.ts'
import { companionOf, IN_MEMORY } from './database-files.ts'
import { inspect, requireThere, START_PATIENCE_MS } from './inspect-database.ts'
import { migrate } from './migrator.ts'
import type { Database } from './sqlite-driver.ts'
import { explainErrors, isBusy } from './sqlite-errors.ts'

const BUSY_PAUSE_MS = 20

const NOT_IN_WAL = 'it does not stay in WAL mode: its disk may be nearly full'

/** Memory for pages: a quarter of better-sqlite3's default. The rest is in the system's cache, and reading it from there costs no more CPU. */
export const CACHE_KIB = 4000

/** A database that is missing is created, unless it is to be refused. One that is only read must exist. */
export interface OpenOptions
  extends Pick<OpenStorageOptions, 'now' | 'isReadOnly' | 'isCopyTarget'>,
    Partial<Pick<OpenStorageOptions, 'ifMissing'>> {
  /** A path whose missing folders are created, or `:memory:`. */
  readonly path: string
}

/**
 * Opens and migrates a database that is not only read, in WAL mode with `synchronous=FULL`: what is committed is on disk.
 * If it throws `UnusableDatabase`, the file stays as it was.
 */
export async function openSqlite(options: OpenOptions): Promise<Database> {
  return explainErrors(async () => {
    const { path, now, ifMissing, isReadOnly = false } = options
    if (ifMissing === 'refuse' || path !== IN_MEMORY) await prepare(options)
    const lock = isReadOnly ? undefined : switchToWal
    const database = await connect(path, { timeout: START_PATIENCE_MS, lock })
    try {
      if (isReadOnly) database.pragma('query_only = ON')
      else migrate(database, migrationsFor('sqlite'), now)
      // From here on SQLite must not wait for locks, because that blocks the event loop. Writes retry with a timer.
      database.pragma('busy_timeout = 0')
      database.pragma(`cache_size = -${CACHE_KIB}`)
      return database
    } catch (error) {
      database.close()
      throw error
    }
  })
}

async function prepare({ path, ifMissing, isCopyTarget }: OpenOptions): Promise<void> {
  const mustExist = ifMissing === 'refuse'
  if (mustExist) requireThere(path)
  else createPrivately(path)
  const { applied, isUnfinishedCopy } = await inspect(path)
  if (isUnfinishedCopy && !isCopyTarget) throw new UnusableDatabase(UNFINISHED_COPY)
  // What a copy may not fill is refused as it is.
  const mustBeCurrent = mustExist || (isCopyTarget && applied.length > 0 && !isUnfinishedCopy)
  if (mustBeCurrent && applied.length < migrationsFor('sqlite').length) {
    throw new UnusableDatabase(OLDER_SCHEMA)
  }
  syncRecovered(path)
}

/** Creates folders with mode 700 and the file with 600; SQLite gives the WAL the mode of the file. Existing ones stay. */
export function createPrivately(path: string): void {
  makeFolder(dirname(path))
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
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
  // The default of better-sqlite3 in WAL is NORMAL, which may lose the last commits in a power cut.
  database.pragma('synchronous = FULL')
  database.pragma('busy_timeout = 0')
  const deadline = performance.now() + START_PATIENCE_MS
  for (;;) {
    let failure: unknown = new UnusableDatabase(NOT_IN_WAL)
    try {
      const mode = database.pragma('journal_mode = WAL', { simple: true })
      // Only a read takes the lock that lasts: until then `restore` can leave this mode again. A full disk may leave it in silence.
      database.pragma('schema_version')
      if (mode !== 'wal' || database.pragma('journal_mode', { simple: true }) === mode) break
    } catch (error) {
      if (!isBusy(error)) throw error
      failure = error
    }
    if (performance.now() > deadline) throw failure
    await sleep(BUSY_PAUSE_MS)
  }
  database.pragma(`busy_timeout = ${START_PATIENCE_MS}`)
}
