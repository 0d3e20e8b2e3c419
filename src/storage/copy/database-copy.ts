/** Both ends of a copy from one database into another, which may be of different engines. */

/** A row in values that every engine has. Bytes are hexadecimal text in lower case. */
export type CopiedRow = readonly (string | number | null)[]

export type CopiedUser = readonly [
  id: number,
  name: string,
  nameLower: string,
  email: string,
  passwordDigest: string | null,
  createdAt: string,
  updatedAt: string,
]

export type CopiedKey = readonly [
  keyHash: string,
  userId: number,
  fingerprint: string | null,
  userVersion: string | null,
  userJson: string | null,
  expiresAt: number,
]

export type CopiedBan = readonly [rule: string, clientKey: string, endsAt: number, lastsMs: number]

export type CopiedApiKey = readonly [
  name: string,
  keyHash: string,
  scopes: string,
  createdAt: number,
  expiresAt: number | null,
  lastUsedAt: number | null,
]

export type CopiedSigningKey = readonly [name: string, key: string]

/** All that is copied from a database. Each call throws `UnusableDatabase` if the database cannot be read. */
export interface CopyReader {
  /** The first `limit` users, by id, after the given one. */
  users(after: CopiedUser | undefined, limit: number): Promise<readonly CopiedUser[]>
  /** The first `limit` keys, in an order of the engine, after the given one. */
  idempotencyKeys(after: CopiedKey | undefined, limit: number): Promise<readonly CopiedKey[]>
  /** As `idempotencyKeys`. */
  bans(after: CopiedBan | undefined, limit: number): Promise<readonly CopiedBan[]>
  /** As `idempotencyKeys`. */
  apiKeys(after: CopiedApiKey | undefined, limit: number): Promise<readonly CopiedApiKey[]>
  /** By name. */
  signingKeys(): Promise<readonly CopiedSigningKey[]>
  /** The greatest id that was ever given out; 0 if none was. */
  lastId(): Promise<number>
}

/** One state of a database, which does not change while others write to it. */
export interface CopySource extends CopyReader {
  countUsers(): Promise<number>
  close(): Promise<void>
}

/** What ends a copy. */
export interface CopyEnd {
  readonly signingKeys: readonly CopiedSigningKey[]
  readonly lastId: number
  /** Compares the target with the source, and throws if they differ. */
  readonly verify: () => Promise<void>
}

/**
 * A database that no other copy writes to until it is closed. Each call is one transaction. It throws `UnusableDatabase`
 * if the database cannot be written, and names the user that it cannot hold.
 */
export interface CopyTarget extends CopyReader {
  /**
   * Whether it may be the target: it is an unfinished copy, or has no user, idempotency key, ban or API key and has never
   * given out an id.
   */
  isFree(): Promise<boolean>
  /** Marks the database as an unfinished copy, so that nothing else uses it. Empties it if it was one already. */
  begin(): Promise<void>
  addUsers(users: readonly CopiedUser[]): Promise<void>
  addIdempotencyKeys(keys: readonly CopiedKey[]): Promise<void>
  addBans(bans: readonly CopiedBan[]): Promise<void>
  addApiKeys(keys: readonly CopiedApiKey[]): Promise<void>
  /**
   * Replaces the signing keys, never gives out `lastId` or a smaller id, verifies and removes the mark, in one transaction
   * during which no process can change what was verified.
   */
  finish(end: CopyEnd): Promise<void>
  close(): Promise<void>
}
