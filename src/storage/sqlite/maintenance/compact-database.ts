import { accessSync, constants, realpathSync } from 'node:fs'
import { UnusableDatabase } from '../../unusable-database.ts'
import { openExclusively } from '../connect.ts'
import { bytesOf } from '../database-files.ts'
import {
  requireContent,
  requireThere,
  requireUsable,
  WHOLE_CACHE_KIB,
} from '../inspect-database.ts'
import { syncRecovered } from '../open-sqlite.ts'
import { DAMAGED, EMPTY } from '../sqlite-errors.ts'
import { OPTIMIZE_INDEX } from '../sqlite-words.ts'

/**
 * Returns the free pages of a database to the file system. The file keeps its inode, permissions and journal mode. VACUUM
 * writes the new content in one transaction, into the WAL or over a journal: however this process ends, the file holds all
 * of the old content or all of the new content. Throws `UnusableDatabase` while another process has it open.
 */
export async function compactDatabase(link: string) {
  requireThere(link)
  const path = realpathSync(link)
  requireContent(path)
  // SQLite reports a lock that it cannot take on a file without write permission as a failing disk.
  accessSync(path, constants.W_OK)
  const bytesOfAll = () => bytesOf(path) + bytesOf(`${path}-wal`)
  const bytesBefore = bytesOfAll()
  if (bytesBefore === 0) throw new UnusableDatabase(EMPTY)
  syncRecovered(path)
  const database = await openExclusively(path)
  try {
    database.pragma(`cache_size = -${WHOLE_CACHE_KIB}`)
    requireUsable(database)
    // VACUUM copies only what it can reach, which would make repairable damage permanent.
    if (database.pragma('integrity_check(1)', { simple: true }) !== 'ok') {
      throw new UnusableDatabase(DAMAGED, { isFault: true })
    }
    // The index of words keeps those of deleted users otherwise.
    database.exec(OPTIMIZE_INDEX)
    database.exec('VACUUM')
    // Does nothing if the database is not in WAL.
    database.pragma('wal_checkpoint(TRUNCATE)')
  } finally {
    database.close()
  }
  return { bytesBefore, bytesAfter: bytesOfAll() }
}
