import type { UserQuery } from '../../users/user-repository.ts'
import { type Candidate, type CandidateShape, walkCandidatesSql } from './candidates-sql.ts'
import { createIdWindows, type IdRange } from './id-windows.ts'
import { firstPlaceOf, NO_ID, type Walk, walkOfEmail, walksOf } from './list-walks.ts'
import type { Database, Statement } from './sqlite-driver.ts'
import { rememberStatements } from './sqlite-statements.ts'
import { namesOf } from './user-list-sql.ts'
import { lookupOf } from './word-index.ts'
import { COUNT_WORD_IDS, SELECT_LAST_ID, wordCandidatesSql } from './word-search-sql.ts'

/** One way to read all users that may match, a slice at a time. */
export interface CandidateReader {
  /** Whether candidates come in the order of the list, and only those after its start. */
  readonly isInOrder: boolean
  /** Whether all candidates match the words. */
  readonly isExact: boolean
  /** The next candidates, up to `count` of them. None may come although more follow. */
  next(count: number): readonly Candidate[]
  isAtEnd(): boolean
}

/** Counts users a slice at a time. */
export interface WordCounter {
  /** Counts up to `count` more users. */
  next(count: number): number
  isAtEnd(): boolean
}

export interface CandidateReaders {
  /** The ways to read the users that match a query, those with few candidates first. */
  open(query: UserQuery): readonly CandidateReader[]
  /** Counts the users that match a query without filters; undefined if the index of words does not tell which they are. */
  openCounter(query: UserQuery): WordCounter | undefined
}

/** Forms of statements of a reader. */
const MAX_PREPARED_FORMS = 100

export function createCandidateReaders(database: Database): CandidateReaders {
  const prepared = rememberStatements(database, MAX_PREPARED_FORMS)
  const selectLastId = database.prepare<[], number | null>(SELECT_LAST_ID).pluck()
  const countWordIds = database.prepare(COUNT_WORD_IDS).raw()

  function statementOf(kind: string, shape: CandidateShape, sql: () => string) {
    const form = `${kind} ${Object.values(shape)}`
    return prepared(form, sql).raw() as Statement<unknown[], Candidate>
  }

  function windowsOf(prefixes: number, descending: boolean, from?: number) {
    const last = selectLastId.get() ?? 0
    return createIdWindows({
      descending,
      from: from ?? (descending ? last + 1 : NO_ID),
      end: descending ? 1 : last,
      isOne: prefixes === 1,
    })
  }

  function readWords(query: UserQuery): CandidateReader {
    const { sort, words, start } = query
    const isInOrder = sort.by === 'id'
    const descending = isInOrder && sort.descending
    const { match, prefixes, isExact } = lookupOf(words)
    const from = isInOrder && 'id' in start ? start.id : undefined
    const windows = windowsOf(prefixes, descending, from)
    const filters = namesOf(query.filters)
    const shape = { sortBy: sort.by, filters, descending, hasText: !isExact }
    const select = statementOf('words', shape, () => wordCandidatesSql(shape))
    return {
      isInOrder,
      isExact,
      isAtEnd: windows.isAtEnd,
      next: count => {
        let found: readonly Candidate[] = []
        windows.next(range => {
          found = select.all({ ...query.filters, ...range, match, count })
          return found.length < count ? undefined : found.at(-1)?.[0]
        })
        return found
      },
    }
  }

  function walk(query: UserQuery, options: Walk): CandidateReader {
    const { column, descending, isInOrder, isPoint = false, isPast } = options
    const { sort, filters } = query
    const shape = { sortBy: sort.by, filters: namesOf(filters), descending, hasText: true }
    const select = statementOf(`${column} ${isPoint}`, shape, () =>
      walkCandidatesSql(shape, { column, isPoint }),
    )
    let at = firstPlaceOf(options)
    let isAtEnd = false
    return {
      isInOrder,
      isExact: false,
      isAtEnd: () => isAtEnd,
      next: (count: number) => {
        const found = select.all({ ...filters, key: at.key, id: at.id, count })
        const end = isPast === undefined ? -1 : found.findIndex(([, , , , , key]) => isPast(key))
        isAtEnd = end >= 0 || found.length < count
        const last = found.at(-1)
        if (last !== undefined) at = { key: last[5], id: last[0] }
        return end < 0 ? found : found.slice(0, end)
      },
    }
  }

  return {
    open: query => {
      const { email } = query.filters
      if (email !== undefined) {
        return [walk(query, walkOfEmail(email))]
      }
      // The index of words is in the order of ids.
      const columns = walksOf(query).filter(({ column }) => column !== 'id')
      const walks = columns.map(each => walk(query, each))
      const ordered = walks.filter(({ isInOrder }) => isInOrder)
      const unordered = walks.filter(({ isInOrder }) => !isInOrder)
      return [...unordered, readWords(query), ...ordered]
    },
    openCounter: ({ words, filters }) => {
      const { match, prefixes, isExact } = lookupOf(words)
      if (!isExact || namesOf(filters).length > 0) return undefined
      const windows = windowsOf(prefixes, false)
      return {
        isAtEnd: windows.isAtEnd,
        next: count => {
          let found = 0
          windows.next((range: IdRange) => {
            const row = countWordIds.get({ ...range, match, count }) as [number, number]
            found = row[0]
            return found < count ? undefined : row[1]
          })
          return found
        },
      }
    },
  }
}
