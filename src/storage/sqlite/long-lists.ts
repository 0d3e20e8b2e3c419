import { ServiceError } from '../../errors.ts'
import type { UserPage, UserQuery, UserReads, UserSelection } from '../../users/user-repository.ts'
import { createCallGate, through } from '../call-gate.ts'
import { chooseIndex, indexesOf, MAX_SORTED_USERS, namesOf, soughtOf } from './list-plan.ts'
import { type LongReads, steadyMs } from './long-reads.ts'
import {
  countFewSql,
  filterValues,
  type ListRow,
  listStatement,
  pageOf,
  walkSql,
} from './user-list-sql.ts'
import { ARE_WORDS_INDEXED, matchOf } from './word-index.ts'

/** More would wait too long: one of them may take seconds. */
const MAX_WAITING = 20

/** From the call on. Clients and proxies give up after some time, and a list that nobody waits for keeps others waiting. */
const MAX_LIST_MS = 20_000

/** Lists that may read many users. */
export interface LongLists extends Pick<UserReads, 'walk'> {
  /** Throws `overloaded` if too many wait or one takes too long, and `words_unavailable` if the index lacks users. */
  page(query: UserQuery): Promise<UserPage>
}

/** Makes each list in one statement. */
export function createLongLists(reads: LongReads): LongLists {
  async function indexFor(query: UserSelection, deadline: number) {
    const { filters, words } = query
    const isFew = soughtOf(namesOf(filters)) !== undefined
    if (words.length > 0 || isFew || indexesOf(filters).length === 0) return undefined
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

  return {
    page: through(createCallGate(MAX_WAITING), make),

    walk: async (selection, take) => {
      const { filters, words } = selection
      // Without words, the first users come soon.
      const deadline = words.length > 0 ? steadyMs() + MAX_LIST_MS : Number.POSITIVE_INFINITY
      const sql = walkSql(selection, await indexFor(selection, deadline))
      const values = { ...filterValues(filters), match: matchOf(words) }
      const condition = words.length > 0 ? ARE_WORDS_INDEXED : 'SELECT 1'
      const hasWalked = await reads.walk({ sql, values, deadline, condition }, take)
      if (!hasWalked) throw new ServiceError('words_unavailable')
    },
  }
}
