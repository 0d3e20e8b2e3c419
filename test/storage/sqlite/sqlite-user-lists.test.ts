import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { type LongLists, openLongLists, steadyMs } from '../../../src/storage/sqlite/long-reads.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createSqliteUserLists } from '../../../src/storage/sqlite/sqlite-user-lists.ts'
import type { UserQuery } from '../../../src/users/user-repository.ts'
import { makeDatabase } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { ALL, at, idsOfWhole } from '../../support/user-scan.ts'

const USERS = 3000

const COMMON = { ...ALL, words: ['filled'] }

/** Sorted and counted. */
const NAMED: UserQuery = {
  ...ALL,
  filters: { updated_after: '2000-01-01T00:00:00.000Z' },
  sort: { by: 'name', descending: false },
}

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

test('lists that take long hold up no other page and no whole list', async () => {
  const database = await openManyUsers()
  const lists = openedLists(database)
  const { list, ...scanned } = listsOf(database, lists)
  const endless = [1, 2].map(() => firstOf(lists, ENDLESS))
  const ended = endless.map(one => expect(one).rejects.toMatchObject({ code: 'shutting_down' }))
  expect((await list(NAMED)).total).toBe(USERS)
  endless.push(firstOf(lists, ENDLESS))
  ended.push(expect(endless[2]).rejects.toMatchObject({ code: 'shutting_down' }))
  expect(await idsOfWhole(scanned, { ...NAMED, filters: {} })).toHaveLength(USERS)
  await lists.close()
  await Promise.all(ended)
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
  const longLists: LongLists = { rows: async () => [row], close: async () => {} }
  const { list } = listsOf(database, longLists)
  const isLong = async (query: Partial<UserQuery>) =>
    (await list({ ...ALL, withTotal: false, ...query })).revision === 'of a long list'
  const [named, byName] = [{ name: 'ann z0' }, { by: 'name', descending: false } as const]
  const long: readonly Partial<UserQuery>[] = [
    { start: { offset: 10_001 } },
    { filters: named, withTotal: true },
    { filters: named, sort: { by: 'email', descending: true } },
    { filters: RANGE },
    { filters: { ...named, ...RANGE }, sort: byName },
    { words: ['ann'] },
  ]
  const short: readonly Partial<UserQuery>[] = [
    { start: { offset: 10_000 } },
    { withTotal: true, sort: { by: 'email', descending: true } },
    { filters: { emails: ['many1@x.co'], ...RANGE }, withTotal: true },
    { filters: { ids: [7, 8], ...RANGE }, start: { offset: 10_001 } },
    { filters: named, sort: byName },
    { filters: named },
    { filters: RANGE, sort: { by: 'created_at', descending: true } },
  ]
  for (const query of [...long, ...short]) {
    expect([query, await isLong(query)]).toEqual([query, long.includes(query)])
  }
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
async function firstOf(
  lists: LongLists,
  sql: string,
  deadline = soon(),
): Promise<readonly unknown[]> {
  return (await lists.rows('page', { sql, values: {}, deadline }))[0] ?? []
}

async function openManyUsers(): Promise<Database> {
  const path = join(temporaryFolder(), 'users.db')
  makeDatabase(path, { users: USERS })
  const database = await openSqlite({ path, now: Date.now })
  onTestFinished(() => void database.close())
  return database
}
