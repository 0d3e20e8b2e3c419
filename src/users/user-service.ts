import { ServiceError } from '../errors.ts'
import type { Cursors } from './cursor.ts'
import { createOnce, type KeyedUser } from './idempotency.ts'
import { createJudge, type Judged, refusalOf } from './judge.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import { isCurrentDigest } from './passwords/parse-digest.ts'
import { requireBatch } from './user-batch.ts'
import { type Created, createOne, createUserCreator } from './user-creator.ts'
import { createUserLists } from './user-lists.ts'
import type { Precondition, StoredUser, UserRepository, UserUpdate } from './user-repository.ts'
import {
  isPossibleEmail,
  isPossiblePassword,
  parseBody,
  takenEmail,
  type UserInput,
  type UserRules,
} from './user-schemas.ts'
import { createWholeLists } from './whole-list.ts'

/** How often a password is compared that others change at the same time. Each time takes up to two runs of Argon2id. */
const MAX_COMPARISONS = 5

export interface UserServiceOptions {
  readonly users: UserRepository
  readonly passwords: PasswordHasher
  readonly rules: UserRules
  readonly cursors: Cursors
  /** Called when replacing a digest fails with anything but a `ServiceError`. The next verification tries again. */
  readonly onUpgradeFailure: (error: unknown) => void
}

export type UserService = ReturnType<typeof createUserService>

/** `isStrict` rejects attributes that no user has, which are ignored otherwise. */
export interface Handling {
  readonly isStrict?: boolean | undefined
}

export interface CreateOptions extends Handling {
  /** An idempotency key. */
  readonly key?: string | undefined
}

export interface UpdateOptions extends Handling {
  readonly precondition?: Precondition
}

/**
 * The use cases of users. Every input is validated here. Bodies are JSON values. An `id` of `undefined` is an id that no
 * user has.
 */
export function createUserService(options: UserServiceOptions) {
  const { users, passwords, rules } = options
  const { isCommon } = passwords
  const judge = createJudge({ isCommon, isEmailTaken: users.isEmailTaken })
  const createAll = createUserCreator({ ...options, judge })
  const create = createOne(createAll)
  const createKeyed = createOnce({ ...options, create })
  const upgrade = createUpgrade(options)

  async function judgeChange(body: unknown, exceptId?: number, isStrict?: boolean) {
    const judged = await judge(rules.change, [body], { isStrict, exceptId })
    const [one] = judged as [Judged<UserInput>]
    if ('errors' in one) throw refusalOf(one.errors)
    return one.user
  }

  /**
   * Checks version and e-mail before it hashes. Hashing takes long, and longer for a password that is not the stored one.
   * The time of a failed change must not reveal whether the password was right. The repository checks again, and reports
   * when the password was changed meanwhile.
   */
  async function toChange(
    id: number,
    { password, ...fields }: UserInput,
    precondition: Precondition,
  ): Promise<UserUpdate> {
    if (password === undefined) return fields
    const { version } = requireUser(await users.find(id))
    if (precondition?.(version) === false) throw new ServiceError('version_mismatch')
    const { email } = fields
    if (email !== undefined && (await users.isEmailTaken(email, id))) throw takenEmail()
    if (password === null) return { ...fields, passwordDigest: null }
    const digest = (await users.findDigests([id])).get(id)
    const judged = { ...fields, judgedDigest: digest }
    if (digest != null && (await passwords.verify(digest, password))) return judged
    return { ...judged, passwordDigest: await passwords.hash(password) }
  }

  return {
    list: createUserLists(options),

    whole: createWholeLists(users),

    /** Throws `user_not_found`. */
    read: async (id: number | undefined): Promise<StoredUser> =>
      requireUser(id === undefined ? undefined : await users.find(id)),

    /**
     * Creates a user. With an idempotency key that has created one before, returns that user instead.
     * Throws `idempotency_key_in_use`, `idempotent_user_deleted` and `idempotency_key_reused`. Then throws
     * `validation_failed`, which also names a taken e-mail, or `email_taken` if nothing else is wrong.
     */
    create: async (body: unknown, { key, isStrict }: CreateOptions = {}): Promise<KeyedUser> =>
      key === undefined
        ? { user: await create(body, { isStrict }), isReplay: false }
        : createKeyed(body, { key, isStrict }),

    /** Creates the users of a batch. Throws `validation_failed` for a body that is none. */
    createMany: async (body: unknown, handling: Handling = {}): Promise<readonly Created[]> =>
      createAll(requireBatch(body, handling), handling),

    /**
     * Changes the fields sent. Throws `validation_failed`, `user_not_found`, `version_mismatch` and `email_taken`, and
     * `overloaded` while others change the password again and again.
     */
    update: async (
      id: number | undefined,
      body: unknown,
      { precondition, isStrict }: UpdateOptions = {},
    ): Promise<StoredUser> => {
      const input = await judgeChange(body, id, isStrict)
      if (id === undefined) throw new ServiceError('user_not_found')
      for (let comparison = 1; comparison <= MAX_COMPARISONS; comparison++) {
        const change = await toChange(id, input, precondition)
        const updated = await users.update(id, change, precondition)
        if (updated === 'digest_changed') continue
        const { judgedDigest, passwordDigest } = change
        const isVerified = judgedDigest != null && passwordDigest === undefined
        if (isVerified) void upgrade(id, judgedDigest, input.password as string)
        return requireUser(updated)
      }
      throw new ServiceError('overloaded')
    },

    /** Throws `user_not_found` and `version_mismatch`. */
    delete: async (id: number | undefined, precondition?: Precondition): Promise<void> => {
      const existed = id !== undefined && (await users.delete(id, precondition))
      if (!existed) throw new ServiceError('user_not_found')
    },

    verify: createVerification(options, upgrade),
  }
}

