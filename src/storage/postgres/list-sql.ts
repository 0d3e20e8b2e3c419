import type { UserFilters, UserQuery, UserSort } from '../../users/user-repository.ts'
import type { Statement } from './postgres-connections.ts'
import { representationOf, SELECT_REVISION } from './user-reads.ts'

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
  email: 'email_lower =',
  name: 'name_lower =',
  created_after: 'created_at >',
  created_before: 'created_at <',
  updated_after: 'updated_at >',
  updated_before: 'updated_at <',
}

export const FILTER_NAMES = Object.keys(FILTERS) as readonly FilterName[]

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
  /** After a position, after few users, whose number is a parameter, or after this many. */
  readonly start: 'after' | 'near' | number
  /** Whether few users are read, whatever the parameters are. */
  readonly isShort: boolean
  readonly withTotal: boolean
  /** The time range whose users are found first and then sorted. */
  readonly sortedRange: Range | undefined
}

/** The shape of a query. Queries of one shape differ in their parameters only. */
export function shapeOf(
  { sort, filters, limit, start, withTotal }: UserQuery,
  sortedRange?: Range,
): ListShape {
  const names = FILTER_NAMES.filter(name => filters[name] !== undefined)
  const offset = 'offset' in start ? start.offset : 0
  const isShort = offset <= MAX_SHORT_OFFSET && names.every(name => name === 'email')
  const after = 'offset' in start ? (isShort && offset > 0 ? 'near' : offset) : 'after'
  return { sort, filters: names, limit, start: after, isShort, withTotal, sortedRange }
}

/** The same text for shapes with the same SQL. */
export function formOf({ sort, filters, limit, start, withTotal, sortedRange }: ListShape): string {
  return `${Object.values(sort)} ${filters} ${limit} ${start} ${withTotal} ${sortedRange?.by}`
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
  const values: Record<string, unknown> = { ...filters, ...start }
  return parametersOf(shape).map(name => values[name])
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
  const lastKey = sort.by === 'id' ? 'NULL' : `(array_agg(sort_key))[${limit}]`
  const count =
    filters.length === 0
      ? 'SELECT sum(user_count)::bigint FROM users_summary'
      : `SELECT count(*) FROM users${whereSql(conditionsOf(filters, references))}`
  return `
    SELECT '[' || coalesce(string_agg(${representationOf('shown_users')}, ','), '') || ']', count(*), ${lastKey},
      (${SELECT_REVISION}), ${withTotal ? `(${count})` : 'NULL::bigint'}
    FROM (${rowsSql(shape, references)}) AS shown_users`
}

function rowsSql(shape: ListShape, references: References): string {
  const { sort, filters, limit, start, sortedRange } = shape
  const column = SORT_COLUMNS[sort.by]
  const direction = sort.descending ? 'DESC' : 'ASC'
  const order = positionColumns(sort).map(name => `${name} ${direction}`)
  const conditions = [
    ...(start === 'after' ? [afterSql(sort, references)] : []),
    ...conditionsOf(filters, references),
  ]
  // Planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  const source =
    sortedRange === undefined
      ? 'users'
      : `(SELECT id, name_lower, email_lower, created_at, updated_at, shown FROM users${whereSql(
          conditionsOf(ofRange(filters, sortedRange), references),
        )} OFFSET 0) AS users`
  const rows = `
      SELECT id, shown, ${column} AS sort_key FROM ${source}${whereSql(conditions)}
      ORDER BY ${order.join(', ')}`
  if (start === 'after') return `${rows} LIMIT ${limit + 1}`
  if (start !== 'near') return `${rows} LIMIT ${limit + 1} OFFSET ${start}`
  // For an unknown OFFSET alone, PostgreSQL plans as if it were a tenth of the table.
  const near = `${rows} LIMIT ${MAX_SHORT_OFFSET + limit + 1}`
  return `SELECT * FROM (${near}) AS near LIMIT ${limit + 1} OFFSET ${references.offset}`
}

/** The columns that a list is ordered by. */
export function positionColumns({ by }: UserSort): readonly string[] {
  return by === 'id' || by === 'email' ? [SORT_COLUMNS[by]] : [SORT_COLUMNS[by], 'id']
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
export function rangeToCount({ sort, filters }: UserQuery): Range | undefined {
  if (filters.email !== undefined || filters.name !== undefined) return undefined
  const ranges = RANGES.filter(range => range.filters.some(name => filters[name] !== undefined))
  return ranges.some(({ by }) => by === sort.by) ? undefined : ranges[0]
}

/** Counts the users in a range, up to one more than MAX_SORTED_USERS. */
export function countRangeStatement(
  { filters }: UserQuery,
  range: Range,
): { readonly statement: Statement; readonly values: readonly unknown[] } {
  const names = ofRange(FILTER_NAMES, range).filter(name => filters[name] !== undefined)
  const references = Object.fromEntries(names.map((name, index) => [name, `$${index + 1}`]))
  const where = whereSql(conditionsOf(names, references))
  const rows = `SELECT FROM users${where} LIMIT ${MAX_SORTED_USERS + 1}`
  return {
    statement: { text: `SELECT count(*) FROM (${rows}) AS matches` },
    values: names.map(name => filters[name]),
  }
}

function ofRange(names: readonly FilterName[], range: Range): readonly FilterName[] {
  const inRange: readonly FilterName[] = range.filters
  return names.filter(name => inRange.includes(name))
}

/** The condition of each filter. */
export function conditionsOf(
  filters: readonly FilterName[],
  references: References,
): readonly string[] {
  return filters.map(name => `${FILTERS[name]} ${references[name]}`)
}

/** The clause for all conditions; none for no condition. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
