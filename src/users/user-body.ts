import { type FieldError, ServiceError } from '../errors.ts'
import { isObject } from '../platform/json.ts'

/** `isStrict` rejects attributes that no user has, which are ignored otherwise. */
export interface Handling {
  readonly isStrict?: boolean | undefined
}

export const MAX_BATCH_USERS = 100

/** Whether a body is of many users, right or wrong. */
export function isBatch(body: unknown): body is { readonly users: unknown } {
  return isObject(body) && Object.hasOwn(body, 'users')
}

/** The body of each user of a batch as if it had come alone; `undefined` for any other body. */
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

/** The body of each user of a batch. Throws `validation_failed` for a body that is not a batch. */
export function requireBatch(
  body: unknown,
  { isStrict = false }: Handling,
): readonly { readonly user: object }[] {
  const bodies = splitBatch(body)
  const wrong = bodies === undefined ? errorsOf(body as { users: unknown }) : []
  const unknown = isStrict ? findUnknownKeys(body, ['users', 'user']) : []
  const errors = [...wrong, ...unknown]
  if (bodies === undefined || errors.length > 0) {
    throw new ServiceError('validation_failed', { errors })
  }
  return bodies
}

const ATTRIBUTES = ['name', 'email', 'password']

/** The attributes that a body with a valid user has, by name. */
export function attributesIn(body: unknown): readonly string[] {
  const { user } = body as { readonly user: Readonly<Record<string, unknown>> }
  return ATTRIBUTES.filter(name => user[name] !== undefined)
}

const UNKNOWN = 'is not an attribute of a user'

/** What strict handling refuses: attributes that no user has, and keys beside `user`. */
export function findUnknown(body: unknown): readonly FieldError[] {
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
