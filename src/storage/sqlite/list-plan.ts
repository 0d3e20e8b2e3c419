import type { UserFilters, UserQuery, UserSort } from '../../users/user-repository.ts'

/** The indexes that find the users of filters. */
export type FilterIndex = Exclude<UserSort['by'], 'id'>

export type FilterName = keyof UserFilters

/** The column of each filter, which has an index. */
export const FILTER_COLUMNS: Readonly<Record<FilterName, FilterIndex>> = {
  email: 'email',
  name: 'name',
  created_after: 'created_at',
  created_before: 'created_at',
  updated_after: 'updated_at',
  updated_before: 'updated_at',
}

const FILTER_NAMES = Object.keys(FILTER_COLUMNS) as readonly FilterName[]

/** Skipping this many users takes about a millisecond. */
const MAX_SKIPPED_USERS = 10_000

/** So many users of a filter are found and sorted in 2 to 20 ms. With more, the page is full soon in the order of the list. */
export const MAX_SORTED_USERS = 10_000

/** The filters that are given. */
export function namesOf(filters: UserFilters): readonly FilterName[] {
  return FILTER_NAMES.filter(name => filters[name] !== undefined)
}

/** The indexes that find the users of some of these filters. */
export function indexesOf(filters: UserFilters): readonly FilterIndex[] {
  return [...new Set(namesOf(filters).map(name => FILTER_COLUMNS[name]))]
}

/** Whether an index has the users of its filter in the order of a sort. Those with one name are in the order of their ids. */
export function isInOrder(index: FilterIndex, by: UserSort['by']): boolean {
  return index === by || (index === 'name' && by === 'id')
}

/** Whether an index gives the page as it is. Other lists may read all users. */
export function isPageOfIndex({ sort, start, filters, words, withTotal }: UserQuery): boolean {
  if (words.length > 0) return false
  const [index, ...others] = indexesOf(filters)
  // One user at most has an e-mail.
  if (index === 'email') return true
  if ('offset' in start && start.offset > MAX_SKIPPED_USERS) return false
  return index === undefined || (isInOrder(index, sort.by) && others.length === 0 && !withTotal)
}

/**
 * No index gives the users of a filter in the order of another column. Returns the index with the fewest users, if they are so
 * few that all of them can be sorted. `counts` is how many users each index of the filters has.
 */
export function chooseIndex(
  { filters }: UserQuery,
  counts: readonly number[],
): FilterIndex | undefined {
  const least = Math.min(...counts)
  return least <= MAX_SORTED_USERS ? indexesOf(filters)[counts.indexOf(least)] : undefined
}
