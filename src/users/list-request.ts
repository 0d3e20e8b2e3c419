import { z } from 'zod'
import { type FieldError, ServiceError } from '../errors.ts'
import type { Cursors } from './cursor.ts'
import { foldCase, toNfc } from './user.ts'
import { type Position, SORT_KEYS, type UserFilters, type UserSort } from './user-repository.ts'

/** A parameter as text; without a value where it could not be decoded. */
export interface ListParameter {
  readonly name: string
  readonly value: string | undefined
}

/** What a client asks of the list, checked and with its defaults. */
export interface ListRequest {
  readonly sort: UserSort
  readonly filters: UserFilters
  readonly perPage: number
  /** `undefined` where the list goes on from `after`. */
  readonly page: number | undefined
  readonly after: Position | undefined
  readonly count: boolean
  readonly envelope: boolean
}

const DEFAULT_PER_PAGE = 100

const SORT_NAMES = SORT_KEYS.flatMap(key => [key, `-${key}`])

/** One parameter a line: what `GET /users` takes. */
export const listParameters = z.strictObject({
  per_page: wholeNumber(1000).optional(),
  page: wholeNumber(999_999_999_999).optional(),
  after: z.string().optional(),
  sort: z.enum(SORT_NAMES, `must be one of ${SORT_NAMES.join(', ')}`).optional(),
  email: lowerCase().optional(),
  name: lowerCase().optional(),
  created_after: instant('after').optional(),
  created_before: instant('before').optional(),
  updated_after: instant('after').optional(),
  updated_before: instant('before').optional(),
  count: trueOrFalse().optional(),
  envelope: trueOrFalse().optional(),
})

/** Throws `query_invalid`, which names every parameter that is wrong. */
export function parseListRequest(
  parameters: readonly ListParameter[],
  cursors: Cursors,
): ListRequest {
  const errors = new Map<string, string>()
  const values: Record<string, string> = Object.create(null)
  for (const { name, value } of parameters) {
    if (name in values) errors.set(name, 'is given more than once')
    else if (value === '') errors.set(name, 'is empty')
    else if (value === undefined) errors.set(name, 'cannot be decoded')
    values[name] = value ?? ''
  }
  const result = listParameters.safeParse(values)
  for (const [name, message] of result.success
    ? []
    : result.error.issues.flatMap(namesAndMessage)) {
    if (!errors.has(name) || message === UNKNOWN) errors.set(name, message)
  }
  if (values.page !== undefined && values.after !== undefined) {
    errors.set('after', 'cannot be given together with page')
  }
  if (!result.success || errors.size > 0) throw invalid(errors)

  const { per_page, page, after: cursor, sort: sortName, count, envelope, ...filters } = result.data
  const sort = parseSort(sortName ?? 'id')
  const after = cursor === undefined ? undefined : cursors.decode(sort, cursor)
  if (cursor !== undefined && after === undefined) {
    throw invalid(new Map([['after', 'is no cursor of this sort']]))
  }
  return {
    sort,
    filters,
    perPage: per_page ?? DEFAULT_PER_PAGE,
    page: after === undefined ? (page ?? 1) : undefined,
    after,
    count: count ?? false,
    envelope: envelope ?? false,
  }
}

const UNKNOWN = 'is unknown'

function namesAndMessage(issue: z.core.$ZodIssue): [string, string][] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map(key => [key, UNKNOWN])
  return [[String(issue.path[0]), issue.message]]
}

function invalid(messages: ReadonlyMap<string, string>): ServiceError {
  const errors: FieldError[] = [...messages].map(([name, message]) => ({
    field: name,
    at: { parameter: name },
    messages: [message],
  }))
  return new ServiceError('query_invalid', { errors })
}

function parseSort(name: string): UserSort {
  const descending = name.startsWith('-')
  return { by: name.slice(descending ? 1 : 0) as UserSort['by'], descending }
}

function wholeNumber(max: number) {
  const message = `must be a whole number from 1 to ${max}`
  return z
    .string()
    .regex(/^[1-9]\d{0,11}$/, message)
    .transform(Number)
    .refine(value => value <= max, message)
}

function lowerCase() {
  return z.string().transform(text => foldCase(toNfc(text)))
}

function trueOrFalse() {
  return z.enum(['true', 'false'], 'must be true or false').transform(text => text === 'true')
}

const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d)?(?:[.,](\d+))?(?:Z|([+ -]\d\d):?(\d\d)?)$/

/** Seconds, a comma and minutes of an offset may be left to be understood; and a plus that nobody encoded is a space. */
function inFullForm(text: string): string {
  const [, start, seconds = ':00', fraction, hours, minutes = '00'] = INSTANT.exec(text) ?? []
  if (start === undefined) return text
  const offset = hours === undefined ? 'Z' : `${hours.replace(' ', '+')}:${minutes}`
  return `${start}${seconds}${fraction === undefined ? '' : `.${fraction}`}${offset}`
}

const MAX_SHOWN_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/**
 * An instant in the form in which times are shown. What is finer than a millisecond is rounded so that the bound
 * stays as it was meant: a time is after 00.0005 if it is after 00.000, and before it if it is before 00.001.
 */
function instant(bound: 'after' | 'before') {
  return z
    .string()
    .overwrite(inFullForm)
    .pipe(
      z.iso.datetime({ offset: true, error: 'must be an ISO 8601 instant with Z or an offset' }),
    )
    .transform(text => {
      const isFiner = /\.\d{3}\d*[1-9]/.test(text)
      const ms =
        Date.parse(text.replace(/(\.\d{3})\d+/, '$1')) + (bound === 'before' && isFiner ? 1 : 0)
      return ms > MAX_SHOWN_MS ? '9999-12-31T23:59:59.999Z' : new Date(ms).toISOString()
    })
}
