import { ServiceError } from '../../errors.ts'
import type { UserPage, UserQuery } from '../../users/user-repository.ts'
import { chooseIndex, indexesOf, MAX_SORTED_USERS } from './list-plan.ts'
import { type LongReads, steadyMs } from './long-reads.ts'
import { countFewSql, filterValues, type ListRow, listStatement, pageOf } from './user-list-sql.ts'
import { matchOf } from './word-index.ts'

/** More would wait too long: one of them may take seconds. */
const MAX_WAITING = 20

/** From the call on. Clients and proxies give up after some time, and a list that nobody waits for keeps others waiting. */
const MAX_LIST_MS = 20_000

/**
 * Returns a function that makes lists that may read many users, each in one statement. It throws `overloaded` if too many
 * wait or one takes too long, and `words_unavailable` if the index lacks users.
 */
export function createLongLists(reads: LongReads): (query: UserQuery) => Promise<UserPage> {
  let waiting = 0

  async function indexFor(query: UserQuery, deadline: number) {
    const { filters, words } = query
    if (words.length > 0 || indexesOf(filters).length === 0) return undefined
    const values = { ...filterValues(filters), most: MAX_SORTED_USERS + 1 }
    const counts = await reads.first({ sql: countFewSql(filters), values, deadline })
    return chooseIndex(query, counts as number[])
  }

  async function make(query: UserQuery): Promise<UserPage> {
    const deadline = steadyMs() + MAX_LIST_MS
    const index = await indexFor(query, deadline)
    const { filters, words, limit, start } = query
    const values = { ...filterValues(filters), limit, offset: 0, ...start, match: matchOf(words) }
    const sql = listStatement(query, { isLong: true, index }).sql()
    const row = (await reads.first({ sql, values, deadline })) as ListRow
    if (row[5] === 0) throw new ServiceError('words_unavailable')
    return pageOf(row, query)
  }

  return async query => {
    if (waiting >= MAX_WAITING) throw new ServiceError('overloaded')
    waiting++
    try {
      return await make(query)
    } finally {
      waiting--
    }
  }
}
