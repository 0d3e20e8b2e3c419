import { UnusableDatabase } from '../unusable-database.ts'
import { connect } from './connect.ts'
import type { Database } from './sqlite-driver.ts'
import { isBusy } from './sqlite-errors.ts'
import { IN_USE } from './unusable-reasons.ts'

/**
 * Opens an existing database that no other process has open, and locks out all others until it is closed. The journal mode
 * stays, unless another `lock` is given. Throws `UnusableDatabase` at once if another connection is open.
 */
export async function openExclusively(path: string, lock = lockWhileOpen): Promise<Database> {
  try {
    return await connect(path, { timeout: 0, lock })
  } catch (error) {
    throw isBusy(error) ? new UnusableDatabase(IN_USE, { cause: error }) : error
  }
}

function lockWhileOpen(database: Database): void {
  // In WAL mode every open connection, even an idle one, holds a shared lock. The next read takes it exclusively.
  database.pragma('locking_mode = EXCLUSIVE')
  database.pragma('synchronous = FULL')
  database.exec('BEGIN EXCLUSIVE; COMMIT')
}
