import { ServiceError } from '../errors.ts'
import { lastIdOf, withoutLastUser } from '../users/stored-user.ts'
import type { UserPage, UserQuery, UserSelection } from '../users/user-repository.ts'
import { type Criterion, fewOf, isPageOfIndex, MAX_SORTED_USERS } from './list-plan.ts'
import {
  countsStatement,
  type ListDialect,
  type ListRow,
  pageStatement,
  wholeStatement,
} from './list-statements.ts'
import { type Asked, ask, type Program } from './programs.ts'

/** What lists of users do on an engine. Throw `words_unavailable` if users lack words. */
export function createListPrograms(dialect: ListDialect) {
  function* requireWords({ words }: UserSelection): Program<void> {
    if (words.length === 0) return
    const [[areIndexed] = [false]] = yield* ask(dialect.selectAreWordsIndexed)
    if (!areIndexed) throw new ServiceError('words_unavailable')
  }

  function* readPage(
    query: UserQuery,
    first: readonly Criterion[],
    isShort = false,
  ): Program<UserPage> {
    const { sql, values } = pageStatement(dialect, query, { first, isShort })
    const [row] = yield* ask<ListRow>(sql, values)
    return pageOf(row as ListRow, query)
  }

  /** The criteria whose users are found first. They are few: sorting them is faster than skipping all others. */
  function* findFirst(selection: UserSelection): Program<readonly Criterion[]> {
    const few = fewOf(selection)
    const counted = few.length > 0 ? [] : dialect.criteriaToCount(selection)
    if (counted.length === 0) return few
    const { sql, values } = countsStatement(dialect, selection, counted)
    const [counts = []] = yield* ask<number[]>(sql, values)
    const least = Math.min(...counts)
    return (least <= MAX_SORTED_USERS && counted[counts.indexOf(least)]) || []
  }

  return {
    /** Whether a page reads few users, whatever the values are. */
    isShort: (query: UserQuery) => isPageOfIndex(query, dialect.maxSkipped),

    /** Asks whether all users have their words, if the list needs them. */
    requireWords,

    readShort: (query: UserQuery) => readPage(query, fewOf(query), true),

    *readLong(query: UserQuery): Program<UserPage> {
      const first = yield* findFirst(query)
      const page = yield* readPage(query, first)
      const isDone = page.next !== undefined || !dialect.areWordsFar(query, first)
      return isDone ? page : yield* readPage(query, ['words'])
    },

    /** The statement of a whole list. Words that are far are all found before the first user is sent. */
    *planWhole(selection: UserSelection): Program<Asked> {
      const first = yield* findFirst(selection)
      const areFar = dialect.areWordsFar(selection, first)
      return wholeStatement(dialect, selection, areFar ? ['words'] : first)
    },
  }
}

function pageOf(row: ListRow, { limit }: UserQuery): UserPage {
  const [json, length, revision, count, lastKey, areWordsIndexed] = row
  if (!areWordsIndexed) throw new ServiceError('words_unavailable')
  const total = count ?? undefined
  if (length <= limit) return { json, next: undefined, total, revision }
  const page = withoutLastUser(json)
  return { json: page, next: { key: lastKey ?? '', id: lastIdOf(page) }, total, revision }
}
