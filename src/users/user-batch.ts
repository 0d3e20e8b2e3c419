import { type FieldError, kindOf, ServiceError } from '../errors.ts'
import { messagesByField } from '../http/error-handler.ts'
import { isObject } from '../json.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import { findUnknownKeys } from './unknown-attributes.ts'
import type { StoredUser, UserRepository } from './user-repository.ts'
import {
  type Invalid,
  type Parsed,
  parseBody,
  refuseCommon,
  takenEmail,
  type UserRules,
} from './user-schemas.ts'

export const MAX_BATCH_USERS = 100

/** What became of one user of a batch: the user, or what is wrong with it. */
export type BatchEntry = StoredUser | ServiceError

/** Whether a body is of many users, right or wrong. */
export function isBatch(body: unknown): body is { readonly users: unknown } {
  return isObject(body) && Object.hasOwn(body, 'users')
}

/** The body of each user of a batch as it would come alone; `undefined` for any other body. */
export function splitBatch(body: unknown): readonly { readonly user: object }[] | undefined {
  if (!isBatch(body) || errorsOf(body).length > 0) return undefined
  return (body.users as unknown[]).map(user => ({ user: isObject(user) ? user : {} }))
}

function errorsOf(body: { readonly users: unknown }): readonly FieldError[] {
  const { users } = body
  const messages: string[] = []
  if (!Array.isArray(users)) messages.push('must be an array')
  else if (users.length < 1 || users.length > MAX_BATCH_USERS) {
    messages.push(`must have 1 to ${MAX_BATCH_USERS} users`)
  }
  if (Object.hasOwn(body, 'user')) messages.push("can't be sent together with user")
  return messages.length > 0 ? [{ field: 'users', at: { pointer: '/users' }, messages }] : []
}

export interface BatchCreatorOptions {
  readonly users: UserRepository
  readonly passwords: PasswordHasher
  readonly rules: UserRules
  /** The error for a wrong body, a taken e-mail in it. */
  readonly refusalOf: (
    wrong: Invalid,
    isTaken: (email: string) => Promise<boolean>,
  ) => Promise<ServiceError>
}

/**
 * Creates many users in one transaction, each as if it had come alone, one after the other. Throws `validation_failed` for a
 * body that is no batch, and `overloaded` before it hashes anything if not all passwords and writes may wait.
 */
export function createBatchCreator({ users, passwords, rules, refusalOf }: BatchCreatorOptions) {
  return async (body: unknown, isStrict: boolean): Promise<readonly BatchEntry[]> => {
    const parsed = await Promise.all(
      requireBatch(body, isStrict).map(one =>
        refuseCommon(parseBody(rules.newUser, one, isStrict), passwords.isCommon),
      ),
    )
    const isRepeated = createRepeatFinder()
    const judged = await Promise.all(
      parsed.map(async one => {
        const isTaken = isRepeated(one)
        if ('user' in one) return isTaken ? takenEmail() : one.user
        return refusalOf(one, async email => isTaken || users.isEmailTaken(email))
      }),
    )
    const valid = judged.flatMap(one => (one instanceof ServiceError ? [] : one))
    if (valid.length === 0) return judged as ServiceError[]
    users.requireRoom(valid.length)
    const digests = await passwords.hashAll(valid.flatMap(({ password }) => password ?? []))
    const made = await users.createMany(
      valid.map(({ name, email, password }) => ({
        ...{ name, email, passwordDigest: password == null ? null : (digests.shift() as string) },
      })),
    )
    const created = made.values()
    return judged.map(one =>
      one instanceof ServiceError ? one : (created.next().value ?? takenEmail()),
    )
  }
}

function requireBatch(body: unknown, isStrict: boolean): readonly { readonly user: object }[] {
  const bodies = splitBatch(body)
  const wrong = bodies === undefined ? errorsOf(body as { users: unknown }) : []
  const unknown = isStrict ? findUnknownKeys(body, ['users', 'user']) : []
  const errors = [...wrong, ...unknown]
  if (bodies === undefined || errors.length > 0) {
    throw new ServiceError('validation_failed', { errors })
  }
  return bodies
}

/** Returns a function that tells whether a valid user before has the same e-mail: that one is made, or its e-mail is taken. */
function createRepeatFinder() {
  const seen = new Set<string>()
  return (parsed: Parsed<{ readonly email: string }>): boolean => {
    const isValid = 'user' in parsed
    const email = (isValid ? parsed.user.email : parsed.email)?.toLowerCase()
    if (email === undefined || seen.has(email)) return email !== undefined
    if (isValid) seen.add(email)
    return false
  }
}

/** An entry as clients see it. */
export function entryJson(entry: BatchEntry): string {
  if (!(entry instanceof ServiceError)) return `{"status":201,"user":${entry.json}}`
  const { status, code: reason, details } = entry
  const { message } = kindOf(reason)
  return JSON.stringify({ status, message, reason, errors: messagesByField(details.errors ?? []) })
}
