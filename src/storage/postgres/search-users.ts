import type { UserPage, UserQuery } from '../../users/user-repository.ts'
import { type ReadIndexedOptions, readIndexed } from './index-next-users.ts'
import { soughtOf, toPage } from './list-sql.ts'
import type { Connections } from './postgres-connections.ts'
import {
  offsetOf,
  type Reach,
  type SearchRow,
  searchFormOf,
  searchStatement,
  searchValuesOf,
} from './search-sql.ts'

/** The first walk of each search. It takes about a millisecond, and shows how many users have the words. */
const FIRST_REACH = { ofId: 2000, ofOthers: 500 }

/** What it costs to walk by a user, where gathering a user costs 1. Each walk by another sort looks up a second row. */
const WALK_COST = { ofId: 0.4, ofOthers: 0.8 }

/** So that the walk most probably finds the whole page. */
const SPARE = 2

const MAX_FORMS = 500

export interface UserSearcherOptions extends ReadIndexedOptions {
  readonly connections: Connections
}

/**
 * `UserRepository.list` with words. An index of words gives all its users in no order, and an index in the order of the list
 * knows no words. A word that many users have is found soon by walking in the order of the list; the users with a rare one
 * are gathered and sorted. So each search begins with a short walk, and what it finds decides.
 */
export function createUserSearcher(
  options: UserSearcherOptions,
): (query: UserQuery) => Promise<UserPage> {
  const { connections } = options
  const names = new Map<string, string>()
  let forms = 0

  function nameOf(form: string): string {
    const known = names.get(form)
    if (known !== undefined) return known
    if (names.size >= MAX_FORMS) names.clear()
    const name = `search_${++forms}`
    names.set(form, name)
    return name
  }

  async function run(query: UserQuery, reach: Reach, isLong: boolean): Promise<SearchRow> {
    // For what may read many users, PostgreSQL makes a plan for these words and filters.
    const name = isLong ? undefined : nameOf(searchFormOf(query, reach))
    const statement = { text: searchStatement(query, reach), ...(name && { name }) }
    const [row] = await connections.query<SearchRow>(statement, searchValuesOf(query), {
      lane: isLong ? 'long' : 'short',
    })
    return row as SearchRow
  }

  /** The row with the whole page. */
  async function find(query: UserQuery): Promise<SearchRow> {
    // Few users: no walk is shorter.
    if (soughtOf(query).length > 0) return run(query, 'gather', true)
    const firstReach = isById(query) ? FIRST_REACH.ofId : FIRST_REACH.ofOthers
    const first = await run(query, firstReach, query.withTotal)
    if (isWhole(first, query, firstReach)) return first
    const reach = reachFor(query, first, firstReach)
    if (reach !== undefined) {
      const walked = await run(query, reach, true)
      if (isWhole(walked, query, reach)) return walked
    }
    return run(query, 'gather', true)
  }

  return query =>
    readIndexed(options, async () => {
      const [json, length, lastKey, revision, total, , , , isIndexed] = await find(query)
      return isIndexed ? toPage([json, length, lastKey, revision, total], query) : undefined
    })
}

function isById({ sort }: UserQuery): boolean {
  return sort.by === 'id'
}

/** Whether the page is full, or the walk has come to the end of the list. */
function isWhole(row: SearchRow, { limit }: UserQuery, reach: number): boolean {
  const [, length, , , , , walked] = row
  return length > limit || (walked ?? 0) < reach
}

/** How far to walk; `undefined` if gathering is cheaper. */
function reachFor(query: UserQuery, first: SearchRow, firstReach: number): number | undefined {
  const [, , , , , found, , allUsers] = first
  if (found === 0) return undefined
  const part = found / firstReach
  const walked = (offsetOf(query).offset + query.limit + 1) / part
  const gathered = allUsers * part
  const cost = isById(query) ? WALK_COST.ofId : WALK_COST.ofOthers
  return walked * cost < gathered ? Math.ceil(walked * SPARE) : undefined
}
