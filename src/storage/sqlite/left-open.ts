import { statSync } from 'node:fs'
import { companionOf } from './database-files.ts'
import { openAlone } from './open-alone.ts'

/** https://www.sqlite.org/fileformat.html#wal_file_format */
const WAL_HEADER_BYTES = 32

/**
 * Whether the last process that had a database open ended without closing it, as after kill -9 or a power loss: the WAL has
 * commits, and no process has the database open. False if this cannot be found out.
 * Moves the content of such a WAL into the file.
 */
export function wasLeftOpen(path: string): boolean {
  const wal = statSync(companionOf(path, '-wal'), { throwIfNoEntry: false })
  return wal !== undefined && wal.size > WAL_HEADER_BYTES && isOpenNowhere(path)
}

function isOpenNowhere(path: string): boolean {
  try {
    const database = openAlone(path, connection => {
      // In WAL mode every open connection, even an idle one, holds a shared lock. A read in this mode takes it exclusively.
      connection.pragma('locking_mode = EXCLUSIVE')
      connection.pragma('schema_version')
    })
    database.close()
    return true
  } catch {
    return false
  }
}
