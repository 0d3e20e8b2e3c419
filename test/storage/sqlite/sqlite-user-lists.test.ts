import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { type LongLists, openLongLists, steadyMs } from '../../../src/storage/sqlite/long-reads.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createSqliteUserLists } from '../../../src/storage/sqlite/sqlite-user-lists.ts'
import { createWordIndex } from '../../../src/storage/sqlite/word-index.ts'
import type { UserFilters, UserQuery } from '../../../src/users/user-repository.ts'
import { MAX_NAME_CHARS } from '../../../src/users/user-schemas.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { byCodePoints, positionOf, type ShownUser, SORTS } from '../../support/user-order.ts'
import { ALL, at, idsOf, isAsked } from '../../support/user-scan.ts'

const USERS = 3000

const FILTERS: readonly UserFilters[] = [
  {},
  { name: 'ann z0' },
  { created_after: at(20), created_before: at(60) },
  { created_after: at(2500) },
  { updated_before: at(100), created_after: at(20) },
  { updated_after: at(1000), created_before: at(2000) },
]

const WORDS = [
  ...[['ann'], ['ann', 'bob'], ['ann', 'z'], ['commonbutlong'], ['commonbutlongest', 'bob']],
  ...[
    ['u1', 'ann'],
    ['bob', 'nobody'],
  ],
]

const COMMON = { ...ALL, words: ['commonbutlonger'] }

/** Sorted and counted. */
const NAMED: UserQuery = {
  ...ALL,
  filters: { updated_after: at(-1) },
  sort: { by: 'name', descending: false },
}

test('a long list finds what a scan finds, from each place, in each order', async () => {
  const database = await openManyUsers()
  const queries = FILTERS.flatMap(filters => SORTS.map(sort => ({ words: [], filters, sort })))
  await expectScanned(database, queries)
})

test('a search finds what a scan finds, from each place, in each order', async () => {
  const database = await openManyUsers()
  // All words meet all filters, and both meet all orders.
  const queries = WORDS.flatMap((words, row) =>
    FILTERS.map((filters, column) => {
      return { words, filters, sort: SORTS[(row + column) % SORTS.length] ?? ALL.sort }
    }),
  )
  await expectScanned(database, queries)
})

test('a long list shows the users of one moment, whatever is written meanwhile', async () => {
  const database = await openManyUsers()
  const { list } = listsOf(database)
  const remove = database.prepare('DELETE FROM users WHERE id = ?')
  for (const delay of [0, 1, 3]) {
    const before = await list(NAMED)
    const during = list(NAMED)
    for (let turn = 0; turn < delay; turn++) await new Promise(resolve => setImmediate(resolve))
    // The list sees all of the write, or nothing.
    remove.run(102 + 2 * delay)
    const page = await during
    const isOld = page.revision === before.revision
    expect(page.total).toBe(Number(before.total) - (isOld ? 0 : 1))
    expect((await list(NAMED)).total).toBe(Number(before.total) - 1)
  }
})

test('at most twenty long lists wait, and all of them end when the storage closes', async () => {
  const database = await openManyUsers()
  const longLists = openedLists(database)
  const { list } = listsOf(database, longLists)
  const all = Array.from({ length: 22 }, () => list(COMMON))
  const results = Promise.allSettled(all)
  await expect(all[20]).rejects.toMatchObject({ code: 'overloaded' })
  await all[0]
  await Promise.all(all.slice(0, 20))
  const late = list(COMMON)
  await Promise.all([
    longLists.close(),
    expect(late).rejects.toMatchObject({ code: 'shutting_down' }),
  ])
  await results
  await expect(list(COMMON)).rejects.toMatchObject({ code: 'shutting_down' })
})

/** Never ends by itself. */
const ENDLESS = `
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
  SELECT count(*) FROM numbers WHERE is_in_time()`