/**
 * Replaces the digest of a user by a current one of the password that it verified, in the background. Clients cannot see it,
 * and a password that was changed meanwhile stays.
 */
function createUpgrade({ users, passwords, onUpgradeFailure }: UserServiceOptions) {
  /** Users whose digest is being replaced. */
  const upgrading = new Set<number>()

  return async (id: number, previous: string, password: string): Promise<void> => {
    if (isCurrentDigest(previous) || upgrading.has(id)) return
    upgrading.add(id)
    try {
      await users.replaceDigest(id, { previous, next: await passwords.hash(password) })
    } catch (error) {
      if (!(error instanceof ServiceError)) onUpgradeFailure(error)
    } finally {
      upgrading.delete(id)
    }
  }
}

type Upgrade = ReturnType<typeof createUpgrade>

/** Verifies passwords for other programs. */
function createVerification({ users, passwords, rules }: UserServiceOptions, upgrade: Upgrade) {
  /**
   * The user with the e-mail and the password of a body. Replaces its digest afterwards, unless that may be of a longer
   * password. Throws `validation_failed`, and `wrong_credentials` for an unknown e-mail, a user without a
   * password and a wrong password, after about the same time.
   */
  return async (body: unknown): Promise<StoredUser> => {
    const { user: login, errors } = parseBody(rules.login, body)
    if (login === undefined) throw refusalOf(errors)
    const { email, password } = login
    const found = isPossibleEmail(email) ? await users.findByEmail(email) : undefined
    const isPossible = isPossiblePassword(password)
    const digest = isPossible ? (found?.passwordDigest ?? undefined) : undefined
    const verified = await passwords.verifyEvenly(digest, isPossible ? password : '')
    if (verified === false || found === undefined || digest === undefined) {
      throw new ServiceError('wrong_credentials')
    }
    const { user } = found
    if (verified === 'whole') void upgrade(user.id, digest, password)
    return user
  }
}

function requireUser<T>(user: T | undefined): T {
  if (user === undefined) throw new ServiceError('user_not_found')
  return user
}
