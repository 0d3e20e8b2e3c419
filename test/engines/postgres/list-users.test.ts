import { expect, test } from 'vitest'
import { pageStatement, pagesStatement, shapeOf } from '../../../src/storage/postgres/list-sql.ts'
import { createUserLister } from '../../../src/storage/postgres/list-users.ts'
import { SORT_KEYS, type UserQuery } from '../../../src/users/user-repository.ts'
import { connectTo, insertUsers } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  queryPostgres,
  withPostgres,
} from '../../support/postgres-databases.ts'

const MANY: UserQuery = {
  sort: { by: 'email', descending: true },
  filters: {},
  words: [],
  limit: 3,
  start: { offset: 0 },
  withTotal: false,
}

test('pages of different numbers are one prepared statement, alone and together, and show what a scan shows', async () => {
  const url = await copyPostgresTemplate()
  await queryPostgres(url, insertUsers(1, 700))
  const rows = await queryPostgres(url, 'SELECT id FROM users ORDER BY email_lower DESC')
  const connections = connectTo(url)
  const list = createUserLister(connections)
  const idsOf = async (page: number) => {
    const { json } = await list({ ...MANY, start: { offset: (page - 1) * MANY.limit } })
    return JSON.parse(json).map(({ id }: { id: number }) => id)
  }
  const pages = Array.from({ length: 200 }, (_, index) => index + 2)
  const expected = pages.map(page =>
    rows.slice((page - 1) * MANY.limit, page * MANY.limit).map(({ id }) => id),
  )
  for (const [index, page] of pages.entries()) expect(await idsOf(page)).toEqual(expected[index])
  // Each twice.
  const together = await Promise.all([...pages, ...pages].map(idsOf))
  expect(together).toEqual([...expected, ...expected])
  const text = `SELECT name FROM pg_prepared_statements WHERE name LIKE 'list%'`
  const names = await connections.query(text)
  expect(names).toHaveLength(2)
})

test.each([
  { ids: [3, 5] },
  { emails: ['u3@x.co', 'u5@x.co'] },
  { ids: [3], emails: ['u3@x.co'], name: 'filled 3', created_after: '2026-01-01T00:00:00.000Z' },
])(
  'the users of %j are found by the index of ids or e-mails, alone and together',
  async filters => {
    const url = await copyPostgresTemplate()
    await queryPostgres(url, `${insertUsers(1, 3000)} ANALYZE users`)
    const index = filters.ids ? 'users_primary_key' : 'users_email_unique'
    const shapes = SORT_KEYS.flatMap(by =>
      [{ offset: 0 }, { offset: 40 }, { key: '', id: 1 }].map(start =>
        shapeOf({ ...MANY, sort: { by, descending: false }, filters, start, withTotal: true }),
      ),
    )
    await withPostgres(url, async client => {
      await client.query('SET plan_cache_mode = force_generic_plan')
      for (const [nth, text] of shapes
        .flatMap(shape => [pageStatement(shape), pagesStatement(shape)])
        .entries()) {
        await client.query(`PREPARE asked_${nth} AS ${text}`)
        const count = Math.max(
          ...Array.from(text.matchAll(/\$(\d+)/g), ([, place]) => Number(place)),
        )
        const explained = `EXPLAIN EXECUTE asked_${nth} (${Array(count).fill('NULL')})`
        const plan = (await client.query(explained)).rows.map(row => row['QUERY PLAN']).join('\n')
        const indexes = plan.match(/\busers_(?:primary_key|email_unique|by_\w+)/g)
        expect(new Set(indexes)).toEqual(new Set([index]))
        expect(plan).not.toMatch(/Seq Scan on users\b/)
      }
    })
  },
)
