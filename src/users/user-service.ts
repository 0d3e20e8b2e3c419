import { ServiceError } from '../errors.ts'
import type { SentParameter } from '../http/query.ts'
import type { Cursors } from './cursor.ts'
import { createOnce, type KeyedUser } from './idempotency.ts'
import { parseDeletion } from './list-query.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import {
  type Batch,
  createJudge,
  type Handling,
  type Judged,
  refusalOf,
  requireBatch,
} from './user-body.ts'
import { createUserLists, createWholeLists } from './user-lists.ts'
import type {
  IdempotencyClaim,
  NewUser,
  Precondition,
  StoredUser,
  UserRepository,
  UserUpdate,
} from './user-repository.ts'
import { takenEmail, type UserInput, type UserRules } from './user-schemas.ts'
import { createUpgrade, createVerification } from './verification.ts'

/**
 * How often a password is compared that others change at the same time. Then it is written in any case. Each time takes up to
 * two runs of Argon2id.
 */
const MAX_COMPARISONS = 2

export interface UserServiceOptions {
  readonly users: UserRepository
  readonly passwords: PasswordHasher
  readonly rules: UserRules
  readonly cursors: Cursors
  /** Called after each write that clients can see. */
  readonly onWrite: () => void
  /** Called when replacing a digest fails with anything but a `ServiceError`. The next verification tries again. */
  readonly onUpgradeFailure: (error: unknown) => void
}

export type UserService = ReturnType<typeof createUserService>

/** What became of a user to create: the user, or what is wrong with it. */
export type Created = StoredUser | ServiceError

export interface CreateAs extends Handling {
  /** Makes the claim with which a single user is stored. */
  readonly claimOf?: (user: NewUser) => Promise<IdempotencyClaim>
}

/**
 * The use cases of users. Every input is validated here. Bodies are JSON values. An `id` of `undefined` is an id that no
 * user has.
 */
export function createUserService(options: UserServiceOptions) {
  const { users, passwords, rules, onWrite } = options
  const { isCommon } = passwords
  const judge = createJudge({ isCommon, isEmailTaken: users.isEmailTaken })
  const createKeyed = createOnce(options, create)
  const upgrade = createUpgrade(options)

  const written = <T>(result: T): T => {
    onWrite()
    return result
  }

  /**
   * Creates the user of each body in one transaction, each as if it had come alone, one after the other. Throws `overloaded`
   * before it hashes anything if not all passwords may wait, and what `UserRepository.create` throws.
   */
  async function createAll(bodies: readonly unknown[], as: CreateAs): Promise<readonly Created[]> {
    const judged = await judge(rules.newUser, bodies, as)
    const valid = judged.flatMap(one => ('user' in one ? one.user : []))
    const made = (valid.length > 0 ? await store(valid, as) : []).values()
    return judged.map(one =>
      'errors' in one ? refusalOf(one.errors) : (made.next().value ?? takenEmail()),
    )
  }

  async function store(inputs: readonly NewUserInput[], { claimOf }: CreateAs) {
    const sent = inputs.flatMap(({ password }) => password ?? [])
    const digests = sent.length > 0 ? await passwords.hashAll(sent) : []
    const newUsers = inputs.map(({ name, email, password }) => ({
      ...{ name, email, passwordDigest: password == null ? null : (digests.shift() as string) },
    }))
    return users.create(newUsers, await claimOf?.(newUsers[0] as NewUser)).then(written)
  }

  async function create(body: unknown, as: CreateAs): Promise<StoredUser> {
    const [made] = await createAll([body], as)
    if (made instanceof ServiceError) throw made
    return made as StoredUser
  }

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
    { precondition, isCompared }: { precondition: Precondition; isCompared: boolean },
  ): Promise<UserUpdate> {
    if (password === undefined) return fields
    const { user, passwordDigest: digest } = requireUser(await users.findWithDigest(id))
    if (precondition?.(user.version) === false) throw new ServiceError('version_mismatch')
    const { email } = fields
    if (email !== undefined && (await users.isEmailTaken(email, id))) throw takenEmail()
    if (password === null) return { ...fields, passwordDigest: null }
    if (!isCompared) return { ...fields, passwordDigest: await passwords.hash(password) }
    const judged = { ...fields, judgedDigest: digest }
    if (digest !== null && (await passwords.verify(digest, password))) return judged
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
    create: async (
      body: unknown,
      { key, isStrict }: Handling & { readonly key?: string | undefined } = {},
    ): Promise<KeyedUser> =>
      key === undefined
        ? { user: await create(body, { isStrict }), isReplay: false }
        : createKeyed(body, { key, isStrict }),

    /** Creates the users of a batch. Throws `validation_failed` for a wrong one. */
    createMany: async (batch: Batch, handling: Handling = {}): Promise<readonly Created[]> =>
      createAll(requireBatch(batch, handling), handling),

    /** Changes the fields sent. Throws `validation_failed`, `user_not_found`, `version_mismatch` and `email_taken`. */
    update: async (
      id: number | undefined,
      body: unknown,
      { precondition, isStrict }: Handling & { readonly precondition?: Precondition } = {},
    ): Promise<StoredUser> => {
      const input = await judgeChange(body, id, isStrict)
      if (id === undefined) throw new ServiceError('user_not_found')
      for (let attempt = 1; ; attempt++) {
        const isCompared = attempt <= MAX_COMPARISONS
        const change = await toChange(id, input, { precondition, isCompared })
        const updated = await users.update(id, change, precondition).then(written)
        if (updated === 'digest_changed') continue
        const { judgedDigest, passwordDigest } = change
        const isVerified = judgedDigest != null && passwordDigest === undefined
        if (isVerified) void upgrade(id, judgedDigest, input.password as string)
        return requireUser(updated)
      }
    },

    /** Throws `user_not_found` and `version_mismatch`. */
    delete: async (id: number | undefined, precondition?: Precondition): Promise<void> => {
      const existed = id !== undefined && (await users.delete(id, precondition).then(written))
      if (!existed) throw new ServiceError('user_not_found')
    },

    /** Deletes the users that a query names. Throws `query_invalid`. Returns the ids as they were sent, each with its status. */
    deleteMany: async (parameters: readonly SentParameter[]) => {
      const ids = parseDeletion(parameters)
      const possible = ids.map(Number).filter(Number.isSafeInteger)
      const deleted = new Set(
        possible.length > 0 ? await users.deleteAll(possible).then(written) : [],
      )
      return ids.map(id => ({ id, status: deleted.has(Number(id)) ? 204 : 404 }))
    },

    verify: createVerification(options, upgrade),
  }
}

type NewUserInput = ReturnType<UserRules['newUser']['parse']>

function requireUser<T>(user: T | undefined): T {
  if (user === undefined) throw new ServiceError('user_not_found')
  return user
}
