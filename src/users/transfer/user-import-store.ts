import type { UserRow } from '../user-repository.ts'

/** A user to import. Times are in the format of responses. */
export interface ImportedUser {
  /** Without one, a new user gets the next id of the storage. */
  readonly id?: number | undefined
  readonly name: string
  readonly email: string
  /** `null` for no password. `undefined` leaves an existing user's digest as it is and gives a new user none. */
  readonly passwordDigest?: string | null | undefined
  /** If one of the two times is missing, it equals the other; if both are, they are the current time. */
  readonly createdAt?: string | undefined
  readonly updatedAt?: string | undefined
}

export const CONFLICT_POLICIES = ['fail', 'skip', 'update'] as const

/**
 * What to do if an existing user has the e-mail of a row, or otherwise its id: end the import, skip the row, or change that
 * user, which keeps its id.
 */
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number]

/** Numbers of records by what the import did with them. */
export type ImportCounts = Readonly<
  Record<'created' | 'updated' | 'unchanged' | 'skipped' | 'rejected', number>
>

/** What the import did with a user. The last two are conflicts that the policy does not settle. */
export type ImportOutcome = Exclude<keyof ImportCounts, 'rejected'> | 'email_taken' | 'id_taken'

/** How far an import has come, over all its runs. */
export interface ImportCheckpoint {
  /** The name of the source. */
  readonly source: string
  readonly records: number
  /** SHA-256 of those records, 32 bytes. */
  readonly recordsHash: Buffer
  /** Length of the rejects file up to those records. */
  readonly rejectsBytes: number
  readonly counts: ImportCounts
  /** Whether the end of the source was reached. */
  readonly isFinished: boolean
}

/** What of a row may belong to an existing user. */
export type ImportKeys = Pick<ImportedUser, 'id' | 'email'>

export interface ImportBatch {
  readonly users: readonly ImportedUser[]
  readonly onConflict: ConflictPolicy
  /**
   * Returns the checkpoint to store with these outcomes. Called inside the transaction: throwing rolls it back.
   * May be called again, with other outcomes, when the transaction is repeated.
   */
  readonly checkpointAfter: (outcomes: readonly ImportOutcome[]) => ImportCheckpoint
}

/**
 * Stores users in bulk. Each call is one transaction, and all throw `storage_unavailable` when the storage cannot be
 * read or written now.
 *
 * A dry run implements it too, with three differences: it changes no user and stores no checkpoint, but answers as if
 * the users of its earlier calls were there; `findCheckpoint` finds nothing; and `fail` reports every conflict instead
 * of ending at the first.
 */
export interface UserImportStore {
  findCheckpoint(source: string): Promise<ImportCheckpoint | undefined>

  /** The users with one of these e-mails, without regard to case, or ids. One may be there more than once. */
  findUsers(rows: readonly ImportKeys[]): Promise<readonly UserRow[]>

  /** The highest id that was ever given out; 0 if none was. */
  lastId(): Promise<number>

  /** The most users of the next batch, so that its transaction holds up other writers only for a short time. */
  batchRows(): number

  /**
   * Stores users in their order, and the checkpoint with them. `fail` ends the batch at the first conflict, which is
   * then the last outcome. A user whose e-mail belongs to one existing user and whose id to another is a conflict
   * under `update` too. Only a created user takes the next id. Returns an outcome for each user, up to that conflict.
   */
  write(batch: ImportBatch): Promise<readonly ImportOutcome[]>
}
