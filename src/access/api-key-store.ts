import type { Action } from '../http/actions.ts'

/** What a key may be allowed to do. */
export const SCOPES = ['users:read', 'users:write', 'passwords:verify'] as const

export type Scope = (typeof SCOPES)[number]

/** The scopes among some words, each once, in the order of `SCOPES`. */
export function scopesAmong(words: readonly string[]): readonly Scope[] {
  return SCOPES.filter(scope => words.includes(scope))
}

/** The scope that a key needs for each action. */
export const SCOPE_OF_ACTION: Readonly<Record<Action, Scope>> = {
  list: 'users:read',
  read: 'users:read',
  create: 'users:write',
  update: 'users:write',
  delete: 'users:write',
  verify: 'passwords:verify',
}

/** An API key as it is stored. The key itself is not: only its hash. */
export interface StoredApiKey {
  /** Unique among the keys that are not revoked. */
  readonly name: string
  /** SHA-256 of the key, 32 bytes. */
  readonly hash: Buffer
  /** At least one, each once, in the order of `SCOPES`. */
  readonly scopes: readonly Scope[]
  /** Whole milliseconds since the epoch, like all times here. */
  readonly createdAt: number
  /** `undefined` if it never expires. */
  readonly expiresAt: number | undefined
  /** At most a minute older than the last use; `undefined` if it was never used. */
  readonly lastUsedAt: number | undefined
}

/**
 * Keeps API keys and shares them between processes. Each call may cost a round trip, ends within seconds, and throws
 * `storage_unavailable` when the storage cannot be used now.
 */
export interface ApiKeyStore {
  /** All keys that are not revoked, expired ones among them, by name. */
  list(): Promise<readonly StoredApiKey[]>
  /** Stores a key. Returns `false`, without a change, if there is a key of this name. */
  create(key: Omit<StoredApiKey, 'lastUsedAt'>): Promise<boolean>
  /** Removes a key. Returns whether there was one of this name. */
  revoke(name: string): Promise<boolean>
  /** Records uses of keys, by their hashes. An earlier time than the stored one changes nothing; unknown keys are ignored. */
  recordUses(uses: readonly ApiKeyUse[]): Promise<void>
  /** Differs from its last value once a key was created or revoked, by any process. Cheap: it is called twice a second. */
  revision(): Promise<string>
}

export interface ApiKeyUse {
  readonly hash: Buffer
  /** Whole milliseconds since the epoch. */
  readonly usedAt: number
}
