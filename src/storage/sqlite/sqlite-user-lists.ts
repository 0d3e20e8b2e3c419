import { ServiceError } from '../../errors.ts'
import type { UserPage, UserQuery, UserReads, UserSelection } from '../../users/user-repository.ts'
import { createCallGate, through } from '../call-gate.ts'
import { ARE_WORDS_INDEXED } from '../index-next-users.ts'
import {
  chooseIndex,
  indexesOf,
  isPageOfIndex,
  MAX_SORTED_USERS,
  namesOf,
  soughtOf,
} from '../list-plan.ts'
import { type LongLists, type LongReads, steadyMs } from './long-reads.ts'
import { rememberStatements, type SqliteParts } from './sqlite-statements.ts'
import {
  countFewSql,
  filterValues,
  type ListRow,
  listStatement,
  pageOf,
  walkSql,
} from './user-list-sql.ts'
import { matchOf } from './word-index.ts'

/** Skipping this many users takes about a millisecond. */
const MAX_SKIPPED_USERS = 10_000

/** Long lists. More would wait too long: one of them may take seconds. */
const MAX_WAITING = 20

/** From the call on. Clients and proxies give up after some time, and a list that nobody waits for keeps others waiting. */
const MAX_LIST_MS = 20_000

/** The reads of one list, all of which end at the deadline. */
interface Reading {
  readonly reads: LongReads
  readonly deadline: number
}

/**
 * Lists of the table `users` of SQLite, each in one statement. One that reads few users takes less than a millisecond, and is
 * read at once. The caller closes `longLists`, before the database.
 */
export function createSqliteUserLists(
  { database, view }: Pick<SqliteParts, 'database' | 'view'>,
  longLists: LongLists,
): Pick<UserReads, 'list' | 'walk'> {
  const prepared = rememberStatements(database)
  const areWordsIndexed = database.prepare<[], 0 | 1>(ARE_WORDS_INDEXED).pluck()
  const listLong = through(createCallGate(MAX_WAITING), (query: UserQuery) => {
    const deadline = steadyMs() + MAX_LIST_MS
    return longLists.run('page', reads => readLong(query, { reads, deadline }))
  })

  function readAtOnce(query: UserQuery): UserPage {
    const { filters, limit, start } = query
    const { form, sql } = listStatement(query, { isLong: false })
    const values = { ...filterValues(filters), limit, offset: 0, ...start }
    return pageOf(prepared(form, sql).raw().get(values) as ListRow, query)
  }

  async function readLong(query: UserQuery, { reads, deadline }: Reading): Promise<UserPage> {
    const index = await indexFor(query, { reads, deadline })
    const { filters, words, limit, start } = query
    const values = { ...filterValues(filters), limit, offset: 0, ...start, match: matchOf(words) }
    const sql = listStatement(query, { isLong: true, index }).sql()
    const row = (await reads.first({ sql, values, deadline })) as ListRow
    if (row[5] === 0) throw new ServiceError('words_unavailable')
    return pageOf(row, query)
  }

  async function indexFor(query: UserSelection, { reads, deadline }: Reading) {
    const { filters, words } = query
    const isFew = soughtOf(namesOf(filters)) !== undefined
    if (words.length > 0 || isFew || indexesOf(filters).length === 0) return undefined
    const values = { ...filterValues(filters), most: MAX_SORTED_USERS + 1 }
    const counts = await reads.first({ sql: countFewSql(filters), values, deadline })
    return chooseIndex(query, counts as number[])
  }

  return {
    list: async query => {
      if (isPageOfIndex(query, MAX_SKIPPED_USERS)) return view.read(() => readAtOnce(query))
      if (query.words.length > 0 && (await view.read(() => areWordsIndexed.get())) !== 1) {
        throw new ServiceError('words_unavailable')
      }
      return listLong(query)
    },

    walk: async (selection, take) => {
      const { filters, words } = selection
      // Without words, the first users come soon.
      const deadline = words.length > 0 ? steadyMs() + MAX_LIST_MS : Number.POSITIVE_INFINITY
      const values = { ...filterValues(filters), match: matchOf(words) }
      const condition = words.length > 0 ? ARE_WORDS_INDEXED : 'SELECT 1'
      const hasWalked = await longLists.run('whole', async reads => {
        const sql = walkSql(selection, await indexFor(selection, { reads, deadline }))
        return reads.walk({ sql, values, deadline, condition }, take)
      })
      if (!hasWalked) throw new ServiceError('words_unavailable')
    },
  }
}
