import { createHash } from 'node:crypto'
import { type FieldError, ServiceError } from '../errors.ts'
import type { SentParameter } from '../http/checked-query.ts'
import type { Cursors } from './cursor.ts'
import type { Fingerprints } from './fingerprint.ts'
import { type ListRequest, parseListRequest } from './list-query.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import type {
  ExpectedVersions,
  IdempotentCreate,
  NewUser,
  StoredUser,
  UserChange,
  UserPage,
  UserRepository,
} from './user-repository.ts'
import {
  EMAIL_TAKEN,
  type NewUserInput,
  type Parsed,
  type UserInput,
  type UserRules,
} from './user-schemas.ts'

/** A page of users. */
export interface UserList {
  /** The query that it answers. */
  readonly request: ListRequest
  readonly page: UserPage
  /** The cursor of the next page, if there is one. */
  readonly nextCursor: string | undefined
}

export interface ListResult {
  /** The revision of the users. */
  readonly revision: string
  /** `undefined` if the client already has the list of this revision. */
  readonly list: UserList | undefined
}

export interface CreatedUser {
  /** The user as it was at its creation. */
  readonly user: StoredUser
  /** Whether an earlier request with the same idempotency key created it. */
  readonly isReplay: boolean
}

/**
 * The use cases of users. Every input is validated here. Bodies are JSON values. An `id` of `undefined` is an id that no
 * user has.
 */
export interface UserService {
  /** `isKnown` says whether the client already has the list of a revision; it is then not made. Throws `query_invalid`. */
  list(
    parameters: readonly SentParameter[],
    isKnown: (revision: string) => boolean,
  ): Promise<ListResult>

  /** Throws `user_not_found`. */
  read(id: number | undefined): Promise<StoredUser>

  /**
   * Creates a user. With an idempotency key that has created one before, returns that user instead.
   * Throws `idempotency_key_in_use`, `idempotent_user_deleted` and `idempotency_key_reused`. Then throws
   * `validation_failed`, which also names a taken e-mail, or `email_taken` if nothing else is wrong.
   */
  create(body: unknown, idempotencyKey?: string): Promise<CreatedUser>

  /** Changes the fields sent. Throws `validation_failed`, `user_not_found`, `version_mismatch` and `email_taken`. */
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

/** Limits of the cache of lists: about 3 MB when it is full. */
const MAX_LISTS = 50
const MAX_LIST_CHARS = 65_536

export function createUserService(options: UserServiceOptions): UserService {
  const { users, passwords, fingerprints, rules, cursors } = options
  const lists = new Map<string, UserList>()
  /** The idempotency keys of requests that run now in this process. Between processes the repository decides. */
  const keysInUse = new Set<string>()

  /** Throws `validation_failed` with every wrong field, a taken e-mail among them. */
  async function requireValid<T>(parsed: Parsed<T>, exceptId?: number): Promise<T> {
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
    if (earlier !== undefined) return { user: await replay(earlier, body), isReplay: true }
    const newUser = await toNewUser(await requireValid(rules.parseNew(body)))
    const fingerprint = await fingerprints.of(body)
    const user = await reportTakenEmail(users.create(newUser, { keyHash, fingerprint }))
    return { user, isReplay: false }
  }

  async function replay(earlier: IdempotentCreate, body: unknown): Promise<StoredUser> {
    if (earlier === 'user_deleted') throw new ServiceError('idempotent_user_deleted')
    if (await fingerprints.matches(earlier.fingerprint, body)) return earlier.user
    throw new ServiceError('idempotency_key_reused')
  }

  async function makeList(request: ListRequest): Promise<UserList> {
    const { sort, filters, words, perPage, page: number, after, count } = request
    const start = after ?? { offset: ((number ?? 1) - 1) * perPage }
    const page = await users.list({ sort, filters, words, limit: perPage, start, withTotal: count })
    return { request, page, nextCursor: page.next && cursors.encode(sort, page.next) }
  }

  function remember(form: string, list: UserList): UserList {
    if (lists.size >= MAX_LISTS) lists.clear()
    if (list.page.json.length <= MAX_LIST_CHARS) lists.set(form, list)
    return list
  }

  /**
   * Checks version and e-mail before it hashes. Hashing takes long, and longer for a password that is not the stored one.
   * The time of a failed change must not reveal whether the password was right. The repository checks again, and reports
   * when the password was changed meanwhile.
   */
  async function toChange(
    id: number,
    { password, ...fields }: UserInput,
    expected: ExpectedVersions,
  ): Promise<UserChange> {
    if (password === undefined) return fields
    const { version } = requireUser(await users.find(id))
    if (expected?.includes(version) === false) throw new ServiceError('version_mismatch')
    const { email } = fields
    if (email !== undefined && (await users.isEmailTaken(email, id))) throw takenEmail()
    if (password === null) return { ...fields, passwordDigest: null }
    const digest = (await users.findDigests([id])).get(id)
    const judged = { ...fields, judgedDigest: digest }
    if (digest != null && (await passwords.verify(digest, password))) return judged
    return { ...judged, passwordDigest: await passwords.hash(password) }
  }

  return {
    list: async (parameters, isKnown) => {
      const form = JSON.stringify(parameters)
      const last = lists.get(form)
      const request = last?.request ?? parseListRequest(parameters, cursors)
      const revision = await users.revision()
      if (isKnown(revision)) return { revision, list: undefined }
      // Made again only after a change: a client that polls the same page costs 52 µs of CPU instead of 137.
      const isCurrent = last?.page.revision === revision
      return { revision, list: isCurrent ? last : remember(form, await makeList(request)) }
    },

    read: async id => requireUser(id === undefined ? undefined : await users.find(id)),

    create: async (body, key) => {
      if (key === undefined) {
        const newUser = await toNewUser(await requireValid(rules.parseNew(body)))
        return { user: await reportTakenEmail(users.create(newUser)), isReplay: false }
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
      const input = await requireValid(rules.parseChange(body), id)
      if (id === undefined) throw new ServiceError('user_not_found')
      for (;;) {
        const change = await toChange(id, input, expected)
        const updated = await reportTakenEmail(users.update(id, change, expected))
        if (updated !== 'digest_changed') return requireUser(updated)
      }
    },

    delete: async (id, expected) => {
      const existed = id !== undefined && (await users.delete(id, expected))
      if (!existed) throw new ServiceError('user_not_found')
    },
  }
}

function requireUser<T>(user: T | undefined): T {
  if (user === undefined) throw new ServiceError('user_not_found')
  return user
}

/** Adds the field and its message to the `email_taken` of the repository. */
async function reportTakenEmail<T>(write: Promise<T>): Promise<T> {
  try {
    return await write
  } catch (error) {
    const isTaken = error instanceof ServiceError && error.code === 'email_taken'
    throw isTaken ? takenEmail() : error
  }
}

function invalid(errors: readonly FieldError[]): ServiceError {
  return new ServiceError('validation_failed', { errors })
}

/** The error for a taken e-mail when nothing else is wrong. */
function takenEmail(): ServiceError {
  return new ServiceError('email_taken', { errors: [EMAIL_TAKEN] })
}

function inFieldOrder(errors: readonly FieldError[]): readonly FieldError[] {
  const order = ['user', 'name', 'email', 'password']
  return errors.toSorted((a, b) => order.indexOf(a.field) - order.indexOf(b.field))
}
