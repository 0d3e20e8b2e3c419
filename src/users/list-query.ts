import { z } from 'zod'
import {
  checkQuery,
  instantMs,
  instantText,
  MAX_SHOWN_MS,
  type SentParameter,
  validData,
  wholeNumber,
} from '../http/query.ts'
import type { Cursors } from './cursor.ts'
import {
  SORT_KEYS,
  type UserFilters,
  type UserSelection,
  type UserSort,
} from './user-repository.ts'
import { foldCase, toNfc } from './user-schemas.ts'
import { parseAskedWords } from './words.ts'

const SORT_NAMES = SORT_KEYS.flatMap(key => [key, `-${key}`])

const LATEST = new Date(MAX_SHOWN_MS).toISOString()

const MAX_IDS = 500

const MAX_EMAILS = 100

const SAMPLE_INSTANT = '2026-01-31T12:00:00Z'

/** RFC 3339 also has lower case and leap seconds. */
const AS_TAKEN = ': `T` and `Z` in upper case, seconds up to 59.'

const DEFAULT_SORT = 'id'

/** The parameters that only pages have. */
const PAGE_PARAMETERS = {
  per_page: parameter(wholeNumber(1, 1000), 'Users per page.', 20).default(100),
  page: optional(wholeNumber(1, 999_999_999_999), 'The number of the page.', 2),
  // Without an example: tools would send it, and no cursor is right everywhere.
  after: text()
    .meta({ description: 'The cursor of the previous page; not with `page`.' })
    .optional(),
  sort: parameter(
    z.enum(SORT_NAMES, `must be one of ${SORT_NAMES.join(', ')}`),
    'The field to sort by; descending with `-` before it.',
    '-name',
  ).default(DEFAULT_SORT),
  count: parameter(boolean(), 'Adds the number of all users that match.', true).default(false),
  envelope: parameter(boolean(), 'Answers with an object instead of an array.', true).default(
    false,
  ),
}

/** Each of the others is a filter, so that none is accepted and then ignored. */
type Filter = Exclude<keyof UserFilters, 'ids' | 'emails'> | 'id' | 'email' | 'q'

const FILTERS = {
  id: optional(
    ids(),
    'Users with one of these ids, at most 500; an id that no user has is not found. May also be repeated, or sent as `id[]`.',
    [1, 7],
  ),
  email: optional(
    emails(),
    'Users with one of these e-mails, at most 100, without regard to case; a blank counts as `+`. May also be repeated, or sent as `email[]`.',
    ['ann@example.com'],
  ),
  name: optional(text().overwrite(fold), 'Users with this name, without regard to case.', 'Ann'),
  q: optional(
    askedWords(),
    'One to eight words, each of at most 64 characters: users of whom each word begins some word of the name or of the e-mail, without regard to case, accents and order. A word is a run of letters, marks and digits.',
    'lov ada',
  ),
  created_after: optional(instant('after'), `Created after this${AS_TAKEN}`, SAMPLE_INSTANT),
  created_before: optional(instant('before'), `Created before this${AS_TAKEN}`, SAMPLE_INSTANT),
  updated_after: optional(instant('after'), `Changed after this${AS_TAKEN}`, SAMPLE_INSTANT),
  updated_before: optional(instant('before'), `Changed before this${AS_TAKEN}`, SAMPLE_INSTANT),
} satisfies Record<Filter, z.ZodType>

/** The parameters of `GET /users`. */
export const listParameters = z.strictObject({ ...PAGE_PARAMETERS, ...FILTERS })

/** The parameters of a whole list, which has no pages and one order. */
const wholeListParameters = z.strictObject(FILTERS)

/** Parameters that are lists. */
const LISTS = ['id', 'email']

/**
 * Joins the values of lists by commas, in the forms that clients send them: with commas, repeated, and as `id[]`. A repeated value
 * that cannot be decoded makes all of them undecodable.
 */
function joinLists(parameters: readonly SentParameter[]): readonly SentParameter[] {
  const nameOf = ({ name }: SentParameter) => name.replace(/\[\]$/, '')
  const joined = LISTS.flatMap(name => {
    const values = parameters.flatMap(one => (nameOf(one) === name ? [one.value] : []))
    const value = values.includes(undefined) ? undefined : values.join()
    return values.length > 0 ? [{ name, value }] : []
  })
  return [...joined, ...parameters.filter(one => !LISTS.includes(nameOf(one)))]
}

const MAX_DELETED = 100

