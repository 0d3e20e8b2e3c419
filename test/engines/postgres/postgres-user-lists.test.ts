import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { isPageOfIndex } from '../../../src/storage/list-dialect.ts'
import { pageStatement } from '../../../src/storage/list-programs.ts'
import { postgresListDialect } from '../../../src/storage/postgres/postgres-list-dialect.ts'
import { createPostgresUserLists } from '../../../src/storage/postgres/postgres-user-lists.ts'
import { SORT_KEYS, type UserFilters, type UserQuery } from '../../../src/users/user-repository.ts'
import { connectTo, holdOpen, insertUsers, NOON } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  createPostgresDatabase,
  queryPostgres,
  withPostgres,
} from '../../support/postgres-databases.ts'
import { until } from '../../support/until.ts'
import { ALL, at, idsOf } from '../../support/user-scan.ts'

const MANY: UserQuery = {
  sort: { by: 'email', descending: true },
  filters: {},
  words: [],
  limit: 3,
  start: { offset: 0 },
  withTotal: false,
}

test('pages of usual lists are one prepared statement, and others are none', async () => {
  const connections = connectTo(await copyPostgresTemplate())
  const { list } = createPostgresUserLists(connections)
  for (const offset of [100, 200]) await list({ ...MANY, limit: 100, start: { offset } })
  await list(MANY)
  await list({ ...MANY, limit: 100, filters: { ids: [1] } })
  const text = `SELECT name FROM pg_prepared_statements WHERE name LIKE 'list%'`
  expect(await connections.query(text, [], 'list')).toHaveLength(1)
})

/** A cursor too is one of another column where the sort allows it. */
const STARTS = [{ offset: 0 }, { offset: 40 }, { key: '', id: 1 }] as const

const EMAILS = ['u3@x.co', 'u5@x.co']

const FROM = '2026-01-01T00:00:00.000Z'

const UNTIL = '2026-02-01T00:00:00.000Z'

/** Lists that read few users by one index, whatever the values are. */
const OF_INDEX: readonly (readonly [
  index: string,
  filters: UserFilters,
  sorts: (typeof SORT_KEYS)[number][],
])[] = [
  ['primary_key', { ids: [3, 5] }, [...SORT_KEYS]],
  ['email_unique', { emails: EMAILS }, [...SORT_KEYS]],
  [
    'primary_key',
    { ids: [3], emails: EMAILS, name: 'filled', created_after: FROM },
    [...SORT_KEYS],
  ],
  ['primary_key', {}, ['id']],
  ['email_unique', {}, ['email']],
  ['by_name', {}, ['name']],
  ['by_created_at', {}, ['created_at']],
  ['by_name', { name: 'filled' }, ['id', 'name']],
  ['by_created_at', { created_after: FROM }, ['created_at']],
  ['by_created_at', { created_after: FROM, created_before: UNTIL }, ['created_at']],
  ['by_updated_at', { updated_before: UNTIL }, ['updated_at']],
]

describe('lists that an index answers', () => {
  let url: string
  beforeAll(async () => {
    const { url: made, drop } = await createPostgresDatabase(inject('postgres').templateOptions)
    url = made
    // All users have one name, so that for PostgreSQL no index is better for it than another.
    const users = `${insertUsers(1, 3000)} UPDATE users SET name = 'Filled', name_lower = 'filled';`
    await queryPostgres(url, `${users} ANALYZE users`)
    return drop
  })

  test.each(OF_INDEX)(
    'users_%s finds the users of %j in the order of %j',
    async (index, filters, sorts) => {
      const isFew = filters.ids !== undefined || filters.emails !== undefined
      const queries = sorts.flatMap(by =>
        STARTS.flatMap(start =>
          [false, true].map(descending => {
            const key = by === 'name' ? 'filled' : ''
            const place = 'key' in start ? { ...start, key } : start
            return { ...MANY, sort: { by, descending }, filters, start: place, withTotal: isFew }
          }),
        ),
      )
      await withPostgres(url, async client => {
        await client.query('SET plan_cache_mode = force_generic_plan')
        for (const [nth, query] of queries.entries()) {
          expect(isPageOfIndex(query, postgresListDialect.maxSkipped)).toBe(true)
          const { sql, values } = pageStatement(postgresListDialect, query)
          await client.query(`PREPARE asked_${nth} AS ${sql}`)
          const parameters = values.length > 0 ? `(${values.map(() => 'NULL')})` : ''
          const explained = await client.query(`EXPLAIN EXECUTE asked_${nth} ${parameters}`)
          const lines = explained.rows.map(row => row['QUERY PLAN']).join('\n')
          const indexes = lines.match(/\busers_(?:primary_key|email_unique|by_\w+)/g)
          expect(new Set(indexes)).toEqual(new Set([`users_${index}`]))
          expect(lines).not.toMatch(/Seq Scan on users\b/)
          if (!isFew) expect(lines).not.toMatch(/\bSort\b/)
        }
      })
    },
  )
})

