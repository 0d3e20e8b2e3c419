import { ServiceError } from '../errors.ts'
import { type Judge, refusalOf } from './judge.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import type { IdempotencyClaim, NewUser, StoredUser, UserRepository } from './user-repository.ts'
import { takenEmail, type UserRules } from './user-schemas.ts'

/** What became of a user to create: the user, or what is wrong with it. */
export type Created = StoredUser | ServiceError

export interface CreatorOptions {
  readonly users: Pick<UserRepository, 'create' | 'requireRoom'>
  readonly passwords: Pick<PasswordHasher, 'hashAll'>
  readonly rules: Pick<UserRules, 'newUser'>
  readonly judge: Judge
}

export interface CreateAs {
  readonly isStrict?: boolean | undefined
  /** Makes the claim with which a body of one user is stored. */
  readonly claimOf?: (user: NewUser) => Promise<IdempotencyClaim>
}

/**
 * Creates the user of each body in one transaction, each as if it had come alone, one after the other. Throws `overloaded`
 * before it hashes anything if not all passwords and writes may wait, and what `UserRepository.create` throws.
 */
export function createUserCreator({ users, passwords, rules, judge }: CreatorOptions) {
  async function store(inputs: readonly NewUserInput[], { claimOf }: CreateAs) {
    users.requireRoom(inputs.length)
    const digests = await passwords.hashAll(inputs.flatMap(({ password }) => password ?? []))
    const newUsers = inputs.map(({ name, email, password }) => ({
      ...{ name, email, passwordDigest: password == null ? null : (digests.shift() as string) },
    }))
    const claim = await claimOf?.(newUsers[0] as NewUser)
    return users.create(newUsers, claim)
  }

  return async (bodies: readonly unknown[], as: CreateAs): Promise<readonly Created[]> => {
    const judged = await judge(rules.newUser, bodies, as)
    const valid = judged.flatMap(one => ('user' in one ? one.user : []))
    const made = (valid.length > 0 ? await store(valid, as) : []).values()
    return judged.map(one =>
      'errors' in one ? refusalOf(one.errors) : (made.next().value ?? takenEmail()),
    )
  }
}

type NewUserInput = ReturnType<UserRules['newUser']['parse']>

/** The same for one body. Throws its error. */
export function createOne(create: ReturnType<typeof createUserCreator>) {
  return async (body: unknown, as: CreateAs): Promise<StoredUser> => {
    const [made] = await create([body], as)
    if (made instanceof ServiceError) throw made
    return made as StoredUser
  }
}
