import { ServiceError } from '../../errors.ts'
import { Database } from './sqlite-driver.ts'

/**
 * Result codes (https://sqlite.org/rescode.html) for causes outside the service: the file is locked, full, failing or
 * missing. They may pass, so a retry makes sense.
 */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|PROTOCOL)/

/** Pages that are damaged or that the disk fails to read; SQLite reports both in the same way. */
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/

/** Whether an error is about a constraint with this name, as in `UNIQUE constraint failed: index 'users_email_unique'`. */
export function violates(error: unknown, constraint = ''): boolean {
  return (
    error instanceof Database.SqliteError &&
    error.code.startsWith('SQLITE_CONSTRAINT') &&
    error.message.includes(constraint)
  )
}

export function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')
}

export function isDamage(error: unknown): boolean {
  return error instanceof Database.SqliteError && DAMAGED.test(error.code)
}

/** Runs work that never waits. Throws what the calls of a `Storage` throw. */
export async function guardWork<T>(database: Database, work: () => T): Promise<T> {
  if (!database.open) throw new ServiceError('shutting_down')
  try {
    return work()
  } catch (error) {
    throw translateSqliteError(error)
  }
}

/** `storage_unavailable` or `storage_damaged` if the database cannot be used now; any other error unchanged. */
export function translateSqliteError(error: unknown): unknown {
  if (isDamage(error)) return new ServiceError('storage_damaged', { cause: error })
  return error instanceof Database.SqliteError && UNAVAILABLE.test(error.code)
    ? new ServiceError('storage_unavailable', { cause: error })
    : error
}
