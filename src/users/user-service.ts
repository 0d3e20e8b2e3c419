import { type FieldError, ServiceError } from '../errors.ts'
import type { PasswordHasher } from './passwords.ts'
import { EMAIL_TAKEN, type Parsed, type UserInput, type UserRules } from './user.ts'
import type { StoredUser, UserChange, UserRepository } from './user-repository.ts'

/**
 * What can be done with users. Every input is validated here, whichever way it came in. Bodies are values that
 * JSON can hold; an `id` of `undefined` names no user.
 */
export interface UserService {
  /** JSON text of an array of users. */
  list(): Promise<string>
  /** Throws `user_not_found`. */
  read(id: number | undefined): Promise<StoredUser>
  /** Throws `validation_failed`, also for an address that is taken. */
  create(body: unknown): Promise<StoredUser>
  /** Changes the fields sent. Throws `validation_failed`, then `user_not_found`. */
  update(id: number | undefined, body: unknown): Promise<StoredUser>
  /** Throws `user_not_found`. */
  delete(id: number | undefined): Promise<void>
}

export interface UserServiceOptions {
  readonly users: UserRepository
  readonly passwords: PasswordHasher
  readonly rules: UserRules
}

const MAX_LISTED = 100

export function createUserService({ users, passwords, rules }: UserServiceOptions): UserService {
  /** What was parsed, or a refusal that names every wrong field, a taken address among them. */
  async function accepted<T>(parsed: Parsed<T>, exceptId?: number): Promise<T> {
    if ('user' in parsed) return parsed.user
    const { errors, email } = parsed
    const taken = email !== undefined && (await users.isEmailTaken(email, exceptId))
    throw invalid(taken ? inFieldOrder([...errors, EMAIL_TAKEN]) : errors)
  }

  async function toChange(id: number, { password, ...fields }: UserInput): Promise<UserChange> {
    if (password === undefined) return fields
    const digest = await users.findPasswordDigest(id)
    if (digest === undefined) throw new ServiceError('user_not_found')
    if (password === null) return { ...fields, passwordDigest: null }
    if (digest !== null && (await passwords.verify(digest, password))) return fields
    return { ...fields, passwordDigest: await passwords.hash(password) }
  }

  return {
    list: () => users.list(MAX_LISTED),

    read: async id => found(id === undefined ? undefined : await users.find(id)),

    create: async body => {
      const { name, email, password } = await accepted(rules.parseNew(body))
      const passwordDigest = password == null ? null : await passwords.hash(password)
      return refusingTakenEmail(users.create({ name, email, passwordDigest }))
    },

    update: async (id, body) => {
      const input = await accepted(rules.parseChange(body), id)
      if (id === undefined) throw new ServiceError('user_not_found')
      const change = await toChange(id, input)
      return found(await refusingTakenEmail(users.update(id, change)))
    },

    delete: async id => {
      const existed = id !== undefined && (await users.delete(id))
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