/** A database with three users: the time of each is a millisecond after that of the one before. */
async function fillThree() {
  const url = await copyPostgresTemplate()
  const later = `to_char(to_timestamp((${Date.parse(NOON)} + id) / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
  await queryPostgres(url, `${insertUsers(1, 3)} UPDATE users SET created_at = ${later}`)
  return url
}

/** Whoever reads the second of three users waits for `seconds`. */
async function fillSlowly(seconds: number) {
  const url = await fillThree()
  await queryPostgres(
    url,
    `CREATE FUNCTION wait() RETURNS boolean LANGUAGE plpgsql COST 1000000
       AS $$ BEGIN PERFORM pg_sleep(${seconds}); RETURN true; END $$;
     ALTER TABLE users RENAME TO kept;
     CREATE VIEW users AS SELECT * FROM kept WHERE CASE id WHEN 2 THEN wait() ELSE true END`,
  )
  return url
}

/** Users of one range in the order of another column: no index has them. */
const SLOW: UserQuery = {
  ...ALL,
  filters: { created_after: at(0) },
  sort: { by: 'name', descending: false },
}

const OVERLOADED = { code: 'overloaded' }

test('a list that takes too long is refused alone: one of the same form that comes with it is answered', async () => {
  const { list } = createPostgresUserLists(connectTo(await fillSlowly(60)), { maxListMs: 1500 })
  const slow = expect(list(SLOW)).rejects.toMatchObject(OVERLOADED)
  const quick = list({ ...SLOW, filters: { created_after: at(2) } })
  expect(idsOf((await quick).json)).toEqual([3])
  await slow
})

test('all statements of a list have one end together, as do those that look for few users', async () => {
  // The count of the users in the range takes half of the time, and so do the page and its total.
  const url = await fillSlowly(1)
  const { list, scan } = createPostgresUserLists(connectTo(url), { maxListMs: 1700 })
  await expect(list(SLOW)).rejects.toMatchObject(OVERLOADED)
  await expect(scan({ ...SLOW, afterId: 0 })).rejects.toMatchObject(OVERLOADED)
  const patient = createPostgresUserLists(connectTo(url))
  expect((await patient.list(SLOW)).total).toBe(3)
})

test('lists that read much keep none waiting that an index answers, and refuse another one as overloaded', async () => {
  const url = await fillSlowly(60)
  const connections = connectTo(url)
  const { list } = createPostgresUserLists(connections, { maxListMs: 6000 })
  let ended = 0
  const slow = Array.from({ length: 4 }, async () => {
    await expect(list(SLOW)).rejects.toMatchObject(OVERLOADED)
    ended++
  })
  await until(() => connections.report().connections.active === 3)
  const find = async (query: Partial<UserQuery>) =>
    idsOf((await list({ ...ALL, withTotal: false, ...query })).json)
  const by = (key: UserQuery['sort']['by']) => ({ by: key, descending: false })
  expect(await find({ filters: { name: 'filled 3' } })).toEqual([3])
  expect(await find({ filters: { created_after: at(2) }, sort: by('created_at') })).toEqual([3])
  expect(await find({ sort: by('name'), start: { key: 'filled 2', id: 2 } })).toEqual([3])
  expect(ended).toBe(0)
  await Promise.all(slow)
})

test('a list that has waited for a connection does not wait as long again for a lock', async () => {
  const url = await fillThree()
  const connections = connectTo(url)
  const { list } = createPostgresUserLists(connections)
  const sleepers = Array.from({ length: 3 }, () =>
    connections.query('SELECT pg_sleep(1.2)', [], 'long'),
  )
  await until(() => connections.report().connections.active === 3)
  await holdOpen(url, 'LOCK TABLE users IN ACCESS EXCLUSIVE MODE')
  const ended: string[] = []
  const waiting = list(SLOW).catch(() => ended.push('has waited'))
  await sleep(600)
  const other = createPostgresUserLists(connectTo(url))
  await Promise.all([waiting, other.list(SLOW).catch(() => ended.push('other')), ...sleepers])
  expect(ended).toEqual(['has waited', 'other'])
})
