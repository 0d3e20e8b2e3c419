import type { Position, UserQuery } from '../../users/user-repository.ts'
import { walksOf } from './list-walks.ts'
import { race, type Sliced } from './sliced.ts'
import {
  createSlicedList,
  type Finder,
  offsetOf,
  type SlicedList,
  sortFound,
} from './sliced-list.ts'
import type { Database } from './sqlite-driver.ts'
import { countSql, namesOf } from './user-list-sql.ts'
import { createSliceReader, type UserSlice } from './user-slices.ts'

/**
 * Users up to the last one of a page that an index of another order keeps and sorts. With more, only the index of the order is
 * read. Sorting twice as many takes some 20 ms.
 */
const MAX_KEPT_USERS = 10_000

/**
 * Lists without words that may read many users before their page is full: those behind a high page number, and those of a
 * filter that has many users and another order than the list. The index of each filter and that of the order take turns, and
 * the first one that has the page ends the list.
 */
export function createWideList(database: Database): SlicedList {
  const read = createSliceReader(database)
  const countAll = database.prepare<[], number>(countSql([])).pluck()

  function findersOf(query: UserQuery): readonly Finder[] {
    const keptUsers = offsetOf(query) + query.limit + 1
    return walksOf(query)
      .filter(({ isInOrder }) => isInOrder || keptUsers <= MAX_KEPT_USERS)
      .map(walk => {
        const next = read(query, walk)
        return walk.isInOrder ? findInOrder(query, next) : findInAnyOrder(query, next)
      })
  }

  function* find(query: UserQuery): Finder {
    const isBehindAll = !hasFilters(query) && offsetOf(query) >= (countAll.get() as number)
    return isBehindAll ? [] : yield* race(findersOf(query))
  }

  function* count(query: UserQuery): Sliced<number> {
    if (!hasFilters(query)) return countAll.get() as number
    const all = { ...query, sort: { by: 'id', descending: false }, start: { offset: 0 } } as const
    const ofFilters = walksOf(all).filter(({ column }) => column !== 'id')
    return yield* race(ofFilters.map(walk => countMatches(read(all, walk))))
  }

  return createSlicedList(database, { find, count })
}

/** Reads users in the order of the list, from its start on. */
function* findInOrder(query: UserQuery, next: () => UserSlice): Finder {
  const { limit } = query
  const found: Position[] = []
  let skipped = offsetOf(query)
  for (;;) {
    const slice = next()
    const matches = skipped > 0 ? slice.count() : Number.POSITIVE_INFINITY
    if (matches > skipped) found.push(...slice.find(limit + 1 - found.length, skipped))
    skipped = Math.max(0, skipped - matches)
    if (found.length > limit || slice.isLast) return found
    yield
  }
}

/** Reads all users of a filter. */
function findInAnyOrder(query: UserQuery, next: () => UserSlice): Finder {
  const mostKept = offsetOf(query) + query.limit + 1
  return sortFound(query, () => {
    const slice = next()
    return { found: slice.find(mostKept, 0), isLast: slice.isLast }
  })
}

function* countMatches(next: () => UserSlice): Sliced<number> {
  let counted = 0
  for (;;) {
    const slice = next()
    counted += slice.count()
    if (slice.isLast) return counted
    yield
  }
}

function hasFilters({ filters }: UserQuery): boolean {
  return namesOf(filters).length > 0
}
