import type { UserFilters, UserQuery, UserSelection, UserSort } from '../users/user-repository.ts'

export type FilterName = keyof UserFilters

/** What a user must match. */
export type Criterion = FilterName | 'words'

/** What users are asked for, in any order. */
export type Asking = Pick<UserSelection, 'filters' | 'words'>

/** The column of each filter, which has an index. By that of a range, `users_by_…` in SQLite, users are found and counted. */
export const FILTER_COLUMNS: Readonly<Record<FilterName, UserSort['by']>> = {
  ids: 'id',
  emails: 'email',
  name: 'name',
  created_after: 'created_at',
  created_before: 'created_at',
  updated_after: 'updated_at',
  updated_before: 'updated_at',
}

const FILTER_NAMES = Object.keys(FILTER_COLUMNS) as readonly FilterName[]

/** Finding and sorting this many users takes 2 to 20 ms. With more, the order of the list finds enough for a page sooner. */
export const MAX_SORTED_USERS = 10_000

/** The filters that are given. */
export function namesOf(filters: UserFilters): readonly FilterName[] {
  return FILTER_NAMES.filter(name => filters[name] !== undefined)
}

/** All that a user must match. */
export function criteriaOf({ filters, words }: Asking): readonly Criterion[] {
  const names = namesOf(filters)
  return words.length > 0 ? ['words', ...names] : names
}

/** The filter that names few users, if there is one: they are found first, and all of them sorted. */
export function fewOf({ filters }: Pick<UserSelection, 'filters'>): readonly ('ids' | 'emails')[] {
  if (filters.ids !== undefined) return ['ids']
  return filters.emails === undefined ? [] : ['emails']
}

/** The filters that may match many users, by their indexes. */
export function rangesOf(filters: UserFilters): readonly (readonly FilterName[])[] {
  const names = namesOf(filters).filter(name => name !== 'ids' && name !== 'emails')
  const columns = new Set(names.map(name => FILTER_COLUMNS[name]))
  return [...columns].map(column => names.filter(name => FILTER_COLUMNS[name] === column))
}

/** What each index may tell of the users that are asked for. */
export function indexesOf({ filters, words }: Asking): readonly (readonly Criterion[])[] {
  const ranges = rangesOf(filters)
  return words.length > 0 ? [['words'], ...ranges] : ranges
}

/** Whether an index has the users of its filter in the order of a sort. Those with one name are in the order of their ids. */
export function isInOrder(name: FilterName, { by }: Pick<UserSort, 'by'>): boolean {
  return FILTER_COLUMNS[name] === by || (name === 'name' && by === 'id')
}

/**
 * Whether an index gives the page as it is, after at most `maxSkipped` users. Other lists may read all users, as may one after
 * a cursor of another name: all users between the two names.
 */
export function isPageOfIndex(query: UserQuery, maxSkipped: number): boolean {
  const { sort, start, filters, words, withTotal } = query
  if (words.length > 0) return false
  if (fewOf(query).length > 0) return true
  if ('offset' in start && start.offset > maxSkipped) return false
  const [range, ...others] = rangesOf(filters)
  if (range === undefined) return true
  if (sort.by === 'name' && 'key' in start && start.key !== filters.name) return false
  return range.every(name => isInOrder(name, sort)) && others.length === 0 && !withTotal
}

/** Where users are in an order. */
export interface Place {
  /** The columns of the order. */
  readonly order: readonly string[]
  /** The conditions of the ranges that together hold all users after the start. */
  readonly ranges: readonly string[]
}

/** What users are read from. */
export interface Source {
  readonly from: string
  readonly conditions: readonly string[]
}

