import type { UserFilters, UserQuery, UserSort } from '../../users/user-repository.ts'
import { REPRESENTATION } from './user-representation.ts'

export const SELECT_REVISION = `
  SELECT lists_id || '-' || revision FROM users_summary WHERE singleton = 1`

export const SHOWN_COLUMNS = 'id, name, email, created_at, updated_at'

/** The expression that each sort orders by. Each is the first column of an index. */
export const SORT_EXPRESSIONS: Readonly<Record<UserSort['by'], string>> = {
  id: 'id',
  name: 'name_lower',
  email: 'lower(email)',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

export type FilterName = keyof UserFilters

const FILTER_CONDITIONS: Readonly<Record<FilterName, string>> = {
  email: 'lower(email) = @email',
  name: 'name_lower = @name',
  created_after: 'created_at > @created_after',
  created_before: 'created_at < @created_before',
  updated_after: 'updated_at > @updated_after',
  updated_before: 'updated_at < @updated_before',
}

const FILTER_NAMES = Object.keys(FILTER_CONDITIONS) as readonly FilterName[]

/** Filters whose matches one index finds directly, so they are fast with any sort. */
const POINT_FILTERS = ['email', 'name'] as const

const RANGE_INDEXES = [
  { by: 'created_at', filters: ['created_after', 'created_before'] },
  { by: 'updated_at', filters: ['updated_after', 'updated_before'] },
] as const

export type IndexName = `users_by_${(typeof RANGE_INDEXES)[number]['by']}`

/** The one row of a list statement, as an array. */
export type ListRow = readonly [
  json: string,
  length: number,
  revision: string,
  total: number | null,
]

/** All that the SQL of a list depends on. */
interface ListShape {
  readonly by: UserSort['by']
  readonly descending: boolean
  readonly isAfterPosition: boolean
  readonly withTotal: boolean
  readonly index: IndexName | undefined
  readonly filters: readonly FilterName[]
}

/**
 * The statement for a page. Its one row has up to one user more than the limit, and the other parts of a list. Its
 * parameters are the filters, `key`, `id`, `limit` and `offset`. `form` identifies the text that `sql` returns, and takes
 * less time to make.
 */
export function listStatement(
  { sort, filters, start, withTotal }: UserQuery,
  index?: IndexName,
): { readonly form: string; readonly sql: () => string } {
  const shape: ListShape = {
    ...sort,
    isAfterPosition: !('offset' in start),
    withTotal,
    index,
    filters: namesOf(filters),
  }
  return { form: Object.values(shape).join(' '), sql: () => listSql(shape) }
}

function listSql(shape: ListShape): string {
  const total = shape.withTotal ? countSql(shape.filters) : 'NULL'
  return `
    SELECT json_group_array(${REPRESENTATION}), count(*), (${SELECT_REVISION}), (${total})
    FROM (${rowsSql(shape)} LIMIT @limit + 1 OFFSET @offset)`
}

/** The sort key of the user `@id`, for a sort other than by id. */
export function sortKeySql({ by }: UserSort): string {
  return `SELECT ${SORT_EXPRESSIONS[by]} FROM users WHERE id = @id`
}

export function countSql(filters: readonly FilterName[]): string {
  return filters.length === 0
    ? 'SELECT user_count FROM users_summary WHERE singleton = 1'
    : `SELECT count(*) FROM users${whereSql(conditionsOf(filters))}`
}

/**
 * The index for a time range in a list that has another order. No index gives a range of one column in the order of
 * another. If the range has few users, it is faster to find them with this index and sort them. If it has many, it is
 * faster to read the list in its own order and skip the users that do not match. SQLite does so if the range has one end,
 * and sorts a range with both ends all the same.
 */
export function rangeIndex({ sort, filters }: UserQuery): IndexName | undefined {
  if (POINT_FILTERS.some(name => filters[name] !== undefined)) return undefined
  const ranges = RANGE_INDEXES.filter(range =>
    range.filters.some(name => filters[name] !== undefined),
  )
  if (ranges.some(({ by }) => by === sort.by)) return undefined
  return ranges[0] && `users_by_${ranges[0].by}`
}

/** Counts what a range index matches, but stops at `@most`. */
export function matchesSql(filters: UserFilters, index: IndexName): string {
  const range = RANGE_INDEXES.find(({ by }) => index === `users_by_${by}`)
  const conditions = conditionsOf(namesOf(filters, range?.filters))
  return `SELECT count(*) FROM (
    SELECT 1 FROM users INDEXED BY ${index}${whereSql(conditions)} LIMIT @most)`
}

function rowsSql({ by, descending, isAfterPosition, index, filters }: ListShape): string {
  const key = by === 'id' ? "''" : SORT_EXPRESSIONS[by]
  const indexed = index === undefined ? '' : ` INDEXED BY ${index}`
  const selects = (isAfterPosition ? keyset(by, descending) : [[]]).map(
    conditions =>
      `SELECT ${SHOWN_COLUMNS}, ${key} AS sort_key FROM users${indexed}` +
      whereSql([...conditions, ...conditionsOf(filters)]),
  )
  const direction = descending ? 'DESC' : 'ASC'
  const keyOrder = by === 'id' ? '' : `sort_key ${direction}, `
  return `${selects.join(' UNION ALL ')} ORDER BY ${keyOrder}id ${direction}`
}

/** The conditions of the ranges that together hold all users after `@key` and `@id`. */
function keyset(by: UserSort['by'], descending: boolean): readonly (readonly string[])[] {
  const beyond = descending ? '<' : '>'
  const key = SORT_EXPRESSIONS[by]
  if (by === 'id') return [[`id ${beyond} @id`]]
  // No two users have the same e-mail, so ids never decide the order.
  if (by === 'email') return [[`${key} ${beyond} @key`]]
  // For (key, id) > (@key, @id) SQLite seeks by the first column only, and would read all users with the same name.
  return [[`${key} = @key`, `id ${beyond} @id`], [`${key} ${beyond} @key`]]
}

/** The filters that are given. */
export function namesOf(filters: UserFilters, names = FILTER_NAMES): readonly FilterName[] {
  return names.filter(name => filters[name] !== undefined)
}

export function conditionsOf(filters: readonly FilterName[]): readonly string[] {
  return filters.map(name => FILTER_CONDITIONS[name])
}

function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
