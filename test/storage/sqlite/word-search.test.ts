import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { comparePositions } from '../../../src/storage/sqlite/compare-positions.ts'
import { createLongLists } from '../../../src/storage/sqlite/long-lists.ts'
import { clearWords } from '../../../src/storage/sqlite/word-index.ts'
import { createWordSearch } from '../../../src/storage/sqlite/word-search.ts'
import { ALL } from '../../support/user-scan.ts'
import { expectScanned, FILTERS, finish, openManyUsers, SORTS, USERS } from './many-users.ts'

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

test('a search of many slices finds what a scan finds, from each place, in each order', async () => {
  const database = await openManyUsers()
  // All words meet all filters and all orders, and all filters meet all orders.
  const queries = WORDS.flatMap((words, row) =>
    FILTERS.map((filters, column) => ({
      words,
      filters,
      sorts: SORTS.filter((_, nth) => nth === (row + column) % SORTS.length),
    })),
  )
  expect(expectScanned(database, createWordSearch(database), queries)).toBeGreaterThan(10)
})

test('two words that many users have, and hardly any has both, are compared in slices', async () => {
  const database = await openManyUsers()
  const { value, pauses } = finish(createWordSearch(database)({ ...ALL, words: ['ann', 'bob'] }))
  expect(value.total).toBe(4)
  expect(pauses).toBeGreaterThan(3)
})

test('a long list shows the users of one moment, whatever is written meanwhile', async () => {
  const database = await openManyUsers()
  const longLists = createLongLists(database)
  onTestFinished(longLists.close)
  const query = { ...ALL, words: ['commonbutlonger'] }
  const before = await longLists.list(query)
  expect(before.total).toBe(USERS * 0.99)
  const remove = database.prepare('DELETE FROM users WHERE id = ?')
  for (const delay of [0, 1, 3]) {
    const { revision } = await longLists.list(query)
    const during = longLists.list({ ...query, sort: { by: 'name', descending: false } })
    for (let turn = 0; turn < delay; turn++) await new Promise(resolve => setImmediate(resolve))
    // List and write begin in the same turn; the list sees all of the write, or nothing.
    remove.run(101 + delay)
    const page = await during
    const isOld = page.revision === revision
    expect(isOld || page.revision > revision).toBe(true)
    expect(page.total).toBe(USERS * 0.99 - [0, 1, 3].indexOf(delay) - (isOld ? 0 : 1))
  }
})

test('a long list is refused if the index was emptied before its turn', async () => {
  const database = await openManyUsers()
  const longLists = createLongLists(database)
  onTestFinished(longLists.close)
  const page = longLists.list({ ...ALL, words: ['commonbutlonger'] })
  clearWords(database)
  await expect(page).rejects.toMatchObject({ code: 'words_unavailable' })
})

test('long lists wait for each other, at most twenty of them, and end when the storage closes', async () => {
  const database = await openManyUsers()
  const longLists = createLongLists(database)
  const query = { ...ALL, words: ['commonbutlonger'] }
  const all = Array.from({ length: 22 }, () => longLists.list(query))
  const results = Promise.allSettled(all)
  await expect(all[20]).rejects.toMatchObject({ code: 'overloaded' })
  await all[0]
  longLists.close()
  await expect(all[19]).rejects.toMatchObject({ code: 'shutting_down' })
  await results
  await expect(longLists.list(query)).rejects.toMatchObject({ code: 'shutting_down' })
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
