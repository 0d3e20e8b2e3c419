import { z } from 'zod'
import { ServiceError } from '../errors.ts'

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

/** Every value of a query parameter of a URL. A value that cannot be decoded stays as it was sent. */
export function queryValues(url: string, name: string): readonly string[] {
  return queryParameters(url)
    .filter(parameter => parameter.name === name)
    .map(({ value, sent }) => value ?? sent)
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

/**
 * A link of RFC 8288 to another page, which the parameter `name` chooses, beside the other parameters. Its target is relative to the origin, because behind a
 * proxy the service does not know its origin.
 */
export function pageLink(
  path: string,
  parameters: readonly SentParameter[],
  target: { readonly relation?: string; readonly name?: string; readonly value: string },
): string {
  const { relation = 'next', name = 'after', value } = target
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
  if (data !== undefined && errors.size === 0) return data
  throw new ServiceError('query_invalid', {
    errors: Array.from(errors, ([field, message]) => {
      return { field, at: { parameter: field }, messages: [message] }
    }),
  })
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

const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(?:(:\d\d)(?:[.,](\d+))?)?(?:Z|([+ -]\d\d):?(\d\d)?)$/

/**
 * Adds missing seconds and missing minutes of the offset, and changes a decimal comma to a point. A plus that was not
 * percent-encoded arrives as a space, and is changed back.
 */
function completeInstant(text: string): string {
  const [, start, seconds = ':00', fraction, hours, minutes = '00'] = INSTANT.exec(text) ?? []
  if (start === undefined) return text
  const offset = hours === undefined ? 'Z' : `${hours.replace(' ', '+')}:${minutes}`
  return `${start}${seconds}${fraction === undefined ? '' : `.${fraction}`}${offset}`
}

/** The range of times that can be shown: years of four digits. */
export const MIN_SHOWN_MS = Date.parse('0000-01-01T00:00:00.000Z')
export const MAX_SHOWN_MS = Date.parse('9999-12-31T23:59:59.999Z')

export const NO_INSTANT = 'must be an ISO 8601 instant with Z or an offset'

/** A schema for ISO 8601 instants. Its output is text for `instantMs`. */
export function instantText() {
  return z
    .string(NO_INSTANT)
    .overwrite(completeInstant)
    .pipe(z.iso.datetime({ offset: true, error: NO_INSTANT }))
}

/** Milliseconds since the epoch of an output of `instantText`, rounded down. */
export function instantMs(text: string): number {
  return Date.parse(text.replace(/(\.\d{3})\d+/, '$1'))
}
