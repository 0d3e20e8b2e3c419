import { MAX_NAME_CHARS } from '../../users/user.ts'
import type { Position, UserFilters, UserQuery } from '../../users/user-repository.ts'
import { comparePositions } from './compare-positions.ts'
import { createIdWindows, type IdRange } from './id-windows.ts'
import type { Database, Statement } from './sqlite-driver.ts'
import { rememberStatements } from './sqlite-statements.ts'
import { namesOf } from './user-list-sql.ts'
import { lookupOf } from './word-prefixes.ts'
import {
  type Candidate,
  type CandidateShape,
  COUNT_WORD_IDS,
  type IndexedColumn,
  SELECT_LAST_ID,
  walkCandidatesSql,
  wordCandidatesSql,
} from './word-search-sql.ts'

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

interface Walk {
  readonly column: IndexedColumn
  readonly descending: boolean
  readonly isInOrder: boolean
  /** Where to begin: after this place, or at the first user. */
  readonly from?: Position | undefined
  /** Whether only users with the key of `from` are candidates. */
  readonly isPoint?: boolean
  /** Whether no user with this key of the column or after it is a candidate. */
  readonly isPast?: ((key: string) => boolean) | undefined
}

/** Forms of statements of a reader. */
const MAX_PREPARED_FORMS = 100

/** Before the first id, and after the last one. */
export const NO_ID = 0
export const END_ID = Number.MAX_SAFE_INTEGER + 1

const RANGES = {
  created_at: { after: 'created_after', before: 'created_before' },
  updated_at: { after: 'updated_after', before: 'updated_before' },
} as const

const RANGE_COLUMNS = ['created_at', 'updated_at'] as const

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
    const { column, descending, isInOrder, from, isPoint = false, isPast } = options
    const { sort, filters } = query
    const shape = { sortBy: sort.by, filters: namesOf(filters), descending, hasText: true }
    const select = statementOf(`${column} ${isPoint}`, shape, () =>
      walkCandidatesSql(shape, { column, isPoint }),
    )
    let at = from ?? (descending ? { key: AFTER_ALL_KEYS, id: END_ID } : { key: '', id: NO_ID })
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
      const walks = walksOf(query).map(each => walk(query, each))
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

/** Greater than any name, e-mail or time: no character is greater, and no name is longer. */
const AFTER_ALL_KEYS = '\u{10ffff}'.repeat(MAX_NAME_CHARS + 1)

/** Reads of indexes of columns: those of filters, and that in whose order the list is. */
function walksOf(query: UserQuery): readonly Walk[] {
  const { sort, filters } = query
  const ofName = filters.name === undefined ? [] : [walkOfName(query, filters.name)]
  const columns = RANGE_COLUMNS.filter(column => column === sort.by || hasRange(filters, column))
  const ofRanges = columns.map(column => walkOfRange(query, column))
  const isSortWalked =
    sort.by === 'id' ||
    (sort.by === 'name' && filters.name !== undefined) ||
    columns.some(column => column === sort.by)
  return [...ofName, ...ofRanges, ...(isSortWalked ? [] : [walkInOrder(query)])]
}

/** One user at most. */
function walkOfEmail(email: string): Walk {
  const from = { key: email, id: NO_ID }
  return { column: 'email', descending: false, isInOrder: false, from, isPoint: true }
}

/** All users with a name are in the order of their ids. */
function walkOfName({ sort, start }: UserQuery, name: string): Walk {
  const isInOrder = sort.by === 'id' || sort.by === 'name'
  const descending = isInOrder && sort.descending
  const first = { key: name, id: descending ? END_ID : NO_ID }
  const position = isInOrder && 'id' in start ? start : undefined
  const place = position && { key: sort.by === 'id' ? name : position.key, id: position.id }
  const from = place ? laterOf(first, place, descending) : first
  // A list by name that is past this name has no more users.
  const isPast = (key: string) => key !== name
  return { column: 'name', descending, isInOrder, from, isPoint: true, isPast }
}

function walkOfRange({ sort, filters, start }: UserQuery, column: keyof typeof RANGES): Walk {
  const isInOrder = sort.by === column
  const descending = isInOrder && sort.descending
  const after = filters[RANGES[column].after]
  const before = filters[RANGES[column].before]
  // Bounds are exclusive.
  const [bound, end] = descending ? [before, after] : [after, before]
  const first = bound === undefined ? undefined : { key: bound, id: descending ? NO_ID : END_ID }
  const position = isInOrder && 'id' in start ? start : undefined
  const from = first && position ? laterOf(first, position, descending) : (position ?? first)
  const isPast =
    end === undefined ? undefined : (key: string) => (descending ? key <= end : key >= end)
  return { column, descending, isInOrder, from, isPast }
}

function walkInOrder({ sort, start }: UserQuery): Walk {
  const from = 'id' in start ? start : undefined
  return { column: sort.by as IndexedColumn, descending: sort.descending, isInOrder: true, from }
}

function hasRange(filters: UserFilters, column: keyof typeof RANGES): boolean {
  const { after, before } = RANGES[column]
  return filters[after] !== undefined || filters[before] !== undefined
}

function laterOf(one: Position, other: Position, descending: boolean): Position {
  const isLater = comparePositions(other, one) * (descending ? -1 : 1) > 0
  return isLater ? other : one
}
