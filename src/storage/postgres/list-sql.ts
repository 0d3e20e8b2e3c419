import { lastIdOf, withoutLastUser } from '../../users/stored-user.ts'
import type {
  UserFilters,
  UserPage,
  UserQuery,
  UserSelection,
  UserSort,
} from '../../users/user-repository.ts'
import type { Statement } from './postgres-connections.ts'
import { REPRESENTATION, representationOf, SELECT_REVISION } from './user-reads.ts'

/** The column that each sort orders by. It is the first column of an index that ends in the id. */
export const SORT_COLUMNS: Readonly<Record<UserSort['by'], string>> = {
  id: 'id',
  name: 'name_lower',
  email: 'email_lower',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

export type FilterName = keyof UserFilters

const FILTERS: Readonly<Record<FilterName, string>> = {
  ids: 'id =',
  emails: 'email_lower =',
  name: 'name_lower =',
  created_after: 'created_at >',
  created_before: 'created_at <',
  updated_after: 'updated_at >',
  updated_before: 'updated_at <',
}

const FILTER_NAMES = Object.keys(FILTERS) as readonly FilterName[]

const RANGES = [
  { by: 'created_at', filters: ['created_after', 'created_before'] },
  { by: 'updated_at', filters: ['updated_after', 'updated_before'] },
] as const

type Range = (typeof RANGES)[number]

/** The row of a list. `lastKey` is the sort key of the last user within the limit. */
export type ListRow = readonly [
  json: string,
  length: number,
  lastKey: string | null,
  revision: string,
  total: number | null,
]

/** At most this many users are sorted for one page. */
export const MAX_SORTED_USERS = 10_000

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
}

/** The shape of a query. Queries of one shape differ in their parameters only. */
export function shapeOf(query: UserQuery, foundFirst = soughtOf(query)): ListShape {
  const { sort, limit, start, withTotal } = query
  const filters = filtersOf(query)
  const offset = 'offset' in start ? start.offset : 0
  const isShort = offset <= MAX_SHORT_OFFSET && (filters.length === 0 || soughtOf(query).length > 0)
  const after = 'offset' in start ? (isShort && offset > 0 ? 'near' : offset) : 'after'
  return { sort, filters, limit, start: after, isShort, withTotal, foundFirst }
}

