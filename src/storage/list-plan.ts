import type { UserFilters, UserQuery, UserSelection, UserSort } from '../users/user-repository.ts'

/** The indexes of the filters that may match many users. */
export type FilterIndex = Exclude<UserSort['by'], 'id' | 'email'>

export type FilterName = keyof UserFilters

/** The column of each filter, which has an index. */
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

/** The filter that names few users, if there is one: they are found first, and all of them sorted. */
export function soughtOf(names: readonly FilterName[]): 'ids' | 'emails' | undefined {
  if (names.includes('ids')) return 'ids'
  return names.includes('emails') ? 'emails' : undefined
}

/** The indexes that find the users of the filters that may match many. */
export function indexesOf(filters: UserFilters): readonly FilterIndex[] {
  const columns = namesOf(filters).map(name => FILTER_COLUMNS[name])
  return [...new Set(columns)].filter(column => column !== 'id' && column !== 'email')
}

/** Whether an index has the users of its filter in the order of a sort. Those with one name are in the order of their ids. */
export function isInOrder(index: UserSort['by'], by: UserSort['by']): boolean {
  return index === by || (index === 'name' && by === 'id')
}

/** Whether an index gives the page as it is, after at most `mostSkipped` users. Other lists may read all users. */
export function isPageOfIndex(
  { sort, start, filters, words, withTotal }: UserQuery,
  mostSkipped: number,
): boolean {
  if (words.length > 0) return false
  if (soughtOf(namesOf(filters)) !== undefined) return true
  const [index, ...others] = indexesOf(filters)
  if ('offset' in start && start.offset > mostSkipped) return false
  return index === undefined || (isInOrder(index, sort.by) && others.length === 0 && !withTotal)
}

/**
 * No index gives the users of a filter in the order of another column. Returns the index with the fewest users, unless there
 * are too many of them to sort. `counts` is how many users each index of the filters has.
 */
export function chooseIndex(
  { filters }: UserSelection,
  counts: readonly number[],
): FilterIndex | undefined {
  const least = Math.min(...counts)
  return least <= MAX_SORTED_USERS ? indexesOf(filters)[counts.indexOf(least)] : undefined
}
