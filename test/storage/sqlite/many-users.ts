import { writeFileSync } from 'node:fs'
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
import { type AtEnd, temporaryFolder } from '../../support/open-test-app.ts'
import { byCodePoints, type ShownUser } from '../../support/user-order.ts'
import { ALL, at, idsOf, isAsked } from '../../support/user-scan.ts'

/** More than any list keeps or reads in one slice, so that all of them pause. */
export const USERS = 3000

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`

/** The bytes of the database, which is filled once. */
let filled: Promise<Buffer> | undefined

/** A database of many users whose ids are far apart: half are Ann, half are Bob, few are both, and all have a long common word. */
export async function openManyUsers(atEnd: AtEnd = onTestFinished): Promise<Database> {
  filled ??= fill()
  const path = join(temporaryFolder(atEnd), 'users.db')
  writeFileSync(path, await filled)
  const database = await openSqlite({ path, now: Date.now })
  atEnd(() => void database.close())
  return database
}

async function fill(): Promise<Buffer> {
  const database = await openSqlite({ path: ':memory:', now: Date.now })
  const insert = database.prepare(INSERT)
  const index = createWordIndex(database)
  const insertAll = database.transaction(() => {
    for (let count = 1; count <= USERS; count++) {
      const name = nameOf(count)
      const email = `commonbutlong${count % 100 === 0 ? 'est' : 'er'}.u${(count * 7919) % USERS}x${count}@x.co`
      const time = at((count * 37) % USERS)
      const id = idOf(count)
      insert.run(id, name, name.toLowerCase(), email, time, at((count * 53) % USERS))
      index.add(id, { name, email })
    }
  })
  insertAll()
  const bytes = database.serialize()
  database.close()
  return bytes
}

function idOf(count: number): number {
  if (count < USERS / 2) return count
  return count < USERS ? count ** 4 : Number.MAX_SAFE_INTEGER
}

/** Some names are greater than all other texts. */
function nameOf(count: number): string {
  if (count % 750 === 7) return 'Ann Bob'
  if (count % 750 === 8) return '\u{10ffff}'.repeat(count === 8 ? MAX_NAME_CHARS : 3)
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
  { created_after: at(2500) },
  { updated_before: at(100), created_after: at(20) },
  { updated_after: at(2450) },
  { updated_after: at(1000), created_before: at(2000) },
]

export const SORTS: readonly UserSort[] = SORT_KEYS.flatMap(by => [
  { by, descending: false },
  { by, descending: true },
])

/** A query, and the orders in which it is asked. */
export interface Asked extends Pick<UserQuery, 'words' | 'filters'> {
  readonly sorts: readonly UserSort[]
}

/**
 * Expects of each query, in its orders and from several places, the users that a scan of the table finds. Returns the most
 * pauses of a list.
 */
export function expectScanned(
  database: Database,
  list: SlicedList,
  queries: readonly Asked[],
): number {
  const users = database.prepare<[], ShownUser>(SELECT_ALL).all()
  const inOrder = new Map(SORTS.map(sort => [sort, users.toSorted(byCodePoints(sort))]))
  let mostPauses = 0
  for (const { sorts, ...asked } of queries) {
    const asks = new Map(users.map(user => [user, isAsked(user, asked)]))
    for (const sort of sorts) {
      const sorted = inOrder.get(sort) ?? []
      const idsFrom = (place: number) =>
        sorted.slice(place).flatMap(user => (asks.get(user) ? [user.id] : []))
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
      // A word search keeps no more than 2000 users.
      for (const offset of [40, 2100]) {
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
