import { z } from 'zod'
import { checkQuery, queryError, type SentParameter } from '../http/checked-query.ts'
import { instantMs, instantText, MAX_SHOWN_MS } from '../http/instant.ts'
import type { Cursors } from './cursor.ts'
import { type Position, SORT_KEYS, type UserFilters, type UserSort } from './user-repository.ts'
import { foldCase, toNfc } from './user-schemas.ts'
import { parseAskedWords } from './words.ts'

/** A valid query of the list, with its defaults filled in. */
export interface ListRequest {
  readonly sort: UserSort
  readonly filters: UserFilters
  /** Folded; none without `q`. */
  readonly words: readonly string[]
  readonly perPage: number
  /** `undefined` if the list continues from `after`. */
  readonly page: number | undefined
  readonly after: Position | undefined
  readonly count: boolean
  readonly envelope: boolean
}

const SORT_NAMES = SORT_KEYS.flatMap(key => [key, `-${key}`])

const SAMPLE_INSTANT = '2026-01-31T12:00:00Z'

export const SAMPLE_CURSOR = 'ryvb4aqbbsHireHWlPQfx1siIiwxXQ'

/** The parameters of `GET /users`. */
export const listParameters = z.strictObject({
  per_page: parameter(wholeNumber(1000), 'Users per page.', 20).default(100),
  page: parameter(wholeNumber(999_999_999_999), 'The number of the page.', 2).optional(),
  after: parameter(
    text(),
    'The cursor from the previous page; not together with `page`.',
    SAMPLE_CURSOR,
  ).optional(),
  sort: parameter(
    sortName(),
    'The field to sort by; descending with `-` before it.',
    '-name',
  ).default('id'),
  email: parameter(
    lowerCase(),
    'Users with this e-mail, without regard to case.',
    'ann@example.com',
  ).optional(),
  name: parameter(lowerCase(), 'Users with this name, without regard to case.', 'Ann').optional(),
  q: parameter(
    askedWords(),
    'One to eight words, each of at most 64 characters: users of whom each word begins some word of the name or of the e-mail, without regard to case, accents and order. A word is a run of letters, marks and digits.',
    'lov ada',
  ).optional(),
  created_after: parameter(instant('after'), 'Created after this.', SAMPLE_INSTANT).optional(),
  created_before: parameter(instant('before'), 'Created before this.', SAMPLE_INSTANT).optional(),
  updated_after: parameter(instant('after'), 'Changed after this.', SAMPLE_INSTANT).optional(),
  updated_before: parameter(instant('before'), 'Changed before this.', SAMPLE_INSTANT).optional(),
  count: parameter(trueOrFalse(), 'Adds the number of all users that match.', true).default(false),
  envelope: parameter(trueOrFalse(), 'Answers with an object instead of an array.', true).default(
    false,
  ),
})

/** Throws `query_invalid` with every wrong parameter. */
export function parseListRequest(
  parameters: readonly SentParameter[],
  cursors: Cursors,
): ListRequest {
  const { data, errors } = checkQuery(parameters, listParameters)
  const isGiven = (name: string) => parameters.some(parameter => parameter.name === name)
  if (isGiven('page') && isGiven('after')) errors.set('after', 'cannot be given together with page')
  if (data === undefined || errors.size > 0) throw queryError(errors)

  const { per_page, page, after: cursor, sort: sortName, q, count, envelope, ...filters } = data
  const sort = parseSort(sortName)
  const after = cursor === undefined ? undefined : cursors.decode(sort, cursor)
  if (cursor !== undefined && after === undefined) {
    throw queryError(new Map([['after', 'is not a cursor for this sort']]))
  }
  return {
    sort,
    filters,
    words: q === undefined ? [] : wordsIn(q),
    perPage: per_page,
    page: after === undefined ? (page ?? 1) : undefined,
    after,
    count,
    envelope,
  }
}

function parseSort(name: string): UserSort {
  const descending = name.startsWith('-')
  return { by: name.slice(descending ? 1 : 0) as UserSort['by'], descending }
}

/** Adds description and example for the OpenAPI document. */
function parameter<T extends z.ZodType>(schema: T, description: string, example: unknown) {
  return schema.meta({ description, examples: [example] })
}

function wholeNumber(max: number) {
  const message = `must be a whole number from 1 to ${max}`
  return z
    .string()
    .regex(/^[1-9]\d{0,11}$/, message)
    .transform(Number)
    .pipe(z.int().min(1).max(max, message))
}

/** `parseListRequest` reports empty text itself. */
function text() {
  return z.string().meta({ minLength: 1 })
}

function lowerCase() {
  return text().overwrite(value => foldCase(toNfc(value)))
}

/** Its output is still text, as the document of the interface shows it. */
function askedWords() {
  return text().check(({ value, issues }) => {
    const parsed = parseAskedWords(value)
    if ('error' in parsed) issues.push({ code: 'custom', message: parsed.error, input: value })
  })
}

/** The words of an output of `askedWords`. */
function wordsIn(q: string): readonly string[] {
  const parsed = parseAskedWords(q)
  return 'words' in parsed ? parsed.words : []
}

function sortName() {
  return z.enum(SORT_NAMES, `must be one of ${SORT_NAMES.join(', ')}`)
}

function trueOrFalse() {
  return z
    .enum(['true', 'false'], 'must be true or false')
    .transform(value => value === 'true')
    .pipe(z.boolean())
}

/**
 * An instant in the format of responses. Fractions of a millisecond are rounded so that the bound selects the same users:
 * a time is after 00.0005 if it is after 00.000, and before it if it is before 00.001.
 */
function instant(bound: 'after' | 'before') {
  return instantText()
    .transform(value => {
      const isFiner = /\.\d{3}\d*[1-9]/.test(value)
      const ms = instantMs(value) + (bound === 'before' && isFiner ? 1 : 0)
      return ms > MAX_SHOWN_MS ? '9999-12-31T23:59:59.999Z' : new Date(ms).toISOString()
    })
    .pipe(z.string().meta({ format: 'date-time' }))
}
