import type { Position, UserPage, UserQuery } from '../../users/user-repository.ts'
import { SELECT_PAGE } from './candidates-sql.ts'
import { comparePositions } from './compare-positions.ts'
import { pastEmail } from './list-walks.ts'
import type { Sliced } from './sliced.ts'
import type { Database } from './sqlite-driver.ts'

/** A list that may read many users, with one connection. All of its slices must be in one transaction. */
export type SlicedList = (query: UserQuery) => Sliced<UserPage>

/** Finds users up to one more than the limit, from the start of the query on, in its order. */
export type Finder = Sliced<readonly Position[]>

/** Some of the users that match, and whether they are the last ones. */
export interface FoundSlice {
  readonly found: readonly Position[]
  readonly isLast: boolean
}

export interface SlicedListParts {
  /** The position of the last user of a page is where the next one begins. */
  find(query: UserQuery): Finder
  /** All users that match. */
  count(query: UserQuery): Sliced<number>
}

type PageRow = readonly [json: string, length: number, revision: string]

export function createSlicedList(database: Database, { find, count }: SlicedListParts): SlicedList {
  const selectPage = database.prepare<[{ ids: string }], PageRow>(SELECT_PAGE).raw()

  return function* list(asked) {
    const query = pastEmail(asked)
    const { limit, start } = query
    const found = yield* find(query)
    const offset = 'offset' in start ? start.offset : undefined
    const isAll =
      offset !== undefined && found.length <= limit && (offset === 0 || found.length > 0)
    const total = query.withTotal
      ? isAll
        ? offset + found.length
        : yield* count(query)
      : undefined
    const page = found.slice(0, limit)
    const ids = JSON.stringify(page.map(({ id }) => id))
    const [json, , revision] = selectPage.get({ ids }) as PageRow
    return { json, next: found.length > limit ? page.at(-1) : undefined, total, revision }
  }
}

/** Sorts all users that `next` finds in any order. None of them is before the start of the query. */
export function* sortFound(query: UserQuery, next: () => FoundSlice): Finder {
  const sign = query.sort.descending ? -1 : 1
  const byPosition = (one: Position, other: Position) => comparePositions(one, other) * sign
  const offset = offsetOf(query)
  const end = offset + query.limit + 1
  let kept: Position[] = []
  for (;;) {
    const { found, isLast } = next()
    kept.push(...found)
    if (isLast) return kept.sort(byPosition).slice(offset, end)
    if (kept.length > 2 * end) kept = kept.sort(byPosition).slice(0, end)
    yield
  }
}

/** How many users of a list are skipped before its page. */
export function offsetOf({ start }: UserQuery): number {
  return 'offset' in start ? start.offset : 0
}
