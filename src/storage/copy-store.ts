/** A secret of a database, by its name. */
export interface SigningKey {
  readonly name: string
  readonly key: Buffer
}

/** The create that an Idempotency-Key was used for. The last three are null once its user was deleted. */
export interface KeptCreate {
  /** SHA-256 of the key, 32 bytes. */
  readonly keyHash: Buffer
  readonly userId: number
  /** By the clock `steadyNow`, in milliseconds. */
  readonly expiresAt: number
  readonly fingerprint: string | null
  readonly userVersion: string | null
  readonly userJson: string | null
}

/** What only `copy` asks of a database, beside what its other stores do. */
export interface CopyStore {
  /**
   * Makes an unfinished copy, and empties it, of which `run` is the name of the copy that fills it. Throws `UnusableDatabase` for a
   * database that is neither empty nor an unfinished copy.
   */
  begin(run: string): Promise<void>
  /** Removes the mark of an unfinished copy. Returns false, without a change, if another copy has begun since. */
  complete(run: string): Promise<boolean>
  signingKeys(): Promise<readonly SigningKey[]>
  /** Replaces those of the same names. */
  keepSigningKeys(keys: readonly SigningKey[]): Promise<void>
  /** The next in the order of hashes, expired ones among them; none at the end. */
  keptCreates(after: Buffer): Promise<readonly KeptCreate[]>
  keepCreates(creates: readonly KeptCreate[]): Promise<void>
  /** New users get ids above this one. */
  reserveIds(through: number): Promise<void>
}
