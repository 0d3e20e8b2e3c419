import { createHash } from 'node:crypto'
import { type FieldError, ServiceError } from '../errors.ts'
import type { Cursors } from './cursor.ts'
import type { Fingerprints } from './fingerprint.ts'
import { type ListParameter, type ListRequest, parseListRequest } from './list-request.ts'
import type { PasswordHasher } from './passwords.ts'
import {
  EMAIL_TAKEN,
  type NewUserInput,
  type Parsed,
  type UserInput,
  type UserRules,
} from './user.ts'
import type {
  ExpectedVersions,
  IdempotentCreate,
  NewUser,
  StoredUser,
  UserChange,
  UserPage,
  UserRepository,
} from './user-repository.ts'

/** A page of users, what was asked for, and the cursor of the next page where there is one. */
export interface UserList {
  readonly request: ListRequest
  readonly page: UserPage
  readonly nextCursor: string | undefined
}

export interface CreatedUser {
  /** As it was when it was created. */
  readonly user: StoredUser
  /** Whether an earlier request with the same idempotency key did it. */
  readonly isReplay: boolean
}

/**
 * What can be done with users. Every input is validated here, whichever way it came in. Bodies are values that
 * JSON can hold; an `id` of `undefined` names no user.
 */
export interface UserService {
  /**
   * `undefined` where `isKnown` says that the client has the list of this revision.
   * Throws `query_invalid`.
   */
  list(
    parameters: readonly ListParameter[],
    isKnown: (revision: string) => boolean,
  ): Promise<UserList | undefined>

  /** Throws `user_not_found`. */
  read(id: number | undefined): Promise<StoredUser>

  /**
   * Creates a user, or with an idempotency key that did so before gives that user again.
   * Throws `idempotency_key_in_use`, `idempotent_user_deleted` and `idempotency_key_reused`, and then
   * `validation_failed`, also for an address that is taken.
   */
  create(body: unknown, idempotencyKey?: string): Promise<CreatedUser>

  /** Changes the fields sent. Throws `validation_failed`, `user_not_found` and `version_mismatch`. */
  update(id: number | undefined, body: unknown, expected?: ExpectedVersions): Promise<StoredUser>

  /** Throws `user_not_found` and `version_mismatch`. */
  delete(id: number | undefined, expected?: ExpectedVersions): Promise<void>
}

export interface UserServiceOptions {
  readonly users: UserRepository
  readonly passwords: PasswordHasher
  readonly fingerprints: Fingerprints
  readonly rules: UserRules
  readonly cursors: Cursors
}

/** So many lists are remembered, each of at most so many characters of JSON: about 3 MB where all are full. */
const MAX_LISTS = 50
const MAX_LIST_CHARS = 65_536