/** A row that fills the first lines of a walk, and nothing after it, without end. */
const SPARSE = `
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
  SELECT hex(zeroblob(40000)) FROM numbers WHERE is_in_time() AND n = 1`

test('lists that take long hold up no other page and no whole list', async () => {
  const database = await openManyUsers()
  const lists = openedLists(database)
  const { list, walk } = listsOf(database, lists)
  const endless = [1, 2].map(() => firstOf(lists, ENDLESS))
  const ended = endless.map(one => expect(one).rejects.toMatchObject({ code: 'shutting_down' }))
  expect((await list(NAMED)).total).toBe(USERS)
  endless.push(firstOf(lists, ENDLESS))
  ended.push(expect(endless[2]).rejects.toMatchObject({ code: 'shutting_down' }))
  let text = ''
  await walk(NAMED, async lines => {
    text += lines
  })
  expect(text.match(/\n/g)).toHaveLength(USERS)
  await lists.close()
  await Promise.all(ended)
})

test('a page does not wait for the thread of a whole list that was broken off', async () => {
  const lists = openedLists(await openManyUsers())
  const statement = { sql: SPARSE, values: {}, deadline: soon(), condition: 'SELECT 1' }
  const broken = lists.run('whole', ({ walk }) =>
    walk(statement, () => Promise.reject(new Error('left'))),
  )
  await expect(broken).rejects.toThrow('left')
  expect(await firstOf(lists, 'SELECT 1')).toEqual([1])
})

test('a statement that runs beyond its deadline ends, as does one that has waited until then', async () => {
  const lists = openedLists(await openManyUsers())
  const deadline = steadyMs() + 50
  const endless = Array.from({ length: 3 }, () => firstOf(lists, ENDLESS, deadline))
  const behind = firstOf(lists, 'SELECT 1', deadline)
  const all = [...endless, behind]
  await Promise.all(all.map(one => expect(one).rejects.toMatchObject({ code: 'overloaded' })))
  expect(await firstOf(lists, 'SELECT 2')).toEqual([2])
})

test('closing ends a statement that runs', async () => {
  const lists = openedLists(await openManyUsers())
  await firstOf(lists, 'SELECT 1')
  const endless = firstOf(lists, ENDLESS)
  await Promise.all([
    lists.close(),
    expect(endless).rejects.toMatchObject({ code: 'shutting_down' }),
  ])
})

test('what waits for a thread that dies is unavailable, and the next read starts another', async () => {
  const lists = openedLists(await openManyUsers())
  const started: Worker[] = []
  const onWorker = (worker: Worker) => started.push(worker)
  process.on('worker', onWorker)
  onTestFinished(() => void process.off('worker', onWorker))
  expect(await firstOf(lists, 'SELECT 1')).toEqual([1])
  const endless = firstOf(lists, ENDLESS)
  const [thread] = started
  await Promise.all([
    thread?.terminate(),
    expect(endless).rejects.toMatchObject({ code: 'storage_unavailable' }),
  ])
  expect(await firstOf(lists, 'SELECT 2')).toEqual([2])
  expect(started).toHaveLength(2)
})

test('a database that cannot be read makes a long list unavailable or damaged', async () => {
  const database = await openManyUsers()
  const lists = openedLists(database)
  renameSync(database.name, `${database.name}.away`)
  const first = () => firstOf(lists, 'SELECT count(*) FROM users')
  await expect(first()).rejects.toMatchObject({ code: 'storage_unavailable' })
  writeFileSync(database.name, 'no database'.repeat(500))
  await expect(first()).rejects.toMatchObject({ code: 'storage_damaged' })
})

const RANGE = { created_before: at(9000), created_after: at(10) }

