import type { UserFilters, UserQuery, UserSort } from './user-repository.ts'
import { REPRESENTATION } from './user-representation.ts'

export const SELECT_REVISION = `SELECT revision FROM users_summary WHERE singleton = 1`

const SHOWN_COLUMNS = 'id, name, email, created_at, updated_at'

/** The expression each sort goes by; every one is that of an index. */
const SORT_EXPRESSIONS: Readonly<Record<UserSort['by'], string>> = {
  id: 'id',
  name: 'name_lower',
  email: 'lower(email)',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

const FILTER_CONDITIONS: Readonly<Record<keyof UserFilters, string>> = {
  email: 'lower(email) = @email',
  name: 'name_lower = @name',
  created_after: 'created_at > @created_after',
  created_before: 'created_at < @created_before',
  updated_after: 'updated_at > @updated_after',
  updated_before: 'updated_at < @updated_before',
}

/** What is found of a filter by one index and so costs little, whatever the sort. */
const POINT_FILTERS = ['email', 'name'] as const

const RANGE_INDEXES = [
  { by: 'created_at', filters: ['created_after', 'created_before'] },
  { by: 'updated_at', filters: ['updated_after', 'updated_before'] },
] as const

export type IndexName = `users_by_${(typeof RANGE_INDEXES)[number]['by']}`

/** The one row of `listSql`, as an array. */
export type ListRow = readonly [
  json: string,
  length: number,
  revision: number,
  total: number | null,
]

/**
 * A page with one user more than its limit, if there is one, and all else that a list tells, in one statement.
 * Parameters are named after the filters, and `key`, `id`, `limit` and `offset`.
 */
export function listSql({ sort, filters, start, withTotal }: UserQuery, index?: IndexName): string {
  const rows = 'offset' in start ? rowsFrom(sort, filters, index) : rowsAfter(sort, filters, index)
  return `
    SELECT json_group_array(${REPRESENTATION}), count(*), (${SELECT_REVISION}),
      (${withTotal ? countSql(filters) : 'NULL'})
    FROM (${rows} LIMIT @limit + 1 OFFSET @offset)`
}

/** What tells the text of one `listSql` from that of another: shorter to make than the text. */
export function listForm(
  { sort, filters, start, withTotal }: UserQuery,
  index?: IndexName,
): string {
  const names = conditionsOf(filters).join()
  return `${sort.by} ${sort.descending} ${'offset' in start} ${withTotal} ${index} ${names}`
}

/** Where the user of `@id` stands in a sort other than by id. */
export function sortKeySql({ by }: UserSort): string {
  return `SELECT ${SORT_EXPRESSIONS[by]} FROM users WHERE id = @id`
}

export function countSql(filters: UserFilters): string {
  const conditions = conditionsOf(filters)
  return conditions.length === 0
    ? 'SELECT user_count FROM users_summary WHERE singleton = 1'
    : `SELECT count(*) FROM users WHERE ${conditions.join(' AND ')}`
}

/**
 * The index of a range of times by which to find users in another order, if that may pay: where few match, they
 * are sorted; where many do, the order is followed and what does not match is passed over. No index gives a
 * range of one column in the order of another.
 */
export function rangeIndex({ sort, filters }: UserQuery): IndexName | undefined {
  if (POINT_FILTERS.some(name => filters[name] !== undefined)) return undefined
  if (RANGE_INDEXES.some(range => range.by === sort.by && isFiltered(range, filters)))
    return undefined
  const range = RANGE_INDEXES.find(candidate => isFiltered(candidate, filters))
  return range && `users_by_${range.by}`
}

/** Counts what a range index matches, but stops at `@most`. */
export function matchesSql(filters: UserFilters, index: IndexName): string {
  const range = RANGE_INDEXES.find(({ by }) => index === `users_by_${by}`)
  const conditions = conditionsOf(filters, range?.filters)
  return `SELECT count(*) FROM (
    SELECT 1 FROM users INDEXED BY ${index} WHERE ${conditions.join(' AND ')} LIMIT @most)`
}

function rowsFrom(sort: UserSort, filters: UserFilters, index: IndexName | undefined): string {
  return select(sort, conditionsOf(filters), index) + orderBy(sort, SORT_EXPRESSIONS[sort.by])
}

function rowsAfter(sort: UserSort, filters: UserFilters, index: IndexName | undefined): string {
  const expression = SORT_EXPRESSIONS[sort.by]
  const beyond = sort.descending ? '<' : '>'
  const others = conditionsOf(filters)
  if (sort.by === 'id') {
    return select(sort, [`id ${beyond} @id`, ...others], index) + orderBy(sort, expression)
  }
  if (sort.by === 'email') {
    // No two users have the same, so the id decides nothing.
    return (
      select(sort, [`${expression} ${beyond} @key`, ...others], index) + orderBy(sort, expression)
    )
  }
  // SQLite seeks by the first column only of (key, id) > (@key, @id), and would walk over all users of one name.
  const tied = select(sort, [`${expression} = @key`, `id ${beyond} @id`, ...others], index)
  const further = select(sort, [`${expression} ${beyond} @key`, ...others], index)
  return `${tied} UNION ALL ${further}${orderBy(sort, 'sort_key')}`
}

function select(
  sort: UserSort,
  conditions: readonly string[],
  index: IndexName | undefined,
): string {
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
  const indexed = index === undefined ? '' : ` INDEXED BY ${index}`
  const key = sort.by === 'id' ? "''" : SORT_EXPRESSIONS[sort.by]
  return `SELECT ${SHOWN_COLUMNS}, ${key} AS sort_key FROM users${indexed}${where}`
}

function orderBy({ by, descending }: UserSort, expression: string): string {
  const direction = descending ? 'DESC' : 'ASC'
  const keys = by === 'id' ? ['id'] : [expression, 'id']
  return ` ORDER BY ${keys.map(key => `${key} ${direction}`).join(', ')}`
}

function conditionsOf(
  filters: UserFilters,
  names: readonly (keyof UserFilters)[] = Object.keys(FILTER_CONDITIONS) as (keyof UserFilters)[],
): string[] {
  return names.filter(name => filters[name] !== undefined).map(name => FILTER_CONDITIONS[name])
}

function isFiltered(range: (typeof RANGE_INDEXES)[number], filters: UserFilters): boolean {
  return range.filters.some(name => filters[name] !== undefined)
}
