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

/** The indexes that find the users of filters. That of e-mails finds one user at most. */
const FILTER_INDEXES = [
  { by: 'name', filters: ['name'] },
  { by: 'created_at', filters: ['created_after', 'created_before'] },
  { by: 'updated_at', filters: ['updated_after', 'updated_before'] },
] as const

export type IndexedFilter = (typeof FILTER_INDEXES)[number]['by']

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
  readonly index: IndexedFilter | undefined
  readonly filters: readonly FilterName[]
}

/**
 * The statement for a page. Its one row has up to one user more than the limit, and the other parts of a list. Its
 * parameters are the filters, `key`, `id`, `limit` and `offset`. `form` identifies the text that `sql` returns, and takes
 * less time to make.
 */
export function listStatement(
  { sort, filters, start, withTotal }: UserQuery,
  index?: IndexedFilter,
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
  const total = shape.withTotal ? countSql(shape.filters, shape.index) : 'NULL'
  return `
    SELECT json_group_array(${REPRESENTATION}), count(*), (${SELECT_REVISION}), (${total})
    FROM (${rowsSql(shape)} LIMIT @limit + 1 OFFSET @offset)`
}

/** The sort key of the user `@id`, for a sort other than by id. */
export function sortKeySql({ by }: UserSort): string {
  return `SELECT ${SORT_EXPRESSIONS[by]} FROM users WHERE id = @id`
}

export function countSql(filters: readonly FilterName[], index?: IndexedFilter): string {
  return filters.length === 0
    ? 'SELECT user_count FROM users_summary WHERE singleton = 1'
    : `SELECT count(*) FROM users${indexedSql(index)}${whereSql(conditionsOf(filters))}`
}

/** The indexes that find the users of some of these filters. */
export function indexedFiltersOf(filters: UserFilters): readonly IndexedFilter[] {
  return FILTER_INDEXES.filter(index =>
    index.filters.some(name => filters[name] !== undefined),
  ).map(({ by }) => by)
}

/** Counts what an index of filters matches, but stops at `@most`. */
export function matchesSql(filters: UserFilters, by: IndexedFilter): string {
  const index = FILTER_INDEXES.find(each => each.by === by)
  const conditions = conditionsOf(namesOf(filters, index?.filters))
  return `SELECT count(*) FROM (
    SELECT 1 FROM users${indexedSql(by)}${whereSql(conditions)} LIMIT @most)`
}

function rowsSql({ by, descending, isAfterPosition, index, filters }: ListShape): string {
  const key = by === 'id' ? "''" : SORT_EXPRESSIONS[by]
  const selects = (isAfterPosition ? keyset(by, descending) : [[]]).map(
    conditions =>
      `SELECT ${SHOWN_COLUMNS}, ${key} AS sort_key FROM users${indexedSql(index)}` +
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

function indexedSql(index: IndexedFilter | undefined): string {
  return index === undefined ? '' : ` INDEXED BY users_by_${index}`
}

function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
