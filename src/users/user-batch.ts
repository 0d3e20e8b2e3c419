import { type FieldError, kindOf, ServiceError } from '../errors.ts'
import { messagesByField } from '../http/error-handler.ts'
import { isObject } from '../json.ts'
import { findUnknownKeys } from './unknown-attributes.ts'
import type { Created } from './user-creator.ts'

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

/** The body of each user of a batch. Throws `validation_failed` for a body that is none. */
export function requireBatch(
  body: unknown,
  { isStrict = false }: { readonly isStrict?: boolean | undefined },
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

/** An entry as clients see it. */
export function entryJson(entry: Created): string {
  if (!(entry instanceof ServiceError)) return `{"status":201,"user":${entry.json}}`
  const { status, code: reason, details } = entry
  const { message } = kindOf(reason)
  return JSON.stringify({ status, message, reason, errors: messagesByField(details.errors ?? []) })
}
