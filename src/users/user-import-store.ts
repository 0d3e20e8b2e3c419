/** A user on the way in. */
export interface ImportedUser {
  /** `undefined` where the storage gives one. */
  readonly id?: number | undefined
  readonly name: string
  readonly email: string
  /** `undefined` where nothing is said of it: none for a new user, as it was for one that is there. */
  readonly passwordDigest?: string | null | undefined
  /** In the form in which times are shown; the one stands for the other, and now for both. */
  readonly createdAt?: string | undefined
  readonly updatedAt?: string | undefined
}

export const CONFLICT_POLICIES = ['fail', 'skip', 'update'] as const

/**
 * What becomes of a user whose address, or else whose id, another one has already: the import ends, the user is left
 * out, or the one that is there is changed into it.
 */
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number]

/** What became of a user. The last two are conflicts that the policy does not settle. */
export type ImportOutcome =
  | 'created'
  | 'updated'
  | 'unchanged'
  | 'skipped'
  | 'email_taken'
  | 'id_taken'

/** How many records came to what, all sittings of an import together. */
export interface ImportCounts {
  readonly created: number
  readonly updated: number
  readonly unchanged: number
  readonly skipped: number
  readonly refused: number
}

/** How far an import has come. */
export interface ImportCheckpoint {
  /** The name of what is imported. */
  readonly source: string
  readonly records: number
  /** SHA-256 of those records, 32 bytes. */
  readonly recordsHash: Buffer
  /** How many bytes of the file of refusals belong to them. */
  readonly rejectsBytes: number
  readonly counts: ImportCounts
}

export interface ImportBatch {
  readonly users: readonly ImportedUser[]
  readonly onConflict: ConflictPolicy
  /**
   * How far the import has come once the users of these outcomes are kept; asked within the transaction, which it
   * undoes by throwing, and asked again where the transaction has to be repeated.
   */
  readonly checkpointAfter: (outcomes: readonly ImportOutcome[]) => ImportCheckpoint
}

/** Keeps users that come in great number. Each call is one transaction. */
export interface UserImportStore {
  findCheckpoint(source: string): Promise<ImportCheckpoint | undefined>

  /** The digest of the user with this address, `null` where there is none; `undefined` where there is no such user. */
  findDigestByEmail(email: string): Promise<string | null | undefined>

  /**
   * Keeps users and checkpoint together. With the policy `fail` it ends at the first conflict, which is then the last
   * of the outcomes. Whose address belongs to one user and whose id to another is in conflict under `update` too.
   * Throws `storage_unavailable`.
   */
  write(batch: ImportBatch): Promise<readonly ImportOutcome[]>
}
