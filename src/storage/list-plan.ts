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
