/**
 * A user as clients see it: JSON text of `{"id", "name", "email", "created_at", "updated_at"}`, in that order,
 * never more. Times are ISO 8601 in UTC with milliseconds and `Z`. The storage writes it, because it can do so
 * for a whole page faster than objects could be built and serialised.
 */
export type UserJson = string

export interface StoredUser {
  readonly id: number
  /** Another with each change, and never an earlier one again: printable ASCII without quotes. */
  readonly version: string
  readonly json: UserJson
}

export interface NewUser {
  readonly name: string
  readonly email: string
  /** In PHC form, or `null` for a user without a password. */
  readonly passwordDigest: string | null
}

/** The fields to change; those that are absent stay. */
export interface UserChange {
  readonly name?: string | undefined
  readonly email?: string | undefined
  readonly passwordDigest?: string | null | undefined
}

/** The versions one of which a user must be of for a write to happen; absent where any will do. */
export type ExpectedVersions = readonly string[] | undefined

/** By which a repeated create is known again. */
export interface IdempotencyClaim {
  /** SHA-256 of the key, 32 bytes. */
  readonly keyHash: Buffer
  /** Tells one request body from another. */
  readonly fingerprint: string
}

/** What an idempotency key made: the user as it was then, unless it was deleted since. */
export type IdempotentCreate =
  | { readonly fingerprint: string; readonly user: StoredUser }
  | 'user_deleted'

/** How long an idempotency key is kept. */
export const IDEMPOTENCY_TTL_MS = 24 * 3_600_000

export const SORT_KEYS = ['id', 'name', 'email', 'created_at', 'updated_at'] as const

/** Names and addresses in lower case, by code point; ties by id in the same direction. */
export interface UserSort {
  readonly by: (typeof SORT_KEYS)[number]
  readonly descending: boolean
}

/** A place in a sort: behind the user of this id, whose sort key was `key` (empty in the sort by id). */
export interface Position {
  readonly key: string
  readonly id: number
}

/** All that are given must hold. */
export interface UserFilters {
  /** In lower case. */
  readonly email?: string | undefined
  /** In lower case. */
  readonly name?: string | undefined
  /** Exclusive bounds, in the form in which times are shown. */
  readonly created_after?: string | undefined
  readonly created_before?: string | undefined
  readonly updated_after?: string | undefined
  readonly updated_before?: string | undefined
}

export interface UserQuery {
  readonly sort: UserSort
  readonly filters: UserFilters
  /** From 1 to 1000. */
  readonly limit: number
  /** Behind a position, which costs the same anywhere, or past as many users, each of which is walked over. */
  readonly start: Position | { readonly offset: number }
  /** Whether to count as well, which with filters reads all that match. */
  readonly withTotal: boolean
}

export interface UserPage {
  /** JSON text of an array of users. */
  readonly json: string
  /** Where the next page starts; `undefined` where there is nothing more. */
  readonly next: Position | undefined
  /** How many users match the filters, where it was asked for. */
  readonly total: number | undefined
  /** The revision of the users at which this was so. */
  readonly revision: string
}

/**
 * Keeps the users. Each call is one transaction and is durable once its promise is fulfilled.
 *
 * Ids are integers from 1 that grow and are never given out twice. No two users have addresses that differ in
 * case only. Every call throws `storage_unavailable` when the storage cannot be read or written now, and
 * `shutting_down` once it is closed.
 */
export interface UserRepository {
  /**
   * Both times of the new user are the same. With a claim, the key and the answer are kept for
   * IDEMPOTENCY_TTL_MS together with the user.
   * Throws `idempotency_key_in_use` for a key that is kept already, and then `email_taken`.
   */
  create(user: NewUser, claim?: IdempotencyClaim): Promise<StoredUser>

  /** What was created with a key, unless that was longer ago than IDEMPOTENCY_TTL_MS. */
  findIdempotentCreate(keyHash: Buffer): Promise<IdempotentCreate | undefined>

  find(id: number): Promise<StoredUser | undefined>

  /** The digest in PHC form, `null` where the user has none, `undefined` where there is no such user. */
  findPasswordDigest(id: number): Promise<string | null | undefined>

  /** Whether another user than `exceptId` has this address, without regard to case. */
  isEmailTaken(email: string, exceptId?: number): Promise<boolean>

  /**
   * The user after the change, or `undefined` where there is none. Where nothing differs, version and
   * `updated_at` stay; where something does, `updated_at` is later than before, whatever the clock says.
   * Throws `version_mismatch`, and then `email_taken`.
   */
  update(
    id: number,
    change: UserChange,
    expected?: ExpectedVersions,
  ): Promise<StoredUser | undefined>

  /** Whether there was such a user. Throws `version_mismatch`. */
  delete(id: number, expected?: ExpectedVersions): Promise<boolean>

  /** Users in the order of the sort. */
  list(query: UserQuery): Promise<UserPage>

  /** Another one after each change of any user, and never an earlier one again. */
  revision(): Promise<string>

  /** Throws `storage_unavailable` unless the storage answers now. */
  ping(): Promise<void>
}
