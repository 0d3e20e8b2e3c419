import type { z } from 'zod'
import { type FieldError, ServiceError } from '../errors.ts'

/** A query parameter. Its value is `undefined` if it cannot be decoded. */
export interface SentParameter {
  readonly name: string
  readonly value: string | undefined
}

/** A query that was checked: its values if they are right, and a message for each parameter that is wrong. */
export interface CheckedQuery<T> {
  readonly data: T | undefined
  readonly errors: Map<string, string>
}

const UNKNOWN = 'is unknown'

/** Checks parameters by a strict schema of texts. One that is given twice, empty or cannot be decoded is wrong too. */
export function checkQuery<T>(
  parameters: readonly SentParameter[],
  schema: z.ZodType<T>,
): CheckedQuery<T> {
  const errors = new Map<string, string>()
  const values: Record<string, string> = Object.create(null)
  for (const { name, value } of parameters) {
    if (name in values) errors.set(name, 'is given more than once')
    else if (value === '') errors.set(name, 'is empty')
    else if (value === undefined) errors.set(name, 'cannot be decoded')
    values[name] = value ?? ''
  }
  const result = schema.safeParse(values)
  const issues = result.success ? [] : result.error.issues.flatMap(namesAndMessage)
  for (const [name, message] of issues) {
    if (!errors.has(name) || message === UNKNOWN) errors.set(name, message)
  }
  return { data: result.data, errors }
}

function namesAndMessage(issue: z.core.$ZodIssue): [string, string][] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map(key => [key, UNKNOWN])
  return [[String(issue.path[0]), issue.message]]
}

/** `query_invalid` with a message for each parameter. */
export function queryError(messages: ReadonlyMap<string, string>): ServiceError {
  const errors: FieldError[] = [...messages].map(([name, message]) => ({
    field: name,
    at: { parameter: name },
    messages: [message],
  }))
  return new ServiceError('query_invalid', { errors })
}
