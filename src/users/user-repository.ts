/**
 * A user as clients see it: JSON text of `{"id", "name", "email", "created_at", "updated_at"}`, in that order and with
 * nothing else. There is no white space between tokens, and a quote in a name or an e-mail has a backslash before it:
 * `stored-user.ts` cuts lists by that. Times are ISO 8601 in UTC with milliseconds and `Z`. The storage writes the text,
 * because for a whole page that is faster than building and serialising objects.
 */
export type UserJson = string

export interface StoredUser {
  readonly id: number
  /** New with each change and never that of other content: printable ASCII without quotes. Made by `stored-user.ts`. */
  readonly version: string
  readonly json: UserJson
}

export interface NewUser {
  readonly name: string
  readonly email: string
  /** In PHC form, or `null` for a user without a password. */
  readonly passwordDigest: string | null
}

/** A user with all that is stored of it. Times are in the format of responses. */
export interface UserRow extends NewUser {
  readonly id: number
  readonly createdAt: string
  readonly updatedAt: string
}

/** A user with what its password is verified against. */
export type UserWithDigest = Pick<NewUser, 'passwordDigest'> & { readonly user: StoredUser }

/** The fields to change; those that are absent stay. */
export interface UserUpdate {
  readonly name?: string | undefined
  readonly email?: string | undefined
  readonly passwordDigest?: string | null | undefined
  /** The digest with which the caller compared the password, or `null` for no digest. Absent if it compared nothing. */
  readonly judgedDigest?: string | null | undefined
}

/** Two digests of one password, in PHC form. */
export type DigestReplacement = Readonly<Record<'previous' | 'next', string>>

/** A write happens only if this allows the version that the user has. Absent for any version. */
export type Precondition = ((version: string) => boolean) | undefined

/** Recognises a repeated create. */
export interface IdempotencyClaim {
  /** SHA-256 of the key, 32 bytes. */
  readonly keyHash: Buffer
  /** Tells whether a request body is that of this create. */
  readonly fingerprint: string
}

/** The earlier create with an idempotency key: the user as it was then, or that this user has been deleted. */
export type IdempotentCreate =
  | { readonly fingerprint: string; readonly user: StoredUser }
  | 'user_deleted'

/** How long an idempotency key is kept. */
export const IDEMPOTENCY_TTL_MS = 24 * 3_600_000

/** Each new key deletes up to this many expired ones, which is faster than they can be added. */
export const EXPIRED_KEYS_A_CLAIM = 2

export const SORT_KEYS = ['id', 'name', 'email', 'created_at', 'updated_at'] as const

/** Names and e-mails sort in lower case, by code point; ties by id in the same direction. */
export interface UserSort {
  readonly by: (typeof SORT_KEYS)[number]
  readonly descending: boolean
}

/** The place in a sort right after the user of this id, whose sort key was `key` (empty in the sort by id). */
export interface Position {
  readonly key: string
  readonly id: number
}

/** A user must match all that are given. Texts are in lower case; times are exclusive bounds, in the format of responses. */
export interface UserFilters {
  /** Users with one of these ids, at most 500. */
  readonly ids?: readonly number[] | undefined
  /** Users with one of these e-mails, at most 100, which contain no comma. */
  readonly emails?: readonly string[] | undefined
  readonly name?: string | undefined
  readonly created_after?: string | undefined
  readonly created_before?: string | undefined
  readonly updated_after?: string | undefined
  readonly updated_before?: string | undefined
}

/** Some users in an order. */
export interface UserSelection {
  readonly sort: UserSort
  readonly filters: UserFilters
  /** Each of them begins a word of the name or of the e-mail. At most MAX_ASKED_WORDS, as `parseAskedWords` returns them. */
  readonly words: readonly string[]
}

/** A page of them. */
export interface UserQuery extends UserSelection {
  /** From 1 to 1000. */
  readonly limit: number
  /** After a position, which costs the same anywhere in the list, or after `offset` users, which are read and skipped. */
  readonly start: Position | { readonly offset: number }
  /** Whether to count all matches too. With filters, this reads each of them. */
  readonly withTotal: boolean
}

/** The first user, and how many there are. The storage keeps that number, so it reads no others. */
export const FIRST_WITH_TOTAL: UserQuery = {
  ...{ sort: { by: 'id', descending: false }, filters: {}, words: [] },
  ...{ start: { offset: 0 }, limit: 1, withTotal: true },
}

