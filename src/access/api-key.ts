import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Action } from '../http/actions.ts'

/** What every key begins with, so that scanners find keys in source code and logs. */
const API_KEY_PREFIX = 'urk_'

/** None of these needs escaping in URLs and shells. With the `_` of the prefix, a double click selects the whole key. */
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

const RANDOM_BYTES = 32

/** How many digits in base 62 hold 256 bits, and how many hold 32. */
const RANDOM_DIGITS = 43
const CHECKSUM_DIGITS = 6

/** The length of every key. */
export const API_KEY_CHARS = API_KEY_PREFIX.length + RANDOM_DIGITS + CHECKSUM_DIGITS

const FORM = /^urk_[0-9A-Za-z]{49}$/

/**
 * Makes a key: the prefix, 256 random bits, and a CRC-32 of both. `randomBytes` is that of `node:crypto`, except in tests.
 */
export function createApiKey(randomBytes: (size: number) => Buffer): string {
  const bits = BigInt(`0x${randomBytes(RANDOM_BYTES).toString('hex')}`)
  const text = API_KEY_PREFIX + digitsOf(bits, RANDOM_DIGITS)
  return text + checksumOf(text)
}

/** Whether a text may be a key: it has the form of one, and its checksum finds no mistake. */
export function isApiKey(text: string): boolean {
  if (!FORM.test(text)) return false
  return checksumOf(text.slice(0, -CHECKSUM_DIGITS)) === text.slice(-CHECKSUM_DIGITS)
}

/** The SHA-256 of a key, under which it is stored: with 256 random bits nothing slower is needed. */
export function hashApiKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

function checksumOf(text: string): string {
  return digitsOf(BigInt(crc32(text)), CHECKSUM_DIGITS)
}

/** The last digits of a number in base 62. */
function digitsOf(number: bigint, count: number): string {
  const base = BigInt(DIGITS.length)
  let rest = number
  let digits = ''
  while (digits.length < count) {
    digits = DIGITS[Number(rest % base)] + digits
    rest /= base
  }
  return digits
}

/** The rule of `isApiKeyName`. Completes the sentence "it may be …". */
export const API_KEY_NAME_RULE =
  '1 to 64 letters, digits and any of . _ -, of which the first is a letter or a digit'

/** Names go into log lines, metrics and shells as they are. */
const NAME = /^[0-9A-Za-z][\w.-]{0,63}$/

/** Whether a key may have this name. Names are not secret, so a key that is given as a name by mistake is refused. */
export function isApiKeyName(text: string): boolean {
  return NAME.test(text) && !isApiKey(text)
}

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
