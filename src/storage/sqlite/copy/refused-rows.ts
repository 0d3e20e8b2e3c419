import { UnusableDatabase } from '../../unusable-database.ts'
import { Database } from '../sqlite-driver.ts'

/** Runs `write` and says of which row a constraint refuses something. */
export function nameRefused(row: () => string, write: () => void): void {
  try {
    write()
  } catch (error) {
    if (!isConstraint(error)) throw error
    throw new UnusableDatabase(`it cannot hold ${row()}: ${error.message}`, { cause: error })
  }
}

function isConstraint(error: unknown): error is Error {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_CONSTRAINT')
}
