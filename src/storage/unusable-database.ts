export interface UnusableDetails extends ErrorOptions {
  /** The file that the message is about, where that is not the database. */
  readonly file?: string
  /** Whether the cause is the content of the file, and not something around it, such as a lock or a permission. */
  readonly isFault?: boolean
}

/** A database, or a file beside it, cannot be used. The message completes a sentence that begins with its name. */
export class UnusableDatabase extends Error {
  override readonly name: string = 'UnusableDatabase'
  readonly file: string | undefined
  readonly isFault: boolean

  constructor(message: string, { file, isFault = false, ...options }: UnusableDetails = {}) {
    super(message, options)
    this.file = file
    this.isFault = isFault
  }
}

/** For commands that do not migrate. */
export const OLDER_SCHEMA = 'its schema is that of an older release: run `migrate`'

/** For everything but `copy`. */
export const UNFINISHED_COPY = 'it is an unfinished copy: run `copy` again, or delete it'
