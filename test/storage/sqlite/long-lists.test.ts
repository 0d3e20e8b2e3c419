import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createLongLists } from '../../../src/storage/sqlite/long-lists.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import type { Sliced } from '../../../src/storage/sqlite/sliced.ts'
import type { SlicedList } from '../../../src/storage/sqlite/sliced-list.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createSqliteUserReads } from '../../../src/storage/sqlite/sqlite-user-reads.ts'
import { createWideList } from '../../../src/storage/sqlite/wide-list.ts'
import { createWordIndex } from '../../../src/storage/sqlite/word-index.ts'
import { createWordSearch } from '../../../src/storage/sqlite/word-search.ts'
import {
  SORT_KEYS,
  type UserFilters,
  type UserQuery,
  type UserSort,
} from '../../../src/users/user-repository.ts'
import { MAX_NAME_CHARS } from '../../../src/users/user-schemas.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { byCodePoints, type ShownUser } from '../../support/user-order.ts'
import { ALL, at, idsOf, isAsked } from '../../support/user-scan.ts'

/** More than any list keeps or reads in one slice, so that all of them pause. */
const USERS = 3000

const SORTS: readonly UserSort[] = SORT_KEYS.flatMap(by => [
  { by, descending: false },
  { by, descending: true },
])

const FILTERS: readonly UserFilters[] = [
  {},
  { name: 'ann z0' },
  { created_after: at(20), created_before: at(60) },
  { created_after: at(2500) },
  { updated_before: at(100), created_after: at(20) },
  { updated_after: at(1000), created_before: at(2000) },
]

const WORDS = [
  ['ann'],
  ['ann', 'bob'],
  ['ann', 'z'],
  ['commonbutlong'],
  ['commonbutlongest', 'bob'],
  ['u1', 'ann'],
  ['bob', 'nobody'],
]

const COMMON = { ...ALL, words: ['commonbutlonger'] }

test('a list of many slices finds what a scan finds, from each place, in each order', async () => {
  const database = await openManyUsers()
  const queries = FILTERS.flatMap(filters => SORTS.map(sort => ({ words: [], filters, sort })))
  expect(expectScanned(database, createWideList(database), queries)).toBeGreaterThan(5)
})

test('a search of many slices finds what a scan finds, from each place, in each order', async () => {
  const database = await openManyUsers()
  // All words meet all filters, and both meet all orders.
  const queries = WORDS.flatMap((words, row) =>
    FILTERS.map((filters, column) => {
      return { words, filters, sort: SORTS[(row + column) % SORTS.length] ?? ALL.sort }
    }),
  )
  expect(expectScanned(database, createWordSearch(database), queries)).toBeGreaterThan(10)
})

test('a long list shows the users of one moment, whatever is written meanwhile', async () => {
  const database = await openManyUsers()
  const longLists = createLongLists(database)
  onTestFinished(longLists.close)
  const remove = database.prepare('DELETE FROM users WHERE id = ?')
  for (const delay of [0, 1, 3]) {
    const before = await longLists.list(COMMON)
    const during = longLists.list({ ...COMMON, sort: { by: 'name', descending: false } })
    for (let turn = 0; turn < delay; turn++) await new Promise(resolve => setImmediate(resolve))
    // The list sees all of the write, or nothing.
    remove.run(101 + delay)
    const page = await during
    const isOld = page.revision === before.revision
    expect(page.total).toBe(Number(before.total) - (isOld ? 0 : 1))
  }
})

test('long lists wait for each other, at most twenty of them, and end when the storage closes', async () => {
  const longLists = createLongLists(await openManyUsers())
  const all = Array.from({ length: 22 }, () => longLists.list(COMMON))
  const results = Promise.allSettled(all)
  await expect(all[20]).rejects.toMatchObject({ code: 'overloaded' })
  await all[0]
  longLists.close()
  await expect(all[19]).rejects.toMatchObject({ code: 'shutting_down' })
  await results
  await expect(longLists.list(COMMON)).rejects.toMatchObject({ code: 'shutting_down' })
})

const MANY = { created_after: '2026-12-31T00:00:00.000Z' }
const FEW = { created_before: '2026-12-31T00:00:00.000Z', created_after: at(10) }

