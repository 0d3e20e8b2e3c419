import { OperatorError } from '../errors.ts'

/** A database, or a file beside it, cannot be used. The message completes a sentence that begins with its name. */
export class UnusableDatabase extends Error {
  override readonly name: string = 'UnusableDatabase'
  /** The file that the message is about, where that is not the database. */
  readonly file: string | undefined
  /** Whether the cause is the content of the file, and not something around it, such as a lock or a permission. */
  readonly isFault: boolean

  constructor(
    message: string,
    details: ErrorOptions & Partial<Pick<UnusableDatabase, 'file' | 'isFault'>> = {},
  ) {
    const { file, isFault = false, ...options } = details
    super(message, options)
    this.file = file
    this.isFault = isFault
  }
}

/**
 * Runs `work`, and turns its `UnusableDatabase` into an `OperatorError`: a line about the file that the error names,
 * otherwise what `describe` makes of the reason, such as `DATABASE_URL was "users.db": REASON`.
 */
export async function blaming<T>(
  describe: (reason: string) => string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof UnusableDatabase)) throw error
    const { file, message } = error
    const line = file === undefined ? describe(message) : `${JSON.stringify(file)}: ${message}`
    throw new OperatorError([line], { cause: error })
  }
}

/** For commands that do not migrate. */
export const OLDER_SCHEMA = 'its schema is that of an older release: run `migrate`'

/** For a history that begins with another schema than that of the first release. */
export const UNRELEASED =
  'an unreleased version made it: `export` its users with that version (`--with-digests`), and `import` them into a new database; API keys, bans, used ids, Idempotency-Keys and cursors stay behind'

/** For everything but `copy`. */
export const UNFINISHED_COPY = 'it is an unfinished copy: run `copy` again, or delete it'

/** For a database whose tables, or functions of their names, are not from this service. */
export const FOREIGN = 'it is the database of another program'