/** The parameters of `DELETE /users`. */
export const deletionParameters = z.strictObject({
  id: parameter(
    // Bruno fills in the example of a member, and without one an empty list.
    idTexts(MAX_DELETED).pipe(z.array(z.string().meta({ type: 'integer', example: 7 }))),
    `The users to delete, at most ${MAX_DELETED}. May also be repeated, or sent as \`id[]\`.`,
    [7, 9],
  ),
})

/** The ids of users to delete in decimal digits, each once. Throws `query_invalid`. */
export function parseDeletion(parameters: readonly SentParameter[]): readonly string[] {
  const { id } = validData(checkQuery(joinLists(parameters), deletionParameters))
  return id
}

/** A valid query of the list, with its defaults filled in. */
export type ListRequest = ReturnType<typeof parseListRequest>

/** The query of a whole list. Throws `query_invalid` with every wrong parameter. */
export function parseWholeList(
  parameters: readonly SentParameter[],
): Pick<UserSelection, 'filters' | 'words'> {
  const checked = checkQuery(joinLists(parameters), wholeListParameters)
  const { errors } = checked
  for (const name of Object.keys(PAGE_PARAMETERS)) {
    if (errors.has(name)) errors.set(name, 'cannot be given for the whole list')
  }
  return askedBy(validData(checked))
}

function askedBy({ id: ids, email: emails, q, ...others }: z.output<typeof wholeListParameters>) {
  const words = q === undefined ? [] : parseAskedWords(q).words
  return { filters: { ...others, ids, emails }, words }
}

/** Throws `query_invalid` with every wrong parameter. */
export function parseListRequest(parameters: readonly SentParameter[], cursors: Cursors) {
  const checked = checkQuery(joinLists(parameters), listParameters)
  const { errors } = checked
  const sent = (name: string) => parameters.find(parameter => parameter.name === name)?.value
  const [cursor, sort = DEFAULT_SORT] = [sent('after'), sent('sort')]
  const isJudged = cursor !== undefined && !errors.has('sort') && !errors.has('after')
  const after = isJudged ? cursors.decode(parseSort(sort), cursor) : undefined
  if (isJudged && after === undefined) errors.set('after', 'is not a cursor for this sort')
  if (cursor !== undefined && sent('page') !== undefined) {
    errors.set('after', 'cannot be given together with page')
  }
  const { per_page, page, after: _, sort: sorted, count, envelope, ...others } = validData(checked)
  return {
    ...askedBy(others),
    sort: parseSort(sorted),
    perPage: per_page,
    /** `undefined` if the list continues from `after`. */
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

function optional<T extends z.ZodType>(schema: T, description: string, example: unknown) {
  return parameter(schema, description, example).optional()
}

/** `parseListRequest` reports empty text itself. */
function text() {
  return z.string().meta({ minLength: 1 })
}

function fold(value: string): string {
  return foldCase(toNfc(value))
}

/** Positive integers; those that are too large for an id are left out. One that is given twice counts once. */
function ids() {
  return idTexts(MAX_IDS)
    .transform(all => all.map(Number).filter(Number.isSafeInteger))
    .pipe(z.array(z.int().min(1)).meta({ minItems: 1, maxItems: MAX_IDS }))
}

/** Positive integers as they are sent, each once. */
function idTexts(max: number) {
  const message = `must be 1 to ${max} ids, positive integers separated by commas`
  return z
    .string(message)
    .regex(/^[1-9]\d*(?:,[1-9]\d*)*$/, message)
    .transform(value => [...new Set(value.split(','))])
    .pipe(z.array(z.string()).max(max, message))
}

/** Folded. A blank was a `+` that was not encoded: no e-mail has one. */
function emails() {
  const message = `must be 1 to ${MAX_EMAILS} addresses separated by commas`
  return text()
    .regex(/^[^,]+(?:,[^,]+)*$/, message)
    .transform(value => [...new Set(value.replaceAll(' ', '+').split(',').map(fold))])
    .pipe(z.array(z.string()).max(MAX_EMAILS, message).meta({ minItems: 1 }))
}

/** Its output is still text, as the OpenAPI document shows it. */
function askedWords() {
  return text().check(({ value, issues }) => {
    const { error } = parseAskedWords(value)
    if (error !== undefined) issues.push({ code: 'custom', message: error, input: value })
  })
}

function boolean() {
  const schema = z.enum(['true', 'false'], 'must be true or false')
  return schema.transform(value => value === 'true').pipe(z.boolean())
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
      return ms > MAX_SHOWN_MS ? LATEST : new Date(ms).toISOString()
    })
    .pipe(z.string().meta({ format: 'date-time' }))
}
