import { ServiceError } from '../../errors.ts'
import { lastIdOf, withoutLastUser } from '../../users/stored-user.ts'
import type {
  UserFilters,
  UserPage,
  UserQuery,
  UserSelection,
  UserSort,
} from '../../users/user-repository.ts'
import { SELECT_IS_INDEXED } from './index-next-users.ts'
import { REPRESENTATION, representationOf, SELECT_REVISION } from './user-reads.ts'

/** The column that each sort orders by. It is the first column of an index that ends in the id. */
const SORT_COLUMNS: Readonly<Record<UserSort['by'], string>> = {
  id: 'id',
  name: 'name_lower',
  email: 'email_lower',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

export type FilterName = keyof UserFilters | 'words'

/** The condition of each filter, from SQL for its value. */
const FILTERS: Readonly<Record<FilterName, (value: string, read: Read) => string>> = {
  ids: value => `id = ANY (string_to_array(${value}, ',')::bigint[])`,
  emails: value => `email_lower = ANY (string_to_array(${value}, ','))`,
  words: wordsSql,
  name: value => `name_lower = ${value}`,
  created_after: value => `created_at > ${value}`,
  created_before: value => `created_at < ${value}`,
  updated_after: value => `updated_at > ${value}`,
  updated_before: value => `updated_at < ${value}`,
}

type Filtered = Pick<UserSelection, 'filters' | 'words'>

const FILTER_NAMES = Object.keys(FILTERS) as readonly FilterName[]

const RANGES: readonly { readonly by: UserSort['by']; readonly names: readonly FilterName[] }[] = [
  { by: 'created_at', names: ['created_after', 'created_before'] },
  { by: 'updated_at', names: ['updated_after', 'updated_before'] },
]

/** The row of a list. `lastKey` is the sort key of the last user within the limit. */
export type ListRow = readonly [
  json: string,
  length: number,
  lastKey: string | null,
  revision: string,
  total: number | null,
  /** Whether all users can be found by their words, if the list has any. */
  isIndexed: boolean,
]

/** At most this many users are sorted for one page. */
export const MAX_SORTED_USERS = 10_000

/** Looking at the words of this many users takes a tenth of a second. */
const WALKED_USERS = 20_000

/** Looking at the words of twice as many takes about a millisecond. */
const SAMPLE_USERS = 500

/** Skipping this many users takes about a millisecond. */
const MAX_SHORT_OFFSET = 1000

/** All that the SQL of a list depends on. The limit is part of it: for an unknown one PostgreSQL plans as for a long list. */
export interface ListShape {
  readonly sort: UserSort
  readonly filters: readonly FilterName[]
  readonly limit: number
  /** `after` a position, `near` the beginning, after few users whose number is a parameter, or after this many users. */
  readonly start: 'after' | 'near' | number
  /** Whether few users are read, whatever the parameters are. */
  readonly isShort: boolean
  readonly withTotal: boolean
  /** The filters whose users are found first and then sorted. */
  readonly foundFirst: readonly FilterName[]
  /** Whether only the next WALKED_USERS in the order are read. If they do not fill the page, others may have the words. */
  readonly isWalk: boolean
}

/** The shape of a query. Queries of one shape differ in their parameters only. */
export function shapeOf(query: UserQuery, foundFirst = soughtOf(query)): ListShape {
  const { sort, limit, start, withTotal } = query
  const filters = filtersOf(query)
  const offset = 'offset' in start ? start.offset : 0
  const isShort = offset <= MAX_SHORT_OFFSET && (filters.length === 0 || soughtOf(query).length > 0)
  const after = 'offset' in start ? (isShort && offset > 0 ? 'near' : offset) : 'after'
  const isWalk = areWordsFar(filters, foundFirst)
  return { sort, filters, limit, start: after, isShort, withTotal, foundFirst, isWalk }
}

/** Whether the users with the words may all be far from the beginning of the order, and nothing else says where they are. */
export function areWordsFar(
  filters: readonly FilterName[],
  foundFirst: readonly FilterName[],
): boolean {
  return foundFirst.length === 0 && filters.includes('words') && !filters.includes('name')
}

/** The filters that are given. */
export function filtersOf({ filters, words }: Filtered): readonly FilterName[] {
  return FILTER_NAMES.filter(name =>
    name === 'words' ? words.length > 0 : filters[name] !== undefined,
  )
}

/** The filter that names few users, if there is one. */
export function soughtOf({ filters }: Pick<UserQuery, 'filters'>): readonly FilterName[] {
  if (filters.ids !== undefined) return ['ids']
  return filters.emails === undefined ? [] : ['emails']
}

/** The same text for shapes with the same SQL. */
export function formOf({ sort, filters, limit, start, withTotal, foundFirst }: ListShape): string {
  return `${Object.values(sort)} ${filters} ${limit} ${start} ${withTotal} ${foundFirst}`
}

/** The statement for one page of a shape. Its parameters are `valuesOf`. */
export function pageStatement(shape: ListShape): string {
  const parameters = parametersOf(shape).map((name, index) => [name, `$${index + 1}`])
  return pageSql(shape, Object.fromEntries(parameters))
}

/**
 * The statement for several pages of one shape, in their order. Its parameters are arrays: for each of the parameters of one
 * page, the values of all pages.
 */
export function pagesStatement(shape: ListShape): string {
  const names = parametersOf(shape)
  const columns = names.map(name => `"${name}"`).join(', ')
  const arrays = names.map(
    (name, index) => `$${index + 1}::${['id', 'offset'].includes(name) ? 'bigint' : 'text'}[]`,
  )
  const references = Object.fromEntries(names.map(name => [name, `asked."${name}"`]))
  return `
    SELECT page.* FROM unnest(${arrays.join(', ')}) WITH ORDINALITY AS asked (${columns}, place),
      LATERAL (${pageSql(shape, references)}) AS page
    ORDER BY asked.place`
}

/** The values of one page, in the order of its parameters. */
export function valuesOf(query: UserQuery, shape: ListShape): readonly unknown[] {
  const values: Record<string, unknown> = { ...filterValues(query), ...query.start }
  return parametersOf(shape).map(name => values[name])
}

/**
 * Lists with commas between their members, because an array of arrays cannot be taken apart into the arrays of each page.
 * Words hold only letters, marks and digits, so nothing in them means anything to `tsquery`.
 */
export function filterValues({ filters, words }: Filtered): Partial<Record<FilterName, string>> {
  const asked = words.length > 0 ? words.map(word => `'${word}':*`).join(' & ') : undefined
  // PostgreSQL takes no text with NUL. No user has a control character in name or e-mail.
  const values = Object.entries({ ...filters, words: asked }).map(([name, value]) => [
    name,
    value && String(value).replaceAll('\0', '\u0001'),
  ])
  return Object.fromEntries(values)
}

function parametersOf({ sort, filters, start }: ListShape): readonly string[] {
  if (start === 'near') return [...filters, 'offset']
  return [...filters, ...(start === 'after' ? positionOf(sort) : [])]
}

/** No two users have the same e-mail, so their ids never decide the order. */
function positionOf({ by }: UserSort): readonly ('key' | 'id')[] {
  if (by === 'id') return ['id']
  return by === 'email' ? ['key'] : ['key', 'id']
}

/** SQL for the value of each parameter. */
type References = Readonly<Record<string, string>>

function pageSql(shape: ListShape, references: References): string {
  const { sort, limit, filters, withTotal } = shape
  const lastKey = sort.by === 'id' ? 'NULL' : `(array_agg(sort_key))[${limit}]`
  const count =
    filters.length === 0
      ? 'SELECT sum(user_count)::bigint FROM users_summary'
      : `SELECT count(*) FROM ${matchesOf(shape, references)}`
  return `
    SELECT '[' || coalesce(string_agg(${representationOf('shown_users')}, ','), '') || ']', count(*), ${lastKey},
      (${SELECT_REVISION}), ${withTotal ? `(${count})` : 'NULL::bigint'},
      ${filters.includes('words') ? `(${SELECT_IS_INDEXED})` : 'true'}
    FROM (${rowsSql(shape, references)}) AS shown_users`
}

function rowsSql(shape: ListShape, references: References): string {
  const { sort, limit, start, isWalk } = shape
  const { source, others } = sourceOf(shape, references, 'ordered')
  const column = SORT_COLUMNS[sort.by]
  const after = start === 'after' ? [afterSql(sort, references)] : []
  const order = `ORDER BY ${orderOf(sort)}`
  const next = `(SELECT ${LISTED} FROM users${whereSql(after)} ${order} LIMIT ${WALKED_USERS}) AS users`
  const rows = `
      SELECT id, shown, ${column} AS sort_key
      FROM ${isWalk ? next + whereSql(others) : source + whereSql([...after, ...others])} ${order}`
  if (start === 'after') return `${rows} LIMIT ${limit + 1}`
  if (start !== 'near') return `${rows} LIMIT ${limit + 1} OFFSET ${start}`
  // For an unknown OFFSET alone, PostgreSQL plans as if it were a tenth of the table.
  const near = `${rows} LIMIT ${MAX_SHORT_OFFSET + limit + 1}`
  return `SELECT * FROM (${near}) AS near LIMIT ${limit + 1} OFFSET ${references.offset}`
}

/** The statement for all users that match. Its parameters are the filters, in their order. */
export function walkStatement(selection: UserSelection, foundFirst: readonly FilterName[]): string {
  const filters = filtersOf(selection)
  const references = Object.fromEntries(filters.map((name, index) => [name, `$${index + 1}`]))
  const { source, others } = sourceOf({ filters, foundFirst }, references, 'ordered')
  return `SELECT ${REPRESENTATION} FROM ${source}${whereSql(others)} ORDER BY ${orderOf(selection.sort)}`
}

/** The page of a row, which has one user more than `limit` if more follow. Throws `words_unavailable` if users lack words. */
export function toPage(row: ListRow, { limit }: ListShape): UserPage {
  const [json, length, lastKey, revision, total, isIndexed] = row
  if (!isIndexed) throw new ServiceError('words_unavailable')
  const hasMore = length > limit
  const page = hasMore ? withoutLastUser(json) : json
  return {
    json: page,
    next: hasMore ? { key: lastKey ?? '', id: lastIdOf(page) } : undefined,
    total: total ?? undefined,
    revision,
  }
}

/** All columns that a list needs. */
const LISTED = 'id, name_lower, email_lower, created_at, updated_at, shown'

type Sourced = Pick<ListShape, 'filters' | 'foundFirst'>

/** What the users are read from, and the conditions that remain. */
function sourceOf({ filters, foundFirst }: Sourced, references: References, read: Read) {
  const others = filters.filter(name => !foundFirst.includes(name))
  const first = whereSql(conditionsOf(foundFirst, references, 'few'))
  // Planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  const few = `(SELECT ${LISTED} FROM users${first} OFFSET 0) AS users`
  return {
    source: foundFirst.length === 0 ? 'users' : few,
    others: conditionsOf(others, references, read),
  }
}

/** The columns that a list is ordered by. */
function positionColumns(sort: UserSort): readonly string[] {
  return positionOf(sort).map(name => (name === 'id' ? 'id' : SORT_COLUMNS[sort.by]))
}

/** What follows ORDER BY. */
function orderOf(sort: UserSort): string {
  const direction = sort.descending ? 'DESC' : 'ASC'
  return positionColumns(sort)
    .map(name => `${name} ${direction}`)
    .join(', ')
}

/** The condition for users after a position. */
function afterSql(sort: UserSort, references: References): string {
  const beyond = sort.descending ? '<' : '>'
  const values = positionOf(sort).map(name => references[name])
  return `(${positionColumns(sort)}) ${beyond} (${values})`
}

/**
 * What to count before a list is made: the users with the words, and those in a range of another column than the list is
 * sorted by. No index gives them in the order of the list. If they are few, it is faster to find them and sort them. If they
 * are many, it is faster to read the list in its order and skip the users that do not match.
 */
export function filtersToCount(query: UserSelection): readonly (readonly FilterName[])[] {
  const names = filtersOf(query)
  if (names.some(name => ['ids', 'emails', 'name'].includes(name))) return []
  const ranges = RANGES.map(range => ({
    ...range,
    names: names.filter(name => range.names.includes(name)),
  }))
  const given = ranges.filter(range => range.names.length > 0)
  const isInOrder = given.some(({ by }) => by === query.sort.by)
  return [
    ...(names.includes('words') ? [['words'] as const] : []),
    ...(isInOrder ? [] : given.slice(0, 1).map(range => range.names)),
  ]
}

/**
 * Counts the users that match some filters, up to one more than MAX_SORTED_USERS. Words that many of the first and of the
 * last users have are not counted: their index would give all users with them before the first is counted.
 */
export function countStatement(names: readonly FilterName[]): string {
  const references = Object.fromEntries(names.map((name, index) => [name, `$${index + 1}`]))
  const most = MAX_SORTED_USERS + 1
  const rows = `SELECT FROM ${matchesOf({ filters: names, foundFirst: [] }, references)} LIMIT ${most}`
  const count = `SELECT count(*) FROM (${rows}) AS matches`
  if (references.words === undefined) return count
  const [first, last] = ['ASC', 'DESC'].map(
    direction => `(
      SELECT count(*) FROM (SELECT words FROM users_words ORDER BY id ${direction} LIMIT ${SAMPLE_USERS}) AS sample
      WHERE ${hasWords('$1')})`,
  )
  const areMany = `least(${first}, ${last}) > ${SAMPLE_USERS / 10}`
  return `SELECT CASE WHEN ${areMany} THEN ${most} ELSE (${count}) END`
}

/** What follows FROM to count the users that match. */
function matchesOf(shape: Sourced, references: References): string {
  const { source, others } = sourceOf(shape, references, 'all')
  if (shape.filters.length > 1 || references.words === undefined) return source + whereSql(others)
  return `users_words WHERE ${hasWords(references.words)}`
}

/** Whether few users with the words are read, all of them, or users in an order until a page is full. */
type Read = 'few' | 'all' | 'ordered'

function conditionsOf(
  filters: readonly FilterName[],
  references: References,
  read: Read,
): readonly string[] {
  return filters.map(name => FILTERS[name](references[name] as string, read))
}

function wordsSql(value: string, read: Read): string {
  const ids = `SELECT id FROM users_words WHERE ${hasWords(value)}`
  if (read === 'few') return `id = ANY (ARRAY(${ids}))`
  if (read === 'all') return `id IN (${ids})`
  // Within `coalesce` PostgreSQL takes it for true of every other user, otherwise of almost none, and reads and sorts all.
  return `coalesce((SELECT ${hasWords(value)} FROM users_words WHERE users_words.id = users.id), false)`
}

function hasWords(words: string): string {
  return `words @@ ${words}::tsquery`
}

/** The WHERE clause; empty without conditions. */
function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
