import { z } from 'zod'
import { type FieldError, ServiceError } from '../errors.ts'
import { isObject } from '../platform/json.ts'
import {
  EMAIL_TAKEN,
  emailKey,
  fieldError,
  PASSWORD_COMMON,
  takenEmail,
  type UserInput,
} from './user-schemas.ts'

/** `isStrict` rejects attributes that no user has, which are ignored otherwise. */
export interface Handling {
  readonly isStrict?: boolean | undefined
}

export const MAX_BATCH_USERS = 100

/** A body of many users, right or wrong. */
export interface Batch {
  readonly users: unknown
}

/** The body of one user. */
interface UserBody {
  readonly user: object
}

export function isBatch(body: unknown): body is Batch {
  return isObject(body) && Object.hasOwn(body, 'users')
}

/** The body of each user of a batch as if it had come alone; `undefined` for any other body. */
export function splitBatch(body: unknown): readonly UserBody[] | undefined {
  return isBatch(body) && errorsOf(body).length === 0 ? bodiesOf(body) : undefined
}

/** The body of each user of a batch. Throws `validation_failed` for a wrong one. */
export function requireBatch(body: Batch, { isStrict }: Handling): readonly UserBody[] {
  const unknown = isStrict ? findUnknownKeys(body, ['users', 'user']) : []
  const errors = [...errorsOf(body), ...unknown]
  if (errors.length > 0) throw new ServiceError('validation_failed', { errors })
  return bodiesOf(body)
}

function bodiesOf({ users }: Batch): readonly UserBody[] {
  return (users as unknown[]).map(user => ({ user: isObject(user) ? user : {} }))
}

function errorsOf(body: Batch): readonly FieldError[] {
  const { users } = body
  const messages: string[] = []
  if (!Array.isArray(users)) messages.push('must be an array')
  else if (users.length < 1 || users.length > MAX_BATCH_USERS) {
    messages.push(`must have 1 to ${MAX_BATCH_USERS} users`)
  }
  if (Object.hasOwn(body, 'user')) messages.push("can't be sent together with user")
  return messages.length > 0 ? [{ field: 'users', at: { pointer: '/users' }, messages }] : []
}

const ATTRIBUTES = ['name', 'email', 'password']

/** The attributes that a body with a valid user has, by name. */
export function attributesIn(body: unknown): readonly string[] {
  const { user } = body as { readonly user: Readonly<Record<string, unknown>> }
  return ATTRIBUTES.filter(name => user[name] !== undefined)
}

const UNKNOWN = 'is not an attribute of a user'

/** What strict handling refuses: attributes that no user has, and keys beside `user`. */
function findUnknown(body: unknown): readonly FieldError[] {
  return [
    ...findUnknownKeys(Object(body).user, ATTRIBUTES, '/user'),
    ...findUnknownKeys(body, ['user']),
  ]
}

function findUnknownKeys(value: unknown, known: readonly string[], at = ''): readonly FieldError[] {
  if (!isObject(value)) return []
  return Object.keys(value)
    .filter(name => !known.includes(name))
    .map(field => ({
      field,
      // RFC 6901 3.
      at: { pointer: `${at}/${field.replaceAll('~', '~0').replaceAll('/', '~1')}` },
      messages: [UNKNOWN],
    }))
}

/** The user of a body, and what is wrong with it. */
interface Parsed<T> {
  /** `undefined` if a field is wrong. */
  readonly user: T | undefined
  readonly errors: readonly FieldError[]
  /** The e-mail, if that field is valid. */
  readonly email: string | undefined
  /** The password, if that field is valid and not `null`. */
  readonly password: string | undefined
}

/** Checks the user of a body, which may be any JSON value, by its schema; `isStrict` rejects what it would ignore. */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown, isStrict = false): Parsed<T> {
  const value = Object(body).user
  const unknown = isStrict ? findUnknown(body) : []
  const { success, data: user, error } = schema.safeParse(value)
  if (success) {
    const { email, password } = user as UserInput
    return { user, errors: unknown, email, password: password ?? undefined }
  }
  const { formErrors, fieldErrors } = z.flattenError<unknown>(error)
  const all = Object.entries<string[] | undefined>({ user: formErrors, ...fieldErrors })
  const wrong = all.flatMap(([field, list = []]) =>
    list.length > 0 ? fieldError(field, list) : [],
  )
  const validText = (field: string): string | undefined => {
    const text = Object(value)[field]
    return typeof text === 'string' && !(field in fieldErrors) ? text : undefined
  }
  const email = validText('email')?.trim()
  return { user, errors: [...wrong, ...unknown], email, password: validText('password') }
}

/** A valid user, or every rule that it breaks. */
export type Judged<T> = { readonly user: T } | { readonly errors: readonly FieldError[] }

export interface JudgeOptions {
  /** Whether nobody may choose a password. */
  readonly isCommon?: ((password: string) => Promise<boolean>) | undefined
  /** Whether a user other than `exceptId` has an e-mail. Without it, e-mails are left to the storage, as in an import. */
  readonly isEmailTaken?: (email: string, exceptId?: number) => Promise<boolean>
}

/**
 * Returns a function that judges the user of each body by a schema. Of users with one e-mail only the first that is valid
 * has it. `exceptId` is the user that a body changes. Whether a stored user has the e-mail is asked for wrong ones only, because
 * storing a valid one tells it.
 */
export function createJudge({ isCommon, isEmailTaken }: JudgeOptions) {
  async function findCommon<T>(one: Parsed<T>): Promise<Parsed<T>> {
    const { password, errors } = one
    if (password === undefined || !(await isCommon?.(password))) return one
    return { ...one, errors: [...errors, PASSWORD_COMMON] }
  }

  return async <T extends UserInput>(
    schema: z.ZodType<T>,
    bodies: readonly unknown[],
    { isStrict, exceptId }: Handling & { readonly exceptId?: number | undefined } = {},
  ): Promise<readonly Judged<T>[]> => {
    const parsed = bodies.map(body => parseBody(schema, body, isStrict))
    const checked = isCommon ? await Promise.all(parsed.map(findCommon)) : parsed
    if (isEmailTaken === undefined) return checked.map(verdictOf)
    const validEmails = new Set<string>()
    const judged = checked.map(one => {
      const { email, errors } = one
      if (email === undefined) return verdictOf(one)
      const key = emailKey(email)
      // The valid user before is made, or its e-mail is taken.
      if (validEmails.has(key)) return { errors: withTaken(errors) }
      if (errors.length === 0) {
        validEmails.add(key)
        return verdictOf(one)
      }
      return isEmailTaken(email, exceptId).then(taken => ({
        errors: taken ? withTaken(errors) : errors,
      }))
    })
    return Promise.all(judged)
  }
}

/** `email_taken` if nothing else is wrong, otherwise `validation_failed`. */
export function refusalOf(errors: readonly FieldError[]): ServiceError {
  const isOnlyTaken = errors.length === 1 && errors[0] === EMAIL_TAKEN
  return isOnlyTaken ? takenEmail() : new ServiceError('validation_failed', { errors })
}

function verdictOf<T>({ user, errors }: Parsed<T>): Judged<T> {
  return errors.length > 0 ? { errors } : { user: user as T }
}

/** In the order of the fields: only the name comes before the e-mail. */
function withTaken(errors: readonly FieldError[]): readonly FieldError[] {
  return errors.toSpliced(errors[0]?.field === 'name' ? 1 : 0, 0, EMAIL_TAKEN)
}
