import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Sliced } from '../../../src/storage/sqlite/sliced.ts'
import type { SlicedList } from '../../../src/storage/sqlite/sliced-list.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createWordIndex } from '../../../src/storage/sqlite/word-index.ts'
import { MAX_NAME_CHARS } from '../../../src/users/user.ts'
import {
  type Position,
  SORT_KEYS,
  type UserQuery,
  type UserSort,
} from '../../../src/users/user-repository.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { byCodePoints, type ShownUser } from '../../support/user-order.ts'
import { ALL, at, idsOf, isAsked } from '../../support/user-scan.ts'

export const USERS = 6000

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`

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
  const orders = SORT_KEYS.flatMap(by =>
    [false, true].map(descending => {
      const sort = { by, descending }
      return { sort, sorted: users.toSorted(byCodePoints(sort)) }
    }),
  )
  let mostPauses = 0
  for (const asked of queries) {
    for (const { sort, sorted } of orders) {
      const idsFrom = (place: number) =>
        sorted.slice(place).flatMap(user => (isAsked(user, asked) ? [user.id] : []))
      const ids = idsFrom(0)
      const query = { ...ALL, ...asked, sort, limit: 700 }
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
      const start = positionOf(sorted[USERS / 3] as ShownUser, sort)
      const outside = finish(list({ ...query, start, limit: 5 })).value
      expect(idsOf(outside.json)).toEqual(idsFrom(USERS / 3 + 1).slice(0, 5))
      for (const offset of [40, 2500]) {
        const paged = finish(list({ ...query, start: { offset }, limit: 3 })).value
        expect(idsOf(paged.json)).toEqual(ids.slice(offset, offset + 3))
        expect(paged.total).toBe(ids.length)
      }
    }
  }
  return mostPauses
}

function positionOf(user: ShownUser, { by }: UserSort): Position {
  const text = String(user[by])
  const key = by === 'id' ? '' : by.endsWith('_at') ? text : text.toLowerCase()
  return { key, id: user.id }
}