/** A part of the list of all users in the order of their ids: those of the next `limit` users after `afterId` that match. */
export interface UserScan extends Pick<UserSelection, 'filters' | 'words'> {
  /** 0 for the first part, which has all that match, if an index tells soon that they are few: at most 10,000. */
  readonly afterId: number
  /** How many users are looked at. */
  readonly limit: number
  readonly withDigests?: boolean
}

export interface ScannedUsers {
  /** `UserJson` and a line feed for each. */
  readonly lines: string
  /** The password digest of each, if they were asked for. */
  readonly digests: readonly (string | null)[]
  /** After which id the next part begins; `undefined` after the last one. */
  readonly nextAfterId: number | undefined
}

export interface UserPage {
  /** JSON text of an array of `UserJson`, without white space between tokens. */
  readonly json: string
  /** Where the next page starts; `undefined` if there are no more users. */
  readonly next: Position | undefined
  /** Number of users that match the filters; `undefined` unless `withTotal`. */
  readonly total: number | undefined
  /** The revision of the users that this page shows. */
  readonly revision: string
}

/**
 * Stores the users. Each call is one transaction and is durable once its promise is fulfilled.
 *
 * Ids are integers from 1 that grow and are never used again. No two users have e-mails that differ only in case. Every
 * call throws `storage_unavailable` when the storage cannot be read or written now, and `shutting_down` once it is closed.
 */
export interface UserRepository {
  /**
   * Creates users, all in one transaction, with two equal times and ids that grow in their order. No two of them have one
   * e-mail, without regard to case. `undefined` in place of one whose e-mail is taken.
   * With a claim, which is of one user, its key and the user as it is now are stored for IDEMPOTENCY_TTL_MS, unless its e-mail
   * is taken. Throws `idempotency_key_in_use` for a key that is stored already, also if the e-mail is taken.
   */
  create(
    users: readonly NewUser[],
    claim?: IdempotencyClaim,
  ): Promise<readonly (StoredUser | undefined)[]>

  /** The create that a key was used for in the last IDEMPOTENCY_TTL_MS. */
  findIdempotentCreate(keyHash: Buffer): Promise<IdempotentCreate | undefined>

  find(id: number): Promise<StoredUser | undefined>

  /** The user with a valid e-mail, without regard to case. */
  findByEmail(email: string): Promise<UserWithDigest | undefined>

  findWithDigest(id: number): Promise<UserWithDigest | undefined>

  /** Whether a user other than `exceptId` has this e-mail, without regard to case. */
  isEmailTaken(email: string, exceptId?: number): Promise<boolean>

  /**
   * Returns the user after the change, or `undefined` if there is no such user. If no field differs, version and
   * `updated_at` stay; otherwise `updated_at` becomes later, even if the clock went back.
   * Returns `digest_changed`, without a change, if the user no longer has the `judgedDigest`: compare again.
   * Throws `version_mismatch` before that check, and `email_taken` after it.
   */
  update(
    id: number,
    change: UserUpdate,
    precondition?: Precondition,
  ): Promise<StoredUser | 'digest_changed' | undefined>

  /**
   * Replaces the digest of a user by another digest of the same password. Clients cannot see this change: version,
   * `updated_at` and the revision stay. Returns `false`, without a change, if the user does not have the digest `previous`,
   * or another write holds the user now.
   */
  replaceDigest(id: number, replacement: DigestReplacement): Promise<boolean>

  /** Returns whether there was such a user. Throws `version_mismatch`. */
  delete(id: number, precondition?: Precondition): Promise<boolean>

  /** Deletes users, one or more ids, each once, in one transaction. Returns the ids of those that there were. */
  deleteAll(ids: readonly number[]): Promise<readonly number[]>

  /** The users that match, in the order of the sort. Throws `overloaded` if reading them takes too long. */
  list(query: UserQuery): Promise<UserPage>

  /**
   * Takes milliseconds, whatever the filters and words are; the first part throws as `list` does. Whoever scans part after part
   * holds nothing in between.
   */
  scan(scan: UserScan): Promise<ScannedUsers>

  /** New with each change of any user that clients can see, and unique among all databases: printable ASCII without quotes. */
  revision(): Promise<string>

  /** Throws `storage_unavailable` unless the storage answers now. */
  ping(): Promise<void>
}

/** The calls that change users. */
export type UserWrites = Pick<
  UserRepository,
  'create' | 'update' | 'replaceDigest' | 'delete' | 'deleteAll'
>

/** The calls that change nothing. */
export type UserReads = Omit<UserRepository, keyof UserWrites>
