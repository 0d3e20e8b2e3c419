/**
 * A user as clients see it: JSON text of `{"id", "name", "email", "created_at", "updated_at"}`, in that order,
 * never more. Times are ISO 8601 in UTC with milliseconds and `Z`. The storage writes it, because it can do so
 * for a whole page faster than objects could be built and serialised.
 */
export type UserJson = string

export interface StoredUser {
  readonly id: number
  /** 1 at creation, and one more with each change: what an entity tag stands on. */
  readonly version: number
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

/**
 * Keeps the users. Each call is one transaction and is durable once its promise is fulfilled.
 *
 * Ids are integers from 1 that grow and are never given out twice. No two users have addresses that differ in
 * case only. Every call throws `storage_unavailable` when the storage cannot be read or written now, and
 * `shutting_down` once it is closed.
 */
export interface UserRepository {
  /** Both times of the new user are the same. Throws `email_taken`. */
  create(user: NewUser): Promise<StoredUser>

  find(id: number): Promise<StoredUser | undefined>

  /** The digest in PHC form, `null` where the user has none, `undefined` where there is no such user. */
  findPasswordDigest(id: number): Promise<string | null | undefined>

  /** Whether another user than `exceptId` has this address, without regard to case. */
  isEmailTaken(email: string, exceptId?: number): Promise<boolean>

  /**
   * The user after the change, or `undefined` where there is none. Where nothing differs, version and
   * `updated_at` stay; where something does, `updated_at` is later than before, whatever the clock says.
   * Throws `email_taken`.
   */
  update(id: number, change: UserChange): Promise<StoredUser | undefined>

  /** Whether there was such a user. */
  delete(id: number): Promise<boolean>

  /** JSON text of an array of the first `limit` users by id. */
  list(limit: number): Promise<string>

  /** Throws `storage_unavailable` unless the storage answers now. */
  ping(): Promise<void>
}
