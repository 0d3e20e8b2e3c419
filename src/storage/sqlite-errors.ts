import Database from 'better-sqlite3'
import { ServiceError } from '../errors.ts'

/**
 * Result codes (https://sqlite.org/rescode.html) that tell of the world around the database and not of a
 * statement of ours: locked, full, failing, taken away. They pass, so they are worth a retry.
 */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|PROTOCOL)/

/** Pages that make no sense or, which SQLite tells the same way, that the disk fails to read. All else goes on. */
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/

/** What SQLite says of a failed constraint, such as `UNIQUE constraint failed: index 'users_email_unique'`. */
export function violates(error: unknown, constraint: string): boolean {
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

/** `storage_unavailable` where the database cannot be used now; any other error as it came. */
export function translateSqliteError(error: unknown): unknown {
  if (isDamage(error)) {
    return new ServiceError('storage_unavailable', { cause: error, isDamaged: true })
  }
  return error instanceof Database.SqliteError && UNAVAILABLE.test(error.code)
    ? new ServiceError('storage_unavailable', { cause: error })
    : error
}