/** The filters that are given. */
export function filtersOf({ filters }: Pick<UserQuery, 'filters'>): readonly FilterName[] {
  return FILTER_NAMES.filter(name => filters[name] !== undefined)
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
export function valuesOf({ start, filters }: UserQuery, shape: ListShape): readonly unknown[] {
  const values: Record<string, unknown> = { ...filterValues(filters), ...start }
  return parametersOf(shape).map(name => values[name])
}

/** Lists with commas between their members, because an array of arrays cannot be taken apart into the arrays of each page. */
export function filterValues(filters: UserFilters): Readonly<Partial<Record<FilterName, string>>> {
  // PostgreSQL takes no text with NUL. No user has a control character in name or e-mail.
  const values = Object.entries(filters).map(([name, value]) => [
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
export function positionOf({ by }: UserSort): readonly ('key' | 'id')[] {
  if (by === 'id') return ['id']
  return by === 'email' ? ['key'] : ['key', 'id']
}

/** SQL for the value of each parameter. */
export type References = Readonly<Record<string, string>>

function pageSql(shape: ListShape, references: References): string {
  const { sort, limit, filters, withTotal } = shape
  const { source, others } = sourceOf(shape, references)
  const lastKey = sort.by === 'id' ? 'NULL' : `(array_agg(sort_key))[${limit}]`
  const count =
    filters.length === 0
      ? 'SELECT sum(user_count)::bigint FROM users_summary'
      : `SELECT count(*) FROM ${source}${whereSql(others)}`
  return `
    SELECT '[' || coalesce(string_agg(${representationOf('shown_users')}, ','), '') || ']', count(*), ${lastKey},
      (${SELECT_REVISION}), ${withTotal ? `(${count})` : 'NULL::bigint'}
    FROM (${rowsSql(shape, references)}) AS shown_users`
}

function rowsSql(shape: ListShape, references: References): string {
  const { sort, limit, start } = shape
  const { source, others } = sourceOf(shape, references)
  const column = SORT_COLUMNS[sort.by]
  const conditions = [...(start === 'after' ? [afterSql(sort, references)] : []), ...others]
  const rows = `
      SELECT id, shown, ${column} AS sort_key FROM ${source}${whereSql(conditions)}
      ORDER BY ${orderOf(sort)}`
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
  const { source, others } = sourceOf({ filters, foundFirst }, references)
  return `SELECT ${REPRESENTATION} FROM ${source}${whereSql(others)} ORDER BY ${orderOf(selection.sort)}`
}

/** The page of a row, which has one user more than `limit` if more follow. */
export function toPage(row: ListRow, { limit }: { readonly limit: number }): UserPage {
  const [json, length, lastKey, revision, total] = row
  const hasMore = length > limit
  const page = hasMore ? withoutLastUser(json) : json
  return {
    json: page,
    next: hasMore ? { key: lastKey ?? '', id: lastIdOf(page) } : undefined,
    total: total ?? undefined,
    revision,
  }
}

/** What the users are read from, and the conditions that remain. */
function sourceOf(
  { filters, foundFirst }: Pick<ListShape, 'filters' | 'foundFirst'>,
  references: References,
) {
  const others = filters.filter(name => !foundFirst.includes(name))
  const first = whereSql(conditionsOf(foundFirst, references))
  // Planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  const few = `(SELECT id, name_lower, email_lower, created_at, updated_at, shown FROM users${first} OFFSET 0) AS users`
  return {
    source: foundFirst.length === 0 ? 'users' : few,
    others: conditionsOf(others, references),
  }
}

/** The columns that a list is ordered by. */
function positionColumns({ by }: UserSort): readonly string[] {
  return by === 'id' || by === 'email' ? [SORT_COLUMNS[by]] : [SORT_COLUMNS[by], 'id']
}

/** What follows ORDER BY. */
export function orderOf(sort: UserSort): string {
  const direction = sort.descending ? 'DESC' : 'ASC'
  return positionColumns(sort)
    .map(name => `${name} ${direction}`)
    .join(', ')
}

/** The condition for users after a position. */
export function afterSql(sort: UserSort, references: References): string {
  const beyond = sort.descending ? '<' : '>'
  const values = positionOf(sort).map(name => references[name])
  return `(${positionColumns(sort)}) ${beyond} (${values})`
}

/**
 * The range to count before a list in another order is made. No index gives a range of one column in the order of another.
 * If the range has few users, it is faster to find them and sort them. If it has many, it is faster to read the list in its
 * order and skip the users that do not match.
 */
export function rangeToCount(query: UserSelection): Range | undefined {
  const { sort, filters } = query
  if (filters.name !== undefined || soughtOf(query).length > 0) return undefined
  const ranges = RANGES.filter(range => range.filters.some(name => filters[name] !== undefined))
  return ranges.some(({ by }) => by === sort.by) ? undefined : ranges[0]
}

/** Counts the users in a range, up to one more than MAX_SORTED_USERS. */
export function countRangeStatement(
  query: UserSelection,
  range: Range,
): { readonly statement: Statement; readonly values: readonly unknown[] } {
  const names = filtersIn(query, range)
  const references = Object.fromEntries(names.map((name, index) => [name, `$${index + 1}`]))
  const where = whereSql(conditionsOf(names, references))
  const rows = `SELECT FROM users${where} LIMIT ${MAX_SORTED_USERS + 1}`
  return {
    statement: { text: `SELECT count(*) FROM (${rows}) AS matches` },
    values: names.map(name => query.filters[name]),
  }
}

/** The filters of a range. */
export function filtersIn(query: UserSelection, range: Range): readonly FilterName[] {
  const inRange: readonly FilterName[] = range.filters
  return filtersOf(query).filter(name => inRange.includes(name))
}

/** The condition of each filter. */
export function conditionsOf(
  filters: readonly FilterName[],
  references: References,
): readonly string[] {
  return filters.map(name => {
    const value = references[name]
    if (name === 'ids') return `${FILTERS.ids} ANY (string_to_array(${value}, ',')::bigint[])`
    if (name === 'emails') return `${FILTERS.emails} ANY (string_to_array(${value}, ','))`
    return `${FILTERS[name]} ${value}`
  })
}

/** The WHERE clause; empty without conditions. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
