import { z } from 'zod'
import { type FieldError, ServiceError } from '../errors.ts'

/** One `name=value` of a query, decoded. `value` is undefined if it cannot be decoded. */
export interface QueryParameter {
  readonly name: string
  readonly value: string | undefined
  /** The value before decoding. */
  readonly sent: string
}

/** The query parameters of a URL in their order, in the encoding of forms: a plus is a space. */
export function queryParameters(url: string): readonly QueryParameter[] {
  const start = url.indexOf('?')
  if (start < 0) return []
  return url
    .slice(start + 1)
    .split('&')
    .filter(pair => pair !== '')
    .map(pair => {
      const equals = pair.indexOf('=')
      const name = equals < 0 ? pair : pair.slice(0, equals)
      const value = equals < 0 ? '' : pair.slice(equals + 1)
      return { name: decode(name) ?? name, value: decode(value), sent: value }
    })
}

/** The value of `request.query`: the parameters by name, with a list for a repeated one. */
export function queryObject(query: string): Readonly<Record<string, string | readonly string[]>> {
  const values: Record<string, string | string[]> = Object.create(null)
  for (const { name, value, sent } of queryParameters(`?${query}`)) {
    const text = value ?? sent
    const earlier = values[name]
    values[name] = earlier === undefined ? text : [earlier, text].flat()
  }
  return values
}

/** Another page of a list: how it is related to this one, and the parameter that chooses it. */
export interface PageTarget {
  readonly relation?: string
  readonly name?: string
  readonly value: string
}

/**
 * A link of RFC 8288 to another page, which keeps the other parameters. Its target is relative to the origin, because behind a
 * proxy the service does not know its origin.
 */
export function pageLink(
  path: string,
  parameters: readonly SentParameter[],
  { relation = 'next', name = 'after', value }: PageTarget,
): string {
  const kept = parameters.filter(({ name }) => name !== 'page' && name !== 'after')
  const query = [...kept, { name, value }]
    .map(({ name, value = '' }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&')
  return `<${path}?${query}>; rel="${relation}"`
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/** A parameter that did not have to come in a URL. */
export type SentParameter = Omit<QueryParameter, 'sent'>

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

/** The values of a query. Throws `query_invalid` with a message for each parameter that is wrong. */
export function validData<T>({ data, errors }: CheckedQuery<T>): T {
  if (data === undefined || errors.size > 0) throw queryError(errors)
  return data
}

/** A schema of whole numbers in plain decimal. */
export function wholeNumber(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`
  return z
    .string()
    .regex(/^(?:0|[1-9]\d{0,11})$/, message)
    .transform(Number)
    .pipe(z.int().min(min, message).max(max, message))
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