export function createUserService(options: UserServiceOptions): UserService {
  const { users, passwords, fingerprints, rules, cursors } = options
  const keysInUse = new Set<string>()
  const lists = new Map<string, UserList>()

  /** What was parsed, or a refusal that names every wrong field, a taken address among them. */
  async function accepted<T>(parsed: Parsed<T>, exceptId?: number): Promise<T> {
    if ('user' in parsed) return parsed.user
    const { errors, email } = parsed
    const taken = email !== undefined && (await users.isEmailTaken(email, exceptId))
    throw invalid(taken ? inFieldOrder([...errors, EMAIL_TAKEN]) : errors)
  }

  async function toNewUser({ name, email, password }: NewUserInput): Promise<NewUser> {
    return { name, email, passwordDigest: password == null ? null : await passwords.hash(password) }
  }

  async function createOnce(body: unknown, key: string): Promise<CreatedUser> {
    const keyHash = createHash('sha256').update(key).digest()
    const earlier = await users.findIdempotentCreate(keyHash)
    if (earlier !== undefined) return { user: await replayed(earlier, body), isReplay: true }
    const newUser = await toNewUser(await accepted(rules.parseNew(body)))
    const fingerprint = await fingerprints.of(body)
    const user = await refusingTakenEmail(users.create(newUser, { keyHash, fingerprint }))
    return { user, isReplay: false }
  }

  async function replayed(earlier: IdempotentCreate, body: unknown): Promise<StoredUser> {
    if (earlier === 'user_deleted') throw new ServiceError('idempotent_user_deleted')
    if (await fingerprints.matches(earlier.fingerprint, body)) return earlier.user
    throw new ServiceError('idempotency_key_reused')
  }

  async function makeList(request: ListRequest): Promise<UserList> {
    const { sort, filters, perPage, page: number, after, count } = request
    const start = after ?? { offset: ((number ?? 1) - 1) * perPage }
    const page = await users.list({ sort, filters, limit: perPage, start, withTotal: count })
    return { request, page, nextCursor: page.next && cursors.encode(sort, page.next) }
  }

  function remember(form: string, list: UserList): UserList {
    if (lists.size >= MAX_LISTS) lists.clear()
    if (list.page.json.length <= MAX_LIST_CHARS) lists.set(form, list)
    return list
  }

  /**
   * Looks before it hashes, which takes long, and longer for another password than the one that is stored: a change
   * that is refused must not tell by its time whether a password was right. The repository decides again.
   */
  async function toChange(
    id: number,
    { password, ...fields }: UserInput,
    expected: ExpectedVersions,
  ): Promise<UserChange> {
    if (password === undefined) return fields
    const { version } = found(await users.find(id))
    if (expected?.includes(version) === false) throw new ServiceError('version_mismatch')
    const { email } = fields
    if (email !== undefined && (await users.isEmailTaken(email, id))) throw invalid([EMAIL_TAKEN])
    if (password === null) return { ...fields, passwordDigest: null }
    const digest = await users.findPasswordDigest(id)
    if (digest != null && (await passwords.verify(digest, password))) return fields
    return { ...fields, passwordDigest: await passwords.hash(password) }
  }

  return {
    list: async (parameters, isKnown) => {
      const form = JSON.stringify(parameters)
      const last = lists.get(form)
      const request = last?.request ?? parseListRequest(parameters, cursors)
      const revision = await users.revision()
      if (isKnown(revision)) return undefined
      // Made anew only where a user has changed: clients that look at the same page again and again cost 52 µs of CPU
      // each and not 137.
      return last?.page.revision === revision ? last : remember(form, await makeList(request))
    },

    read: async id => found(id === undefined ? undefined : await users.find(id)),

    create: async (body, key) => {
      if (key === undefined) {
        const newUser = await toNewUser(await accepted(rules.parseNew(body)))
        return { user: await refusingTakenEmail(users.create(newUser)), isReplay: false }
      }
      if (keysInUse.has(key)) throw new ServiceError('idempotency_key_in_use')
      keysInUse.add(key)
      try {
        return await createOnce(body, key)
      } finally {
        keysInUse.delete(key)
      }
    },

    update: async (id, body, expected) => {
      const input = await accepted(rules.parseChange(body), id)
      if (id === undefined) throw new ServiceError('user_not_found')
      const change = await toChange(id, input, expected)
      return found(await refusingTakenEmail(users.update(id, change, expected)))
    },

    delete: async (id, expected) => {
      const existed = id !== undefined && (await users.delete(id, expected))
      if (!existed) throw new ServiceError('user_not_found')
    },
  }
}

function found<T>(user: T | undefined): T {
  if (user === undefined) throw new ServiceError('user_not_found')
  return user
}

async function refusingTakenEmail<T>(write: Promise<T>): Promise<T> {
  try {
    return await write
  } catch (error) {
    const isTaken = error instanceof ServiceError && error.code === 'email_taken'
    throw isTaken ? invalid([EMAIL_TAKEN]) : error
  }
}

function invalid(errors: readonly FieldError[]): ServiceError {
  return new ServiceError('validation_failed', { errors })
}

function inFieldOrder(errors: readonly FieldError[]): readonly FieldError[] {
  const order = ['user', 'name', 'email', 'password']
  return errors.toSorted((a, b) => order.indexOf(a.field) - order.indexOf(b.field))
}
