import type { FieldError } from '../errors.ts'
import { isObject } from '../json.ts'

const ATTRIBUTES = ['name', 'email', 'password']

/** The attributes that a body with a valid user has, by name. */
export function attributesIn(body: unknown): readonly string[] {
  const { user } = body as { readonly user: Readonly<Record<string, unknown>> }
  return ATTRIBUTES.filter(name => user[name] !== undefined)
}

const UNKNOWN = 'is not an attribute of a user'

/** What strict handling refuses: attributes that no user has, and keys beside `user`. */
export function findUnknown(body: unknown): readonly FieldError[] {
  return [...findOthers(Object(body).user, ATTRIBUTES, '/user'), ...findUnknownKeys(body, ['user'])]
}

/** The keys of a body that are none of these. */
export function findUnknownKeys(body: unknown, known: readonly string[]): readonly FieldError[] {
  return findOthers(body, known, '')
}

function findOthers(value: unknown, known: readonly string[], at: string): readonly FieldError[] {
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
