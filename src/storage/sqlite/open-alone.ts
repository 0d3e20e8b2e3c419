import { UnusableDatabase } from '../unusable-database.ts'
import { Database } from './sqlite-driver.ts'
import { isBusy } from './sqlite-errors.ts'
import { IN_USE } from './unusable-reasons.ts'

/**
 * Opens an existing database that no other process has open. `lock` takes the locks that prove this; they differ between
 * callers. Throws `UnusableDatabase` at once if another connection is open.
 */
export function openAlone(path: string, lock: (database: Database) => void): Database {
  const database = new Database(path, { timeout: 0, fileMustExist: true })
  try {
    lock(database)
    return database
  } catch (error) {
    database.close()
    throw isBusy(error) ? new UnusableDatabase(IN_USE, { cause: error }) : error
  }
}
