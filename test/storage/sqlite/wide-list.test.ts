import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createListPlanner } from '../../../src/storage/sqlite/list-plan.ts'
import { createLongLists } from '../../../src/storage/sqlite/long-lists.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createSqliteUserReads } from '../../../src/storage/sqlite/sqlite-user-reads.ts'
import { createWideList } from '../../../src/storage/sqlite/wide-list.ts'
import type { UserFilters, UserQuery } from '../../../src/users/user-repository.ts'
import { ALL, at } from '../../support/user-scan.ts'
import { expectScanned, FILTERS, finish, openManyUsers, SORTS, USERS } from './many-users.ts'

const BY_NAME = { by: 'name', descending: false } as const

test('a list of many slices finds what a scan finds, from each place, in each order', async () => {
  const database = await openManyUsers()
  const queries = FILTERS.filter(({ email }) => email === undefined).map(filters => ({
    words: [],
    filters,
    sorts: SORTS,
  }))
  expect(expectScanned(database, createWideList(database), queries)).toBeGreaterThan(5)
})

test('a user that has taken the e-mail of a cursor is not after it', async () => {
  const database = await openManyUsers()
  const list = createWideList(database)
  const sort = { by: 'email', descending: false } as const
  const filters = { created_after: at(0) }
  const { next, json } = finish(list({ ...ALL, sort, filters, limit: 2 })).value
  const [, last] = JSON.parse(json)
  database.prepare('DELETE FROM users WHERE id = ?').run(last.id)
  database.prepare('UPDATE users SET email = ? WHERE id = ?').run(last.email, last.id + 1)
  const start = next as NonNullable<typeof next>
  const rest = JSON.parse(finish(list({ ...ALL, sort, filters, start, limit: 3 })).value.json)
  expect(rest.map(({ email }: { email: string }) => email)).not.toContain(last.email)
})

test('a wide list shows the users of one moment, and other work comes between', async () => {
  const database = await openManyUsers()
  const longLists = createLongLists(database)
  onTestFinished(longLists.close)
  const query: UserQuery = { ...ALL, sort: BY_NAME, filters: { created_before: at(USERS) } }
  const { revision } = await longLists.list(query)
  const during = longLists.list(query)
  await new Promise(resolve => setImmediate(resolve))
  database.prepare('DELETE FROM users WHERE id = 7').run()
  const page = await during
  const isOld = page.revision === revision
  expect(page.total).toBe(isOld ? USERS : USERS - 1)
})

test('users behind the range of a filter are not read', async () => {
  const list = createWideList(await openManyUsers())
  const filters = { created_after: at(20), created_before: at(60) }
  const { value, pauses } = finish(list({ ...ALL, sort: BY_NAME, filters }))
  expect([value.total, pauses]).toEqual([39, 0])
})

test('a page behind all users is empty at once', async () => {
  const list = createWideList(await openManyUsers())
  const { value, pauses } = finish(list({ ...ALL, start: { offset: 999_999_999_998_000 } }))
  expect([value.json, value.total, pauses]).toEqual(['[]', USERS, 0])
})

test('a list at once finds what a scan finds, with a cursor outside of its range too', async () => {
  const database = await openManyUsers()
  const view = createReadView(database)
  const reads = createSqliteUserReads({ database, view, steadyNow: Date.now })
  const sort = { by: 'created_at', descending: true } as const
  const filters = { created_after: at(20), created_before: at(2000) }
  const first = await reads.list({ ...ALL, sort, filters, limit: 3, withTotal: false })
  const start = { key: at(2900), id: 1 }
  const outside = await reads.list({ ...ALL, sort, filters, start, limit: 3, withTotal: false })
  expect(outside.json).toBe(first.json)
  const behind = await reads.list({ ...ALL, sort, filters, start: { key: at(9), id: 1 } })
  expect(behind.json).toBe('[]')
})

test('a list that takes long is made where other work can come between', async () => {
  const database = await openManyUsers()
  fill(database)
  // Each look at the clock finds that too much time has passed.
  let nowMs = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1000))
  onTestFinished(() => clock.mockRestore())
  const view = createReadView(database)
  const page = { json: '[]', next: undefined, total: 0, revision: 'of a long list' }
  const longLists = { list: async () => page, close: () => {} }
  const reads = createSqliteUserReads({ database, view, longLists, steadyNow: Date.now })
  expect(await reads.list({ ...ALL, filters: MANY })).toBe(page)
  expect(await reads.list({ ...ALL, filters: FEW })).not.toBe(page)
})

/** Adds users, all of one name and of one time: one more than a list may sort. */
function fill(database: Database): void {
  database.exec(`
    WITH RECURSIVE counted (serial) AS (SELECT 1 UNION ALL SELECT serial + 1 FROM counted WHERE serial < 10001)
    INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
    SELECT 100000 + serial, 'Many', 'many', 'many' || serial || '@x.co', '2027-01-01T00:00:00.000Z', '2027-01-02T00:00:00.000Z'
    FROM counted`)
}

const MANY = { created_after: '2026-12-31T00:00:00.000Z' }
const FEW = { created_before: '2026-12-31T00:00:00.000Z', created_after: at(10) }

const PLANS: readonly (readonly [UserFilters, Partial<UserQuery>, isWide: boolean])[] = [
  [{}, {}, false],
  [{}, { start: { offset: 10_000 } }, false],
  [{}, { start: { offset: 10_001 } }, true],
  [{ email: 'many1@x.co' }, { withTotal: true }, false],
  [{ email: 'many1@x.co', ...MANY }, { withTotal: true }, false],
  [{ email: 'many1@x.co' }, { withTotal: true, start: { offset: 10_001 } }, false],
  [{ name: 'many' }, {}, false],
  [{ name: 'many' }, { sort: BY_NAME }, false],
  [{ name: 'many' }, { withTotal: true }, true],
  [{ name: 'many' }, { sort: { by: 'email', descending: true } }, true],
  [{ name: 'ann z0' }, { withTotal: true, sort: { by: 'email', descending: true } }, false],
  [MANY, { sort: { by: 'created_at', descending: true } }, false],
  [MANY, { sort: { by: 'created_at', descending: true }, withTotal: true }, true],
  [MANY, {}, true],
  [FEW, { withTotal: true }, false],
  [FEW, { start: { offset: 10_001 } }, false],
  [{ name: 'nobody' }, { start: { offset: 10_001 } }, false],
  [{ ...MANY, updated_after: '2027-01-01T12:00:00.000Z' }, {}, true],
  [
    { ...MANY, updated_after: '2027-01-01T12:00:00.000Z' },
    { sort: { by: 'created_at', descending: false } },
    true,
  ],
  [{ ...MANY, updated_before: at(50) }, {}, false],
  [{ ...MANY, name: 'ann z0' }, { withTotal: true }, false],
]

describe('createListPlanner', () => {
  let database: Database
  const ends: (() => void | Promise<void>)[] = []
  beforeAll(async () => {
    database = await openManyUsers(end => ends.unshift(end))
    fill(database)
    return async () => {
      for (const end of ends) await end()
    }
  })

  test.each(PLANS)('a list of %o with %o is wide: %s', (filters, query, isWide) => {
    const asked = { ...ALL, withTotal: false, ...query, filters }
    expect(createListPlanner(database)(asked).isWide).toBe(isWide)
  })
})
