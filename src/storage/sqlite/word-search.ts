import type { Position, UserQuery } from '../../users/user-repository.ts'
import { areBegun, wordsOfUser } from '../../users/words.ts'
import {
  type CandidateReader,
  createCandidateReaders,
  type WordCounter,
} from './candidate-readers.ts'
import type { Candidate } from './candidates-sql.ts'
import { comparePositions } from './compare-positions.ts'
import { race, type Sliced } from './sliced.ts'
import {
  createSlicedList,
  type Finder,
  offsetOf,
  type SlicedList,
  sortFound,
} from './sliced-list.ts'
import type { Database } from './sqlite-driver.ts'

/** Candidates that are read and tested in about a millisecond. */
const SLICE_USERS = 400

/** Users that are counted in about a millisecond. */
const SLICE_COUNTED = 10_000

/** Users up to the last one of a page are kept and sorted, unless they are more than this. */
const MAX_KEPT = 2000

/**
 * Lists of users that are found by words. No index has both the words and the order of a list. So several ways to read the
 * candidates take turns, and the first one that has the page ends the search: it takes at most as many times the time of the
 * best way as there are ways.
 */
export function createWordSearch(database: Database): SlicedList {
  const readers = createCandidateReaders(database)

  function* count(query: UserQuery): Sliced<number> {
    const counter = readers.openCounter(query)
    if (counter !== undefined) return yield* countWords(counter)
    const all = { ...query, sort: { by: 'id', descending: false }, start: { offset: 0 } } as const
    return yield* race(readers.open(all).map(reader => countUsers(all, reader)))
  }

  return createSlicedList(database, {
    find: query => race(findersOf(query, readers.open(query))),
    count,
  })
}

function findersOf(query: UserQuery, readers: readonly CandidateReader[]): readonly Finder[] {
  const keptUsers = offsetOf(query) + query.limit + 1
  const hasOrdered = readers.some(({ isInOrder }) => isInOrder)
  return readers
    .filter(({ isInOrder }) => isInOrder || !hasOrdered || keptUsers <= MAX_KEPT)
    .map(reader => (reader.isInOrder ? findInOrder(query, reader) : findInAnyOrder(query, reader)))
}

/** Up to one user more than the limit, read in the order of the list. */
function* findInOrder(query: UserQuery, reader: CandidateReader): Finder {
  const { limit } = query
  const isMatch = createTest(query, reader)
  const found: Position[] = []
  let skipped = offsetOf(query)
  let sliceUsers = Math.min(limit + 1 + skipped, SLICE_USERS)
  for (;;) {
    for (const candidate of reader.next(sliceUsers)) {
      if (!isMatch(candidate)) continue
      if (skipped-- > 0) continue
      found.push(positionOf(candidate))
      if (found.length > limit) return found
    }
    if (reader.isAtEnd()) return found
    yield
    sliceUsers = SLICE_USERS
  }
}

/** The same from candidates in any order: all of them are read. */
function findInAnyOrder(query: UserQuery, reader: CandidateReader): Finder {
  const { start, sort } = query
  const isMatch = createTest(query, reader)
  const sign = sort.descending ? -1 : 1
  const isAfterStart = (position: Position) =>
    !('id' in start) || comparePositions(position, start) * sign > 0
  return sortFound(query, () => {
    const positions = reader.next(SLICE_USERS).filter(isMatch).map(positionOf)
    return { found: positions.filter(isAfterStart), isLast: reader.isAtEnd() }
  })
}

function* countUsers(query: UserQuery, reader: CandidateReader): Sliced<number> {
  const isMatch = createTest(query, reader)
  let counted = 0
  for (;;) {
    for (const candidate of reader.next(SLICE_USERS)) if (isMatch(candidate)) counted++
    if (reader.isAtEnd()) return counted
    yield
  }
}

function* countWords(counter: WordCounter): Sliced<number> {
  let counted = 0
  for (;;) {
    counted += counter.next(SLICE_COUNTED)
    if (counter.isAtEnd()) return counted
    yield
  }
}

function createTest({ words }: UserQuery, { isExact }: CandidateReader) {
  return ([, , name, email, isInFilters]: Candidate): boolean =>
    isInFilters === 1 && (isExact || areBegun(wordsOfUser({ name, email }), words))
}

function positionOf([id, key]: Candidate): Position {
  return { key, id }
}