test('a list that may read many users is made where other work can come between, and no other is', async () => {
  const database = await openManyUsers()
  // One more than a list may sort, all of one name and of one time.
  database.exec(`
    WITH RECURSIVE counted (serial) AS (SELECT 1 UNION ALL SELECT serial + 1 FROM counted WHERE serial < 10001)
    INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
    SELECT 100000 + serial, 'Many', 'many', 'many' || serial || '@x.co', '2027-01-01T00:00:00.000Z', '2027-01-02T00:00:00.000Z'
    FROM counted`)
  const page = { json: '[]', next: undefined, total: 0, revision: 'of a long list' }
  const longLists = { list: async () => page, close: () => {} }
  const view = createReadView(database)
  const reads = createSqliteUserReads({ database, view, longLists, steadyNow: Date.now })
  // Each look at the clock finds that too much time has passed.
  let nowMs = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1000))
  onTestFinished(() => clock.mockRestore())
  const isLong = async (query: Partial<UserQuery>) =>
    (await reads.list({ ...ALL, withTotal: false, ...query })) === page
  expect([
    await isLong({ start: { offset: 10_001 } }),
    await isLong({ filters: { name: 'many' }, withTotal: true }),
    await isLong({ filters: { name: 'many' }, sort: { by: 'email', descending: true } }),
    await isLong({ filters: MANY }),
  ]).toEqual([true, true, true, true])
  expect([
    await isLong({ start: { offset: 10_000 } }),
    await isLong({ filters: { email: 'many1@x.co', ...MANY }, withTotal: true }),
    await isLong({ filters: { name: 'many' }, sort: { by: 'name', descending: false } }),
    await isLong({ filters: MANY, sort: { by: 'created_at', descending: true } }),
    await isLong({ filters: FEW, withTotal: true }),
  ]).toEqual([false, false, false, false, false])
})

/** The bytes of the database, which is filled once. */
let filled: Promise<Buffer> | undefined

/** A database of many users whose ids are far apart: half are Ann, half are Bob, few are both, and all have a long common word. */
async function openManyUsers(): Promise<Database> {
  filled ??= fill()
  const path = join(temporaryFolder(), 'users.db')
  writeFileSync(path, await filled)
  const database = await openSqlite({ path, now: Date.now })
  onTestFinished(() => void database.close())
  return database
}

async function fill(): Promise<Buffer> {
  const database = await openSqlite({ path: ':memory:', now: Date.now })
  const insert = database.prepare(`
    INSERT INTO users (id, name, name_lower, email, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`)
  const index = createWordIndex(database)
  const insertAll = database.transaction(() => {
    for (let count = 1; count <= USERS; count++) {
      const name = nameOf(count)
      const email = `commonbutlong${count % 100 === 0 ? 'est' : 'er'}.u${(count * 7919) % USERS}x${count}@x.co`
      const id = idOf(count)
      const [created, updated] = [at((count * 37) % USERS), at((count * 53) % USERS)]
      insert.run(id, name, name.toLowerCase(), email, created, updated)
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

/** Some names are greater than all others, by code points and by halves of characters. */
function nameOf(count: number): string {
  if (count % 750 === 7) return 'Ann Bob'
  if (count % 750 === 8) return '\u{10ffff}'.repeat(count === 8 ? MAX_NAME_CHARS : 3)
  if (count % 750 === 9) return '\uffee'
  return `${count % 2 === 0 ? 'Ann' : 'Bob'} ${'zyx'[count % 3]}${count % 50}`
}

/** The result of slices, and how often they paused. */
function finish<T>(work: Sliced<T>): { readonly value: T; readonly pauses: number } {
  for (let pauses = 0; ; pauses++) {
    const step = work.next()
    if (step.done) return { value: step.value, pauses }
  }
}

/** Expects of each query, from several places, the users that a scan of the table finds. Returns the most pauses of a list. */
function expectScanned(
  database: Database,
  list: SlicedList,
  queries: readonly Pick<UserQuery, 'words' | 'filters' | 'sort'>[],
): number {
  const select = 'SELECT id, name, email, created_at, updated_at FROM users'
  const users = database.prepare<[], ShownUser>(select).all()
  let mostPauses = 0
  for (const asked of queries) {
    const sorted = users.toSorted(byCodePoints(asked.sort))
    const idsFrom = (place: number) =>
      sorted.slice(place).flatMap(user => (isAsked(user, asked) ? [user.id] : []))
    const ids = idsFrom(0)
    const query = { ...ALL, ...asked, limit: 700 }
    const { value, pauses } = finish(list(query))
    mostPauses = Math.max(mostPauses, pauses)
    expect([value.total, idsOf(value.json)]).toEqual([ids.length, ids.slice(0, 700)])
    expect(value.next?.id).toBe(ids.length > 700 ? ids[699] : undefined)
    if (value.next !== undefined) {
      const second = finish(list({ ...query, start: value.next, withTotal: false })).value
      expect(idsOf(second.json)).toEqual(ids.slice(700, 1400))
    }
    // Filters may change between two pages, so that a cursor may be outside of their range.
    const start = positionOf(sorted[USERS / 3] as ShownUser, asked.sort)
    const outside = finish(list({ ...query, start, limit: 5 })).value
    expect(idsOf(outside.json)).toEqual(idsFrom(USERS / 3 + 1).slice(0, 5))
    // A word search keeps no more than 2000 users.
    for (const offset of [40, 2100]) {
      const paged = finish(list({ ...query, start: { offset }, limit: 3 })).value
      expect([paged.total, idsOf(paged.json)]).toEqual([ids.length, ids.slice(offset, offset + 3)])
    }
  }
  return mostPauses
}

function positionOf(user: ShownUser, { by }: UserSort) {
  const text = String(user[by])
  return { key: by === 'id' ? '' : by.endsWith('_at') ? text : text.toLowerCase(), id: user.id }
}
