import type { Position, UserQuery } from '../../users/user-repository.ts'
import { type CandidateShape, walkCandidatesSql } from './candidates-sql.ts'
import { firstPlaceOf, type Walk } from './list-walks.ts'
import type { Database, Statement } from './sqlite-driver.ts'
import { rememberStatements } from './sqlite-statements.ts'
import { namesOf } from './user-list-sql.ts'

/** Users that follow each other in a walk. SQLite filters and sorts them in one statement. */
export interface UserSlice {
  /** How many of them match the filters. */
  count(): number
  /**
   * The positions of those that match, in the order of the list: up to `most`, after `skipped` of them. If the walk has
   * another order, only those after the start of the list.
   */
  find(most: number, skipped: number): readonly Position[]
  /** Whether no users follow that could match. */
  readonly isLast: boolean
}

/** Returns a function that returns the next slice of a walk each time. */
export type SliceReader = (query: UserQuery, walk: Walk) => () => UserSlice

/** Users that are read in about a millisecond. The first slices are smaller: a page may be full after a few users. */
const SLICE_USERS = 1024

/** So are those after a slice that took longer, because it had to wait for the disk. */
const SLICE_MS = 2

const LEAST_SLICE_USERS = 32

const MAX_PREPARED_FORMS = 100

type PositionRow = readonly [id: number, key: string]

export function createSliceReader(database: Database): SliceReader {
  const prepared = rememberStatements(database, MAX_PREPARED_FORMS)
  const prepareRows = (form: string, sql: () => string) =>
    prepared(form, sql).raw() as Statement<unknown[], PositionRow>

  return (query, walk) => {
    const { sort, start, limit, filters } = query
    const { column, descending, isPoint = false, isPast = () => false } = walk
    const names = namesOf(filters)
    const after =
      walk.isInOrder || !('id' in start) ? undefined : { afterKey: start.key, afterId: start.id }
    const candidates = (shape: Pick<CandidateShape, 'sortBy' | 'filters'>) =>
      walkCandidatesSql({ ...shape, descending, hasText: false }, { column, isPoint })
    const matches = () => candidates({ sortBy: sort.by, filters: names })
    const walked = `${column} ${descending} ${isPoint}`
    const form = `${walked} ${sort.by} ${sort.descending} ${after !== undefined} ${names}`
    const selectEnd = prepareRows(`end ${walked}`, () =>
      endSql(candidates({ sortBy: 'id', filters: [] })),
    )
    const countMatches = prepared(`count ${form}`, () => countSliceSql(matches())).pluck()
    const selectMatches = prepareRows(`find ${form}`, () =>
      findSliceSql(matches(), { isAfter: after !== undefined, descending: sort.descending }),
    )
    const first = firstPlaceOf(walk)
    let place = first
    let count = limit + 1
    let tookMs = 0
    const timed = <T>(work: () => T): T => {
      const startedAt = performance.now()
      const result = work()
      tookMs += performance.now() - startedAt
      return result
    }
    return () => {
      if (tookMs > SLICE_MS) count = Math.max(LEAST_SLICE_USERS, count >> 1)
      else if (place !== first) count = Math.min(count * 2, SLICE_USERS)
      tookMs = 0
      const users = { ...filters, ...place, count }
      const end = timed(() => selectEnd.get(users))
      const isLast = end === undefined || isPast(end[1])
      if (end !== undefined) place = positionOf(end)
      const allMatch = names.length === 0 && !isLast
      return {
        isLast,
        count: () => (allMatch ? users.count : timed(() => countMatches.get(users) as number)),
        find: (most, skipped) =>
          timed(() => selectMatches.all({ ...users, ...after, most, skipped })).map(positionOf),
      }
    }
  }
}

/** The last of `@count` candidates; no row if there are fewer. */
function endSql(candidates: string): string {
  return `SELECT id, walk_key FROM (${candidates}) LIMIT 1 OFFSET @count - 1`
}

function countSliceSql(candidates: string): string {
  return `SELECT count(*) FROM (${candidates}) WHERE is_in_filters`
}

/** With `isAfter` only those after the position `@afterKey` and `@afterId`. */
function findSliceSql(
  candidates: string,
  { isAfter, descending }: { readonly isAfter: boolean; readonly descending: boolean },
): string {
  const [beyond, direction] = descending ? ['<', 'DESC'] : ['>', 'ASC']
  const after = isAfter ? ` AND (sort_key, id) ${beyond} (@afterKey, @afterId)` : ''
  return `
    SELECT id, sort_key FROM (${candidates}) WHERE is_in_filters${after}
    ORDER BY sort_key ${direction}, id ${direction} LIMIT @most OFFSET @skipped`
}

function positionOf([id, key]: PositionRow): Position {
  return { key, id }
}
