import { join } from 'node:path'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { comparePositions } from '../../../src/storage/sqlite/compare-positions.ts'
import { createLongSearches } from '../../../src/storage/sqlite/long-searches.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Sliced } from '../../../src/storage/sqlite/sliced.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { clearWords, createWordIndex } from '../../../src/storage/sqlite/word-index.ts'
import { createWordSearch } from '../../../src/storage/sqlite/word-search.ts'
import { MAX_NAME_CHARS } from '../../../src/users/user.ts'
import { SORT_KEYS, type UserQuery } from '../../../src/users/user-repository.ts'
import { areBegun, wordsOfUser } from '../../../src/users/words.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { byCodePoints, type ShownUser } from '../../support/user-order.ts'

const NOON = Date.parse('2026-01-31T12:00:00.000Z')

const USERS = 6000

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`

const ALL: UserQuery = {
  sort: { by: 'id', descending: false },
  filters: {},
  words: [],
  limit: 1000,
  start: { offset: 0 },
  withTotal: true,
}

/** Many users whose ids are far apart: half are Ann, half are Bob, few are both, and all have a long common word. */
async function openDatabase(): Promise<Database> {
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
      const time = new Date(NOON + ((count * 37) % USERS)).toISOString()
      const id = idOf(count)
      insert.run(id, name, name.toLowerCase(), email, time, time)
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

function finish<T>(work: Sliced<T>): { readonly value: T; readonly pauses: number } {
  for (let pauses = 0; ; pauses++) {
    const step = work.next()
    if (step.done) return { value: step.value, pauses }
  }
}

const SELECT_ALL = `SELECT id, name, email, created_at, updated_at FROM users`

const at = (ms: number) => new Date(NOON + ms).toISOString()

const WORDS = [
  ['ann'],
  ['ann', 'bob'],
  ['ann', 'z'],
  ['commonbutlong'],
  ['commonbutlongest'],
  ['commonbutlongest', 'bob'],
  ['commonbutlongerr'],
  ['u1', 'ann'],
  ['nobody'],
  ['bob', 'nobody'],
]

const FILTERS: readonly UserQuery['filters'][] = [
  {},
  { name: 'ann bob' },
  { name: 'ann z0' },
  { email: `commonbutlongest.u${(300 * 7919) % USERS}x300@x.co` },
  { created_after: at(20), created_before: at(60) },
  { created_after: at(500) },
  { updated_before: at(100), created_after: at(20) },
]

test('a search of many slices finds what a scan finds, from each place, in each order', async () => {
  const database = await openDatabase()
  const users = database.prepare<[], ShownUser>(SELECT_ALL).all()
  const search = createWordSearch(database)
  const isIn = (user: ShownUser, { filters, words }: UserQuery) =>
    areBegun(wordsOfUser(user), words) &&
    (filters.name === undefined || user.name.toLowerCase() === filters.name) &&
    (filters.email === undefined || user.email === filters.email) &&
    (filters.created_after === undefined || user.created_at > filters.created_after) &&
    (filters.created_before === undefined || user.created_at < filters.created_before) &&
    (filters.updated_before === undefined || user.updated_at < filters.updated_before)
  let mostPauses = 0
  for (const words of WORDS) {
    for (const filters of FILTERS) {
      const matches = users.filter(user => isIn(user, { ...ALL, words, filters }))
      for (const by of SORT_KEYS) {
        for (const descending of [false, true]) {
          const sort = { by, descending }
          const ids = matches.toSorted(byCodePoints(sort)).map(({ id }) => id)
          const query = { ...ALL, words, filters, sort, limit: 700 }
          const first = finish(search(query))
          mostPauses = Math.max(mostPauses, first.pauses)
          expect(first.value.total).toBe(ids.length)
          expect(idsOf(first.value.json)).toEqual(ids.slice(0, 700))
          const { next } = first.value
          expect(next?.id).toBe(ids.length > 700 ? ids[699] : undefined)
          if (next !== undefined) {
            const second = finish(search({ ...query, start: next, withTotal: false })).value
            expect(idsOf(second.json)).toEqual(ids.slice(700, 1400))
          }
          const paged = finish(search({ ...query, start: { offset: 40 }, limit: 3 })).value
          expect(idsOf(paged.json)).toEqual(ids.slice(40, 43))
          expect(paged.total).toBe(ids.length)
        }
      }
    }
  }
  expect(mostPauses).toBeGreaterThan(10)
})

function idsOf(json: string): number[] {
  return JSON.parse(json).map(({ id }: { id: number }) => id)
}

test('two words that many users have, and hardly any has both, are compared in slices', async () => {
  const database = await openDatabase()
  const { value, pauses } = finish(createWordSearch(database)({ ...ALL, words: ['ann', 'bob'] }))
  expect(value.total).toBe(4)
  expect(pauses).toBeGreaterThan(3)
})

test('a long search shows the users of one moment, whatever is written meanwhile', async () => {
  const database = await openDatabase()
  const searches = createLongSearches(database)
  onTestFinished(searches.close)
  const query = { ...ALL, words: ['commonbutlonger'] }
  const before = await searches.search(query)
  expect(before.total).toBe(USERS * 0.99)
  const remove = database.prepare('DELETE FROM users WHERE id = ?')
  for (const delay of [0, 1, 3]) {
    const { revision } = await searches.search(query)
    const during = searches.search({ ...query, sort: { by: 'name', descending: false } })
    for (let turn = 0; turn < delay; turn++) await new Promise(resolve => setImmediate(resolve))
    // Search and write begin in the same turn; the search sees all of the write, or nothing.
    remove.run(101 + delay)
    const page = await during
    const isOld = page.revision === revision
    expect(isOld || page.revision > revision).toBe(true)
    expect(page.total).toBe(USERS * 0.99 - [0, 1, 3].indexOf(delay) - (isOld ? 0 : 1))
  }
})

test('a long search is refused if the index was emptied before its turn', async () => {
  const database = await openDatabase()
  const searches = createLongSearches(database)
  onTestFinished(searches.close)
  const page = searches.search({ ...ALL, words: ['commonbutlonger'] })
  clearWords(database)
  await expect(page).rejects.toMatchObject({ code: 'words_unavailable' })
})

test('long searches wait for each other, at most twenty of them, and end when the storage closes', async () => {
  const database = await openDatabase()
  const searches = createLongSearches(database)
  const query = { ...ALL, words: ['commonbutlonger'] }
  const all = Array.from({ length: 22 }, () => searches.search(query))
  const results = Promise.allSettled(all)
  await expect(all[20]).rejects.toMatchObject({ code: 'overloaded' })
  await all[0]
  searches.close()
  await expect(all[19]).rejects.toMatchObject({ code: 'shutting_down' })
  await results
  await expect(searches.search(query)).rejects.toMatchObject({ code: 'shutting_down' })
})

test('comparePositions has the order of SQLite', async () => {
  const keys = fc.string({
    unit: fc.constantFrom('a', 'b', '\ue000', '\uffff', '😀', 'é'),
    maxLength: 4,
  })
  const positions = fc.record({ key: keys, id: fc.integer({ min: 1, max: 3 }) })
  fc.assert(
    fc.property(positions, positions, (one, other) => {
      const order =
        Buffer.compare(Buffer.from(one.key), Buffer.from(other.key)) || one.id - other.id
      expect(Math.sign(comparePositions(one, other))).toBe(Math.sign(order))
    }),
  )
})
