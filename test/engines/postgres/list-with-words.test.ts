import { expect, test } from 'vitest'
import { SORT_KEYS, type UserQuery } from '../../../src/users/user-repository.ts'
import { openStorage, tasksOn } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { byCodePoints, type ShownUser } from '../../support/user-order.ts'
import { ALL, at, idsOf, isAsked, NOON } from '../../support/user-scan.ts'

const USERS = 21_000

/** Half are Ann, half are Bob, few are both. Each of them are too many to be found first and then sorted. */
const FILL = `
  INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
  SELECT id, name, lower(name), email, time, time FROM (
    SELECT n * 10 AS id,
      CASE WHEN n % 1500 = 7 THEN 'Ann Bob'
        ELSE CASE WHEN n % 2 = 0 THEN 'Ann ' ELSE 'Bob ' END || substr('zyx', n % 3 + 1, 1) || n % 50 END AS name,
      CASE WHEN n > 5000 THEN 'late' ELSE 'early' END || CASE WHEN n % 100 = 0 THEN '.rare' ELSE '' END
        || '.u' || (n * 7919) % ${USERS} || 'x' || n || '@x.co' AS email,
      to_char(to_timestamp((${NOON} + (n * 37) % ${USERS}) / 1000.0) AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time
    FROM generate_series(1, ${USERS}) AS n) AS made;`

const WORDS = '|ann|ann bob|bob z|rare|rare early|late|x late ann|u1 ann|nobody|bob nobody'.split(
  '|',
)

const FILTERS: readonly UserQuery['filters'][] = [
  {},
  { name: 'ann bob' },
  { name: 'ann z0' },
  { emails: [`early.rare.u${(300 * 7919) % USERS}x300@x.co`, 'nobody@x.co'] },
  { ids: Array.from({ length: 400 }, (_, index) => index * 130 + 10), created_after: at(500) },
  { created_after: at(20), created_before: at(60) },
  { created_after: at(500) },
  { updated_before: at(100), created_after: at(20) },
]

test('a list with words that few or many users have is what a scan finds, from each place, in each order', async () => {
  const url = await copyPostgresTemplate()
  await queryPostgres(url, FILL)
  await tasksOn(url).migrate()
  const { users: repository } = await openStorage(url)
  const select = 'SELECT id::int, name, email, created_at, updated_at FROM users'
  const users = (await queryPostgres(url, select)) as unknown as ShownUser[]
  expect(users).toHaveLength(USERS)
  const sorts = SORT_KEYS.flatMap(by => [false, true].map(descending => ({ by, descending })))
  // All words meet all filters, and both meet all orders.
  const queries = WORDS.flatMap((words, row) =>
    FILTERS.map((filters, column) => {
      const sort = sorts[(row + column) % sorts.length] ?? ALL.sort
      return { words: words.split(' ').filter(word => word !== ''), filters, sort }
    }),
  )
  for (const asked of queries) {
    const found = users.filter(user => isAsked(user, asked))
    const ids = found.toSorted(byCodePoints(asked.sort)).map(({ id }) => id)
    const lines: string[] = []
    await repository.walk(asked, async text => void lines.push(text))
    expect(idsOf(`[${lines.join('').trimEnd().replaceAll('\n', ',')}]`)).toEqual(ids)
    const query = { ...ALL, ...asked, limit: 300 }
    const { json, next, total } = await repository.list(query)
    expect([total, idsOf(json)]).toEqual([ids.length, ids.slice(0, 300)])
    expect(next?.id).toBe(ids.length > 300 ? ids[299] : undefined)
    if (next !== undefined) {
      const second = await repository.list({ ...query, start: next, withTotal: false })
      expect([second.total, idsOf(second.json)]).toEqual([undefined, ids.slice(300, 600)])
    }
    const paged = await repository.list({ ...query, start: { offset: 40 }, limit: 3 })
    expect([paged.total, idsOf(paged.json)]).toEqual([ids.length, ids.slice(40, 43)])
  }
})
