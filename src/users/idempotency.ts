import { createHash } from 'node:crypto'
import { ServiceError } from '../errors.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import type { Handling } from './user-body.ts'
import type { NewUser, StoredUser } from './user-repository.ts'
import { isPossiblePassword } from './user-schemas.ts'
import type { CreateAs, UserServiceOptions } from './user-service.ts'

export interface KeyedUser {
  /** The user as it was at its creation. */
  readonly user: StoredUser
  /** Whether an earlier request with the same idempotency key created it. */
  readonly isReplay: boolean
}

type KeyedCreate = Handling & { readonly key: string }

/**
 * Creates one user for each idempotency key, and returns that user for a repeat with the same body. `create` is not called for
 * a key that is in use or used.
 * Throws `idempotency_key_in_use`, `idempotent_user_deleted` and `idempotency_key_reused`.
 */
export function createOnce(
  { users, passwords }: Pick<UserServiceOptions, 'users' | 'passwords'>,
  create: (body: unknown, as: CreateAs) => Promise<StoredUser>,
) {
  /**
   * The keys of creates that run now in this process, because a key in use is reported before a wrong body. Between processes
   * the repository decides, and sees valid bodies only.
   */
  const running = new Set<string>()

  async function createOrRepeat(body: unknown, { key, isStrict }: KeyedCreate): Promise<KeyedUser> {
    const keyHash = createHash('sha256').update(key).digest()
    const earlier = await users.findIdempotentCreate(keyHash)
    if (earlier === 'user_deleted') throw new ServiceError('idempotent_user_deleted')
    if (earlier === undefined) {
      const claimOf = async (user: NewUser) => ({
        ...{ keyHash, fingerprint: await fingerprintOf(body, user, passwords) },
      })
      return { user: await create(body, { isStrict, claimOf }), isReplay: false }
    }
    const isSame = await isOfBody(earlier.fingerprint, body, passwords)
    if (!isSame) throw new ServiceError('idempotency_key_reused')
    return { user: earlier.user, isReplay: true }
  }

  return async (body: unknown, keyed: KeyedCreate): Promise<KeyedUser> => {
    const { key } = keyed
    if (running.has(key)) throw new ServiceError('idempotency_key_in_use')
    running.add(key)
    return createOrRepeat(body, keyed).finally(() => running.delete(key))
  }
}

/**
 * The hash of a body, the digest of its password and, if it has ignored attributes, a digest of these: any of them may be a
 * password, which can be guessed faster from a hash.
 */
async function fingerprintOf(
  body: unknown,
  { passwordDigest }: NewUser,
  passwords: PasswordHasher,
): Promise<string> {
  const ignored = ignoredOf(body)
  const parts = [hashOfBody(body), passwordDigest ?? '']
  if (ignored !== undefined) parts.push(await passwords.hash(ignored))
  return parts.join(':')
}

/**
 * A hash of the parts of a body that cannot be a password: the name, the e-mail, and the names of all attributes. A body
 * without a name or an e-mail has the hash of no user.
 */
function hashOfBody(body: unknown): string {
  const user = userOf(body)
  const texts = [user.name, user.email].map(text => (typeof text === 'string' ? text : null))
  const names = [Object(body), user].map(object => Object.keys(object).toSorted())
  return sha256(JSON.stringify([texts, names]))
}

/** A hash of all attributes that a create ignores; `undefined` without any. */
function ignoredOf(body: unknown): string | undefined {
  const { user: _user, ...beside } = Object(body)
  const { name: _name, email: _email, password: _password, ...others } = userOf(body)
  const hasAny = Object.keys(beside).length + Object.keys(others).length > 0
  return hasAny ? hashOfValue([beside, others]) : undefined
}

/** Whether a fingerprint was made from this body. */
async function isOfBody(fingerprint: string, body: unknown, passwords: PasswordHasher) {
  const [hash, digest = '', ignoredDigest] = fingerprint.split(':')
  if (hash !== hashOfBody(body)) return false
  if (ignoredDigest && !(await passwords.verify(ignoredDigest, ignoredOf(body) ?? ''))) return false
  const { password = null } = userOf(body)
  if (digest === '') return password === null
  const mayBeIt = typeof password === 'string' && isPossiblePassword(password)
  return mayBeIt && passwords.verify(digest, password)
}

/** The same for all values that are nested too deeply. */
function hashOfValue(value: unknown): string {
  try {
    return sha256(sortedJson(value))
  } catch {
    return sha256('')
  }
}

function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson)}]`
  if (value !== Object(value)) return JSON.stringify(value) ?? ''
  const entries = Object.entries(value as object).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([name, item]) => `${JSON.stringify(name)}:${sortedJson(item)}`)}}`
}

function userOf(body: unknown): Readonly<Record<string, unknown>> {
  return Object(Object(body).user)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
