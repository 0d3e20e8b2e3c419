import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import type { Compacted } from '../../database-tasks.ts'
import { checkHistory } from '../../migrations.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { readHistory, requireHeader, requireThere } from '../inspect-database.ts'
import { migrationsOfRelease } from '../migrator.ts'
import { openAlone } from '../open-alone.ts'
import { syncRecovered } from '../open-sqlite.ts'
import type { Database } from '../sqlite-driver.ts'
import { DAMAGED, EMPTY } from '../unusable-reasons.ts'

/** The same as for `check`, because `integrity_check` runs here too. */
const CACHE_KIB = 64_000

/**
 * Returns the free pages of a database to the file system. The file keeps its inode, permissions and journal mode. VACUUM
 * writes the new content in one transaction, into the WAL or over a journal: however this process ends, the file holds all
 * of the old content or all of the new content. Throws `UnusableDatabase` while another process has it open.
 */
export function compactDatabase(link: string): Compacted {
  requireThere(link)
  const path = realpathSync(link)
  requireHeader(path)
  // SQLite reports a lock that it cannot take on a file without write permission as a failing disk.
  accessSync(path, constants.W_OK)
  const bytesBefore = bytesOf(path)
  if (bytesBefore === 0) throw new UnusableDatabase(EMPTY)
  syncRecovered(path)
  const database = openAlone(path, lockWhileOpen)
  try {
    database.pragma(`cache_size = -${CACHE_KIB}`)
    const applied = readHistory(database)
    if (applied.length === 0) throw new UnusableDatabase(EMPTY)
    checkHistory(applied, migrationsOfRelease())
    // VACUUM copies only what it can reach, which would make repairable damage permanent.
    if (database.pragma('integrity_check(1)', { simple: true }) !== 'ok') {
      throw new UnusableDatabase(DAMAGED, { isFault: true })
    }
    database.exec('VACUUM')
    // Does nothing if the database is not in WAL.
    database.pragma('wal_checkpoint(TRUNCATE)')
  } finally {
    database.close()
  }
  return { bytesBefore, bytesAfter: bytesOf(path) }
}

/** Locks out all other connections until this one closes. The journal mode stays as it is. */
function lockWhileOpen(database: Database): void {
  // In WAL mode every open connection, even an idle one, holds a shared lock. The next read takes it exclusively.
  database.pragma('locking_mode = EXCLUSIVE')
  database.pragma('synchronous = FULL')
  database.exec('BEGIN EXCLUSIVE; COMMIT')
}

/** The size of the database with its WAL. */
function bytesOf(path: string): number {
  return ['', '-wal'].reduce(
    (bytes, ending) => bytes + (statSync(path + ending, { throwIfNoEntry: false })?.size ?? 0),
    0,
  )
}
