import type { UserQuery } from '../../users/user-repository.ts'
import type { Database } from './sqlite-driver.ts'
import { rememberStatements } from './sqlite-statements.ts'
import { type IndexedFilter, indexedFiltersOf, matchesSql } from './user-list-sql.ts'

/** How a list without words is read. */
export interface ListPlan {
  /** Whether it may read many users. Then it is made in slices, and other requests are served in between. */
  readonly isWide: boolean
  /** If set, the users are found by the index of this filter, and all of them sorted. */
  readonly index?: IndexedFilter
}

/** At most this many users are sorted for one page, or counted. */
const MAX_SORTED_USERS = 10_000

/** Skipping this many users takes about a millisecond. */
const MAX_SKIPPED_USERS = 10_000

const MAX_PREPARED_FORMS = 20

const NARROW: ListPlan = { isWide: false }
const WIDE: ListPlan = { isWide: true }

/**
 * Returns a function that plans lists. No index gives the users of a filter in the order of another column. If they are few, it
 * is fastest to find them by the filter and sort them. If they are many, nobody knows beforehand whether the page is full sooner
 * in the order of the list, and either way may read most of the table.
 */
export function createListPlanner(database: Database): (query: UserQuery) => ListPlan {
  const prepared = rememberStatements(database, MAX_PREPARED_FORMS)

  function hasFew({ filters }: UserQuery, by: IndexedFilter): boolean {
    const sql = matchesSql(filters, by)
    const matches = prepared(sql, () => sql).pluck()
    return (matches.get({ ...filters, most: MAX_SORTED_USERS + 1 }) as number) <= MAX_SORTED_USERS
  }

  return query => {
    const { start, filters } = query
    // One user at most has an e-mail.
    if (filters.email !== undefined) return NARROW
    const isDeep = 'offset' in start && start.offset > MAX_SKIPPED_USERS
    const indexes = indexedFiltersOf(filters)
    if (!isDeep && isPageOfIndex(query, indexes)) return NARROW
    const index = indexes.find(by => hasFew(query, by))
    return index === undefined ? WIDE : { isWide: false, index }
  }
}

/** Whether one index gives the page as it is. */
function isPageOfIndex({ sort, withTotal }: UserQuery, indexes: readonly IndexedFilter[]): boolean {
  const [first, ...others] = indexes
  if (first === undefined) return true
  // Users with one name are in the order of their ids.
  const isInOrder = first === sort.by || (first === 'name' && sort.by === 'id')
  return isInOrder && others.length === 0 && !withTotal
}
