import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Sliced } from '../../../src/storage/sqlite/sliced.ts'
import type { SlicedList } from '../../../src/storage/sqlite/sliced-list.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createWordIndex } from '../../../src/storage/sqlite/word-index.ts'
import { MAX_NAME_CHARS } from '../../../src/users/user.ts'
import { SORT_KEYS, type UserQuery } from '../../../src/users/user-repository.ts'
import { areBegun, wordsOfUser } from '../../../src/users/words.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { byCodePoints, type ShownUser } from '../../support/user-order.ts'

const NOON = Date.parse('2026-01-31T12:00:00.000Z')

export const USERS = 6000

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`

/** The first 1000 users, and how many there are. */
export const ALL: UserQuery = {
  sort: { by: 'id', descending: false },
  filters: {},
  words: [],
  limit: 1000,
  start: { offset: 0 },
  withTotal: true,
}

/** A database of many users whose ids are far apart: half are Ann, half are Bob, few are both, and all have a long common word. */
export async function openManyUsers(): Promise<Database> {
  const database = await openSqlite({ path: join(temporaryFolder(), 'users.db'), now: Date.now })
  onTestFinished(() => {
    database.close()
  })
  const insert = database.prepare(INSERT)
  const index = createWordIndex(database)
  const fill = database.transaction(() => {
    for (let count = 1; count <= USERS; count++) {
      const name = nameOf(count)
      const email = `commonbutlong${count % 100 === 0 ? 'est' : 'er'}.u${(count * 7919) % USERS}x${count}@x.co`
      const time = at((count * 37) % USERS)
      const id = idOf(count)
      insert.run(id, name, name.toLowerCase(), email, time, at((count * 53) % USERS))
      index.add(id, { name, email })
    }
  })
  fill()
  return database
}

function idOf(count: number): number {
  if (count < USERS / 2) return count
  return count < USERS ? count ** 4 : Number.MAX_SAFE_INTEGER
}

/** Some names are greater than all other texts. */
function nameOf(count: number): string {
  if (count % 1500 === 7) return 'Ann Bob'
  if (count % 1500 === 8) return '\u{10ffff}'.repeat(count === 8 ? MAX_NAME_CHARS : 3)
  return `${count % 2 === 0 ? 'Ann' : 'Bob'} ${'zyx'[count % 3]}${count % 50}`
}

/** The result of slices, and how often they paused. */
export function finish<T>(work: Sliced<T>): { readonly value: T; readonly pauses: number } {
  for (let pauses = 0; ; pauses++) {
    const step = work.next()
    if (step.done) return { value: step.value, pauses }
  }
}

const SELECT_ALL = `SELECT id, name, email, created_at, updated_at FROM users`

export const at = (ms: number) => new Date(NOON + ms).toISOString()

export const FILTERS: readonly UserQuery['filters'][] = [
  {},
  { name: 'ann bob' },
  { name: 'ann z0' },
  { email: `commonbutlongest.u${(300 * 7919) % USERS}x300@x.co` },
  { created_after: at(20), created_before: at(60) },
  { created_after: at(500) },
  { created_after: at(5000) },
  { updated_before: at(100), created_after: at(20) },
  { updated_after: at(4900) },
  { updated_after: at(2000), created_before: at(4000) },
]

/**
 * Expects of each query, in each order and from several places, the users that a scan of the table finds. Returns the most pauses
 * of a list.
 */
export function expectScanned(
  database: Database,
  list: SlicedList,
  queries: readonly Pick<UserQuery, 'words' | 'filters'>[],
): number {
  const users = database.prepare<[], ShownUser>(SELECT_ALL).all()
  let mostPauses = 0
  for (const { words, filters } of queries) {
    const matches = users.filter(user => isIn(user, { words, filters }))
    for (const by of SORT_KEYS) {
      for (const descending of [false, true]) {
        const sort = { by, descending }
        const ids = matches.toSorted(byCodePoints(sort)).map(({ id }) => id)
        const query = { ...ALL, words, filters, sort, limit: 700 }
        const first = finish(list(query))
        mostPauses = Math.max(mostPauses, first.pauses)
        expect(first.value.total).toBe(ids.length)
        expect(idsOf(first.value.json)).toEqual(ids.slice(0, 700))
        const { next } = first.value
        expect(next?.id).toBe(ids.length > 700 ? ids[699] : undefined)
        if (next !== undefined) {
          const second = finish(list({ ...query, start: next, withTotal: false })).value
          expect(idsOf(second.json)).toEqual(ids.slice(700, 1400))
        }
        // Filters may change between two pages, so that a cursor may be outside of their range.
        const pivot = users.toSorted(byCodePoints(sort))[USERS / 3] as ShownUser
        const behind = matches.filter(user => byCodePoints(sort)(user, pivot) > 0)
        const start = { key: by === 'id' ? '' : String(pivot[by]).toLowerCase(), id: pivot.id }
        if (by.endsWith('_at')) start.key = String(pivot[by])
        const outside = finish(list({ ...query, start, limit: 5 })).value
        expect(idsOf(outside.json)).toEqual(
          behind
            .toSorted(byCodePoints(sort))
            .slice(0, 5)
            .map(({ id }) => id),
        )
        for (const offset of [40, 2500]) {
          const paged = finish(list({ ...query, start: { offset }, limit: 3 })).value
          expect(idsOf(paged.json)).toEqual(ids.slice(offset, offset + 3))
          expect(paged.total).toBe(ids.length)
        }
      }
    }
  }
  return mostPauses
}

function isIn(user: ShownUser, { filters, words }: Pick<UserQuery, 'words' | 'filters'>): boolean {
  return (
    areBegun(wordsOfUser(user), words) &&
    (filters.name === undefined || user.name.toLowerCase() === filters.name) &&
    (filters.email === undefined || user.email === filters.email) &&
    (filters.created_after === undefined || user.created_at > filters.created_after) &&
    (filters.created_before === undefined || user.created_at < filters.created_before) &&
    (filters.updated_after === undefined || user.updated_at > filters.updated_after) &&
    (filters.updated_before === undefined || user.updated_at < filters.updated_before)
  )
}

function idsOf(json: string): number[] {
  return JSON.parse(json).map(({ id }: { id: number }) => id)
}
