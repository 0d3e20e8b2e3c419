import { ServiceError } from '../../errors.ts'
import { FOREIGN, UnusableDatabase } from '../unusable-database.ts'
import type { Database } from './sqlite-driver.ts'

/**
 * Result codes (https://sqlite.org/rescode.html) for causes outside the service: the file is locked, full, failing or
 * missing. They may pass, so a retry makes sense.
 */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|PROTOCOL)/

/** Pages that are damaged or that the disk fails to read; SQLite reports both in the same way. */
const DAMAGE = /^SQLITE_(CORRUPT|NOTADB)/

/**
 * The result code of an error of SQLite; empty for any other error. Not asked by its class: Jest loads the driver anew for each
 * test file, but its compiled part keeps the class of the first.
 */
function codeOf(error: unknown): string {
  const { name, code } = error as NodeJS.ErrnoException
  return name === 'SqliteError' && code !== undefined ? code : ''
}

/** Whether an error is about a constraint with this name, as in `UNIQUE constraint failed: index 'users_email_unique'`. */
export function violates(error: unknown, constraint = ''): boolean {
  const isOfConstraint = codeOf(error).startsWith('SQLITE_CONSTRAINT')
  return isOfConstraint && (error as Error).message.includes(constraint)
}

export function isBusy(error: unknown): boolean {
  return codeOf(error).startsWith('SQLITE_BUSY')
}

function isDamage(error: unknown): boolean {
  return DAMAGE.test(codeOf(error))
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
  const isUnavailable = UNAVAILABLE.test(codeOf(error))
  return isUnavailable ? new ServiceError('storage_unavailable', { cause: error }) : error
}

export const NO_DATABASE = 'it is not a SQLite database'

export const DAMAGED =
  'it is damaged: restore it from a backup, or save what `sqlite3 FILE .recover` can still read'

export const EMPTY = 'it is empty'

export const IN_USE = 'a process has it open: stop the service first'

const NOT_WRITABLE =
  'it cannot be written: give the user of this process write permission for the file and its folder'

const READ_ONLY = 'its disk is mounted read-only: mount it for writing, or choose another one'

const FULL = 'its disk is full: free some space'

/** Runs `work` and turns its errors into `UnusableDatabase`, about `file` where it is given. */
export async function explainErrors<T>(work: () => T | Promise<T>, file?: string): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw asUnusable(error, file)
  }
}

/** An error of SQLite or of the system, in words for an operator. An `AbortError` stays as it is. */
export function asUnusable(error: unknown, file?: string): unknown {
  if (error instanceof UnusableDatabase) {
    if (file === undefined || error.file !== undefined) return error
    return new UnusableDatabase(error.message, { file, isFault: error.isFault, cause: error })
  }
  if ((error as Error).name === 'AbortError') return error
  const message = reasonOf(error)
  const isFault = [NO_DATABASE, DAMAGED, FOREIGN].includes(message)
  return new UnusableDatabase(message, { file, isFault, cause: error })
}

function reasonOf(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (code === 'SQLITE_NOTADB') return NO_DATABASE
  if (isDamage(error)) return DAMAGED
  if (code.startsWith('SQLITE_BUSY')) return 'another process holds a lock on it'
  if (code === 'EROFS') return `${READ_ONLY} (${code})`
  if (/^(SQLITE_READONLY|SQLITE_CANTOPEN|EACCES$|EPERM$)/.test(code))
    return `${NOT_WRITABLE} (${code})`
  if (code === 'SQLITE_FULL' || code === 'ENOSPC') return `${FULL} (${code})`
  if (code.startsWith('SQLITE_IOERR')) return `its disk fails: see the system log (${code})`
  // Its table of migrations has other columns.
  if (code === 'SQLITE_ERROR') return FOREIGN
  return code === '' || code.startsWith('SQLITE_CONSTRAINT')
    ? message
    : `it cannot be opened (${code})`
}