/** What lists are in the SQL of an engine, with parameters as `@name`: those of `valuesOf`, and `key`, `id`, `limit` and `offset`. */
export interface ListDialect {
  /** Skipping this many users takes about a millisecond. */
  readonly maxSkipped: number
  /** The expression that each sort orders by. It is the first column of an index that ends in the id. */
  readonly sortKeys: Readonly<Record<UserSort['by'], string>>
  /** SQL for whether a user has an id of the service. No request can name others, and after them no cursor could go on. */
  readonly hasId: string
  /** The columns of a page, and SQL for the JSON array of `page`, which has them. */
  readonly columns: string
  readonly json: string
  readonly selectRevision: string
  /** SQL for what a scan makes of users: their lines, and the JSON array of their digests. */
  readonly lines: string
  readonly digests: string
  /** The values of the parameters of filters and words. */
  valuesOf(selection: Asking): Readonly<Record<string, unknown>>
  /**
   * What to count before a list is made that may read many users: criteria of which no index gives the users in the order of
   * the list. If they are few, it is faster to find them and sort them. If they are many, it is faster to read the list in its
   * order and skip the users that do not match.
   */
  criteriaToCount(asking: Asking): readonly (readonly Criterion[])[]
  /** Counts the users that match some criteria, as `countFew` does. */
  selectCount(criteria: readonly Criterion[]): string
  /** Selects all columns of the users that match some criteria, which are few, by an index. It is planned on its own. */
  selectFew(criteria: readonly Criterion[]): string
  /** The condition of a criterion for each user of those that are read anyway, for which no index is read. */
  testOf(criterion: Criterion): string
  placeOf(query: UserQuery): Place
  /** What has a page, read in the order of the list. `isShort` if it reads few users, whatever the values are. */
  inOrder(query: UserQuery, isShort: boolean): Source & Place
  /** What has all that match, in any order. */
  matching(asking: Asking): Source
  /** Whether a page looks only at the next users of its order, among which too few may have the words. */
  areWordsFar(selection: UserSelection, first: readonly Criterion[]): boolean
  /** SQL for the sort key of the last user within the limit. */
  lastKeyOf(query: UserQuery): string
  /** The rows of a page, of which there is one more than the limit if more users follow. */
  cut(rows: string, query: UserQuery, isShort: boolean): string
}

/** The sort keys that are the same in both engines. */
export const SORT_COLUMNS = {
  id: 'id',
  name: 'name_lower',
  created_at: 'created_at',
  updated_at: 'updated_at',
} as const

/** The conditions of the filters that are the same in both engines. */
export const COMPARISONS = {
  name: 'name_lower = @name',
  created_after: 'created_at > @created_after',
  created_before: 'created_at < @created_before',
  updated_after: 'updated_at > @updated_after',
  updated_before: 'updated_at < @updated_before',
} as const

/** Counts rows up to one more than MAX_SORTED_USERS. */
export function countFew(from: string, conditions: readonly string[]): string {
  const rows = `SELECT 1 FROM ${from}${whereSql(conditions)} LIMIT ${MAX_SORTED_USERS + 1}`
  return `SELECT count(*) FROM (${rows}) AS matches`
}

/** The WHERE clause; empty without conditions. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}

/** One condition for several, of which any holds. */
export function anyOf(conditions: readonly string[]): string {
  return `(${conditions.join(' OR ')})`
}

/** The columns of an order. No two users have the same e-mail, so their ids never decide it. */
export function columnsOf(by: UserSort['by'], key: string, id = 'id'): readonly string[] {
  if (by === 'id') return [id]
  return by === 'email' ? [key] : [key, id]
}

/** What follows ORDER BY. */
export function orderOf(columns: readonly string[], { descending }: UserSort): string {
  return columns.map(column => `${column} ${descending ? 'DESC' : 'ASC'}`).join(', ')
}

/**
 * Where to begin a list after a position: at its key, or at the bound of the filter by time if that is further on,
 * because the engines would read all users between the two. `least` and `greatest` are functions of SQL.
 */
export function startOf(
  { by, descending }: UserSort,
  filters: UserFilters,
  { key = '@key', least, greatest }: { key?: string; least: string; greatest: string },
): string {
  const bound = `${by.replace('_at', '')}_${descending ? 'before' : 'after'}` as FilterName
  if (filters[bound] === undefined) return key
  return `${descending ? least : greatest}(${key}, @${bound})`
}
