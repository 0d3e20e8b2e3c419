import { MigrationMismatch } from './migrator.ts'
import { isDamage } from './sqlite-errors.ts'

export interface RefusalDetails extends ErrorOptions {
  /** The file that the message is about, where that is not the database. */
  readonly file?: string
  /** Whether what the file holds is the cause, and not what is around it, such as a lock or a right. */
  readonly isFault?: boolean
}

/** Raised when a path cannot serve as the database; the message ends a sentence that begins with the path. */
export class DatabaseRefused extends Error {
  override readonly name = 'DatabaseRefused'
  readonly file: string | undefined
  readonly isFault: boolean

  constructor(message: string, { file, isFault = false, ...options }: RefusalDetails = {}) {
    super(message, options)
    this.file = file
    this.isFault = isFault
  }
}

export const FOREIGN = 'it is the database of another program'

export const NO_DATABASE = 'it is no SQLite database'

export const DAMAGED =
  'it is damaged: restore it from a backup, or save what `sqlite3 FILE .recover` still reads of it'

const NOT_WRITABLE =
  'it cannot be written: give the user of this process the right to write the file and its folder'

const FULL = 'its disk is full: make room on it'

/** What `work` makes, or throws, but for `DatabaseRefused`, as one; `file` as that has it. */
export async function refusing<T>(work: () => T | Promise<T>, file?: string): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw asRefusal(error, file)
  }
}

/** What SQLite or the system says of a database, in words for an operator. What was aborted stays as it is. */
export function asRefusal(error: unknown, file?: string): unknown {
  if (error instanceof DatabaseRefused) {
    if (file === undefined || error.file !== undefined) return error
    return new DatabaseRefused(error.message, { file, isFault: error.isFault, cause: error })
  }
  if ((error as Error).name === 'AbortError') return error
  const message = refusalReason(error)
  const isFault =
    [NO_DATABASE, DAMAGED, FOREIGN].includes(message) || error instanceof MigrationMismatch
  const about = file === undefined ? {} : { file }
  return new DatabaseRefused(message, { isFault, cause: error, ...about })
}

function refusalReason(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (code === 'SQLITE_NOTADB') return NO_DATABASE
  if (isDamage(error)) return DAMAGED
  if (code.startsWith('SQLITE_BUSY')) return 'another process keeps it locked'
  if (/^(SQLITE_READONLY|SQLITE_CANTOPEN|EACCES$|EPERM$|EROFS$)/.test(code))
    return `${NOT_WRITABLE} (${code})`
  if (code === 'SQLITE_FULL' || code === 'ENOSPC') return `${FULL} (${code})`
  if (code.startsWith('SQLITE_IOERR')) return `its disk fails: look at the system's log (${code})`
  // Its history has other columns.
  if (code === 'SQLITE_ERROR') return FOREIGN
  if (error instanceof MigrationMismatch) return message
  return code === '' ? message : `it cannot be opened (${code})`
}