test('a list that may read many users is read in the thread, and no other is', async () => {
  const database = await openManyUsers()
  const row = ['[]', 0, 'of a long list', null, null, 1]
  const reads = { rows: async () => [row], walk: async () => true }
  const longLists: LongLists = { run: (_, work) => work(reads), close: async () => {} }
  const { list } = listsOf(database, longLists)
  const isLong = async (query: Partial<UserQuery>) =>
    (await list({ ...ALL, withTotal: false, ...query })).revision === 'of a long list'
  expect([
    await isLong({ start: { offset: 10_001 } }),
    await isLong({ filters: { name: 'ann z0' }, withTotal: true }),
    await isLong({ filters: { name: 'ann z0' }, sort: { by: 'email', descending: true } }),
    await isLong({ filters: RANGE }),
    await isLong({
      filters: { name: 'ann z0', ...RANGE },
      sort: { by: 'name', descending: false },
    }),
    await isLong({ words: ['ann'] }),
  ]).toEqual([true, true, true, true, true, true])
  expect([
    await isLong({ start: { offset: 10_000 } }),
    await isLong({ withTotal: true, sort: { by: 'email', descending: true } }),
    await isLong({ filters: { emails: ['many1@x.co'], ...RANGE }, withTotal: true }),
    await isLong({ filters: { ids: [7, 8], ...RANGE }, start: { offset: 10_001 } }),
    await isLong({ filters: { name: 'ann z0' }, sort: { by: 'name', descending: false } }),
    await isLong({ filters: { name: 'ann z0' } }),
    await isLong({ filters: RANGE, sort: { by: 'created_at', descending: true } }),
  ]).toEqual(Array(7).fill(false))
})

const soon = () => steadyMs() + 60_000

function listsOf(database: Database, longLists = openedLists(database)) {
  return createSqliteUserLists({ database, view: createReadView(database) }, longLists)
}

function openedLists(database: Database): LongLists {
  const lists = openLongLists(database)
  onTestFinished(lists.close)
  return lists
}

/** The first row of a statement, as of a page. */
function firstOf(lists: LongLists, sql: string, deadline = soon()): Promise<readonly unknown[]> {
  return lists.run(
    'page',
    async reads => (await reads.rows({ sql, values: {}, deadline }))[0] ?? [],
  )
}

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
      index.put(id, { name, email })
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

/** Expects of each query, from several places, the users that a scan of the table finds. */
async function expectScanned(
  database: Database,
  queries: readonly Pick<UserQuery, 'words' | 'filters' | 'sort'>[],
): Promise<void> {
  const { list, walk } = listsOf(database)
  const select = 'SELECT id, name, email, created_at, updated_at FROM users'
  const users = database.prepare<[], ShownUser>(select).all()
  for (const asked of queries) {
    const sorted = users.toSorted(byCodePoints(asked.sort))
    const idsFrom = (place: number) =>
      sorted.slice(place).flatMap(user => (isAsked(user, asked) ? [user.id] : []))
    const ids = idsFrom(0)
    const lines: string[] = []
    await walk(asked, async text => void lines.push(text))
    expect(idsOf(`[${lines.join('').trimEnd().replaceAll('\n', ',')}]`)).toEqual(ids)
    const query = { ...ALL, ...asked, limit: 700 }
    const { json, total, next } = await list(query)
    expect([total, idsOf(json)]).toEqual([ids.length, ids.slice(0, 700)])
    expect(next?.id).toBe(ids.length > 700 ? ids[699] : undefined)
    if (next !== undefined) {
      const second = await list({ ...query, start: next, withTotal: false })
      expect(idsOf(second.json)).toEqual(ids.slice(700, 1400))
    }
    // Filters may change between two pages, so that a cursor may be outside of their range.
    const start = positionOf(sorted[USERS / 3] as ShownUser, asked.sort)
    const outside = await list({ ...query, start, limit: 5 })
    expect(idsOf(outside.json)).toEqual(idsFrom(USERS / 3 + 1).slice(0, 5))
    for (const offset of [40, 2100]) {
      const paged = await list({ ...query, start: { offset }, limit: 3 })
      expect([paged.total, idsOf(paged.json)]).toEqual([ids.length, ids.slice(offset, offset + 3)])
    }
  }
}
