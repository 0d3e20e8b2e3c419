import { once } from 'node:events'
import { truncateSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { withSqlite } from '../support/databases.ts'
import { byEngine, engine, isEngine } from '../support/engine.ts'
import { openManagedApp } from '../support/management-requests.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { connectToPostgres } from '../support/postgres-databases.ts'
import { sendRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql, holdWrites } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'
import type { ShownUser } from '../support/user-order.ts'

const NDJSON = 'application/x-ndjson'

/** So many that neither the service nor the system holds the whole list for a client that does not read. */
const MANY = 40_000

const MANY_SQL = byEngine({
  sqlite: `
    WITH RECURSIVE serial (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM serial WHERE n < ${MANY})
    INSERT INTO users (name, name_lower, email, created_at, updated_at)
    SELECT 'N' || (n % 100) || hex(zeroblob(100)), 'n' || (n % 100) || hex(zeroblob(100)), 'u' || n || '@x.co', time, time
    FROM (SELECT n, '2026-01-31T12:00:' || substr('0' || (n % 60), -2) || '.000Z' AS time FROM serial)`,
  postgres: `
    INSERT INTO users (name, name_lower, email, created_at, updated_at)
    SELECT 'N' || (n % 100) || repeat('0', 200), 'n' || (n % 100) || repeat('0', 200), 'u' || n || '@x.co', time, time
    FROM (SELECT n, '2026-01-31T12:00:' || lpad((n % 60)::text, 2, '0') || '.000Z' AS time
      FROM generate_series(1, ${MANY}) AS n) AS serial`,
})

async function openMany(): Promise<TestApp> {
  return fill(await openTestApp())
}

async function fill<T extends TestApp>(app: T): Promise<T> {
  await executeSql(app.databaseUrl, MANY_SQL)
  return app
}

/** The head of a whole list, of which nothing more is read yet. */
async function begin({ port }: Pick<TestApp, 'port'>, query = ''): Promise<IncomingMessage> {
  const path = `/users${query}`
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ port, path, headers: { Accept: NDJSON }, agent: false }, resolve).on('error', reject)
  })
  response.on('error', () => {})
  onTestFinished(() => void response.destroy())
  return response
}

async function usersOf(response: IncomingMessage): Promise<ShownUser[]> {
  const body = await text(response)
  expect(body === '' || body.endsWith('}\n')).toBe(true)
  return body
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))
}

const idsOf = (users: readonly ShownUser[]) => users.map(({ id }) => id)

const ask = ({ http }: TestApp, path = '/users') => http.get(path).set('Accept', NDJSON)

/** Its first value is 0 when it has moved everything into the file. */
const CHECKPOINT = 'wal_checkpoint(TRUNCATE)'

/** Returns a function that makes the database fail for what reads it now. */
async function prepareFailure({ databaseUrl }: TestApp): Promise<() => void> {
  if (engine === 'sqlite') {
    // A read that ran while the users were written keeps them in the WAL, which would still be whole.
    await until(() =>
      withSqlite(databaseUrl, database => database.pragma(CHECKPOINT, { simple: true }) === 0),
    )
    return () => truncateSync(databaseUrl, 80 * 1024)
  }
  const client = await connectToPostgres(databaseUrl)
  let failing: Promise<unknown> | undefined
  onTestFinished(async () => {
    await failing
    await client.end()
  })
  const readers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()`
  return () => {
    failing = client.query(readers)
  }
}

const few = shareTestApp({
  users: ['b', 'a', 'Zoë', 'c', 'a']
    .map(name => newUserBody({ name, email: `${name}@${name}.co` }))
    .map(({ user }, nth) => ({ user: { ...user, email: `u${9 - nth}@x.co` } })),
})

describe('GET /users as application/x-ndjson', () => {
  test.each(['id', '-id', 'name', '-name', 'email', '-email', 'created_at', '-updated_at'])(
    'has the users of all pages of sort=%s and any filters, one in each line',
    async sort => {
      for (const filters of [
        '',
        '&name=a',
        '&id=1,2,5,9',
        '&email=U9@x.co,u5@x.co,nobody@x.co',
        '&id=2,3,5&name=a&created_after=2026-01-01T00:00:00Z',
        '&q=x+u',
        '&q=a&updated_after=2026-01-01T00:00:00Z',
        '&q=zoe&id=1,3',
        '&created_after=2026-01-01T00:00:00Z',
        '&created_after=2026-01-01T00:00:00Z&updated_before=9999-01-01T00:00:00Z&name=A',
        '&created_before=2026-01-01T00:00:00Z',
      ]) {
        const path = `/users?sort=${sort}${filters}`
        const users = (await few.http.get(path).expect(200)).body
        const { headers } = await begin(few, `?sort=${sort}${filters}`)
        expect(headers['content-type']).toBe(NDJSON)
        const lines = await text(await begin(few, `?sort=${sort}${filters}`))
        expect(lines).toBe(users.map((user: ShownUser) => `${JSON.stringify(user)}\n`).join(''))
      }
    },
  )

  test.each(byEngine({ sqlite: ['a file', ':memory:'], postgres: ['a database'] }))(
    'has all of many users in their order, in %s',
    async place => {
      const app =
        place === ':memory:'
          ? await openTestApp({
              env: { DATABASE_URL: place },
              users: Array.from({ length: 1500 }, (_, nth) => newUserBody({ name: `n${nth % 7}` })),
            })
          : await openMany()
      const all = await usersOf(await begin(app, '?sort=-name'))
      expect(new Set(idsOf(all)).size).toBe(place === ':memory:' ? 1500 : MANY)
      const names = all.map(({ name }) => name)
      expect(names).toEqual(names.toSorted().reverse())
    },
  )

  test('has the headers of each response but no ETag, Link or length, and HEAD the same', async () => {
    const [got, head] = [await ask(few), await few.http.head('/users').set('Accept', NDJSON)]
    expect(got.headers).toMatchObject({
      'content-type': NDJSON,
      'cache-control': 'private, no-cache',
      vary: 'Accept',
      'x-content-type-options': 'nosniff',
    })
    for (const name of ['etag', 'link', 'content-length'])
      expect(got.headers).not.toHaveProperty(name)
    expect([head.status, head.text]).toEqual([200, undefined])
    const {
      'x-request-id': _,
      date,
      'transfer-encoding': coding,
      connection,
      ...others
    } = got.headers
    expect([date, coding, connection]).not.toContain(undefined)
    expect(head.headers).toMatchObject(others)
    await few.http.head('/users?page=1').set('Accept', NDJSON).expect(400)
  })

  test.each(['per_page=5', 'page=1', 'after=x', 'count=true', 'envelope=false'])(
    'takes no %s',
    async parameter => {
      const [name = ''] = parameter.split('=')
      const { body } = await ask(few, `/users?sort=name&${parameter}`).expect(400)
      expect(body).toMatchObject({
        reason: 'query_invalid',
        errors: { [name]: ['cannot be given for the whole list'] },
      })
    },
  )

  test('names every wrong parameter', async () => {
    const { body } = await ask(few, '/users?foo=1&page=1&sort=x&id=0&q=*').expect(400)
    expect(Object.keys(body.errors).toSorted()).toEqual(['foo', 'id', 'page', 'q', 'sort'])
  })

  test.each([
    ['application/x-ndjson;q=0.5, application/json;q=0.4', NDJSON],
    ['application/x-ndjson, application/problem+json', NDJSON],
    ['application/*;q=0.5, application/x-ndjson', NDJSON],
    ['application/x-ndjson, application/json', 'application/json; charset=utf-8'],
    ['application/x-ndjson;q=0.9, */*', 'application/json; charset=utf-8'],
    ['application/json;q=0.1, */*', 'application/json; charset=utf-8'],
    ['application/json;q=0, */*', 'application/json; charset=utf-8'],
    ['application/*, application/json;q=0, application/problem+json;q=0', NDJSON],
    ['application/x-ndjson;q=0', 406],
    ['*/*', 'application/json; charset=utf-8'],
    ['text/csv', 406],
  ])('answers Accept: %s with %s', async (accept, expected) => {
    const { status, headers, body } = await few.http.get('/users').set('Accept', accept)
    expect(status === 406 ? status : headers['content-type']).toBe(expected)
    const message = 'Only application/json or application/x-ndjson is available'
    if (status === 406) expect(body.message).toBe(message)
  })

  test('is no form of other requests', async () => {
    for (const path of ['/users/1', '/users/changes']) await ask(few, path).expect(406)
    await few.http.post('/users').set('Accept', NDJSON).send(newUserBody()).expect(406)
  })

  test('shows the users of its beginning, whatever changes meanwhile', async () => {
    const app = await openMany()
    const response = await begin(app, '?sort=-id')
    const later = { user: { name: 'Later' } }
    await app.http.put('/users/3').send(later).expect(200)
    await app.http.delete('/users/2').expect(204)
    await app.http.post('/users').send(newUserBody()).expect(201)
    const users = await usersOf(response)
    expect(idsOf(users)).toEqual(Array.from({ length: MANY }, (_, nth) => MANY - nth))
    expect(users.at(-3)?.name).toMatch(/^N3/)
    expect(idsOf(await usersOf(await begin(app, '?sort=-id'))).slice(0, 1)).not.toEqual([MANY])
  })

  test('runs four times at once, and a client that leaves or is too slow makes room for another', async () => {
    const timeouts = { headersMs: 10_000, requestMs: 10_000, takeMs: 1000, checkEveryMs: 100 }
    const app = await fill(await openManagedApp({ timeouts }))
    const running = async () =>
      parseMetrics((await app.ops.get('/metrics')).text).read('whole_lists')
    const four = await Promise.all(
      ['managementPort', 'port', 'port', 'port'].map(name =>
        begin({ port: app[name as 'port'] }, '?sort=name'),
      ),
    )
    expect(await running()).toBe(4)
    const refused = await ask(app).expect(503)
    expect(refused.body.reason).toBe('overloaded')
    expect(refused.headers['retry-after']).toBe('5')
    await app.http.head('/users').set('Accept', NDJSON).expect(200)
    await app.http.get('/users?sort=name&created_after=2026-01-31T12:00:30Z&count=true').expect(200)
    four[0]?.destroy()
    const fifth = await untilPasses(async () => {
      const response = await begin(app, '?id=1')
      expect(response.statusCode).toBe(200)
      return response
    })
    expect(await usersOf(fifth)).toHaveLength(1)
    // The others read nothing.
    await until(async () => (await running()) === 0)
    await expect(usersOf(four[1] as IncomingMessage)).rejects.toThrow('aborted')
    const lines = app.logLines.filter(({ msg, aborted }) => msg === 'request' && aborted)
    expect(lines).toHaveLength(4)
    expect(lines[1]).toMatchObject({ route: '/users', status: 200, ms: expect.any(Number) })
  })

  test.each(['1.0', '1.1'])(
    'is broken off when the database fails in the middle, for a client of HTTP/%s',
    async version => {
      const app = await openMany()
      const fail = await prepareFailure(app)
      const head = `GET /users HTTP/${version}\r\nHost: localhost\r\nAccept: ${NDJSON}\r\n\r\n`
      const { socket } = sendRaw(app.port, head)
      let received = ''
      socket.once('data', () => fail())
      socket.on('data', chunk => {
        received += chunk
      })
      // A plain end would tell a client of HTTP/1.0 that this was all.
      const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
      expect(error.code).toBe('ECONNRESET')
      expect(received).toMatch(/^HTTP\/1.1 200 OK\r\n/)
      expect(received).not.toMatch(/0\r\n\r\n$/)
      // Other reads of the database, of no request, may warn meanwhile.
      const failures = app.logLines.filter(line => Number(line.level) >= 40 && line.requestId)
      expect(failures).toHaveLength(1)
      await until(() => app.logLines.find(({ msg, aborted }) => msg === 'request' && aborted))
    },
  )

  describe.each(['port', 'managementPort'] as const)('of its %s', name => {
    test('is waited for by a stop', async () => {
      const app = await fill(await openManagedApp())
      const response = await begin({ port: app[name] })
      const stopped = app.stop(60_000)
      // Longer than a stop waits for other requests of operators.
      await sleep(1500)
      expect(await usersOf(response)).toHaveLength(MANY)
      expect(await stopped).toBe(true)
    })

    test('is cut off by a stop whose time is over', async () => {
      const app = await fill(await openManagedApp())
      const response = await begin({ port: app[name] })
      expect(await app.stop(200)).toBe(false)
      await expect(usersOf(response)).rejects.toThrow('aborted')
    })
  })

  test.skipIf(!isEngine('sqlite', 'a whole list while the index of words lacks users'))(
    'with q is 503 while the index of words lacks users',
    async () => {
      const app = await openTestApp({ users: [newUserBody({ name: 'Ann' })] })
      await executeSql(app.databaseUrl, 'UPDATE users_words_state SET indexed_through = 0')
      await holdWrites(app.databaseUrl)
      const { body } = await ask(app, '/users?q=ann').expect(503)
      expect(body.reason).toBe('words_unavailable')
      await ask(app, '/users?name=ann').expect(200)
    },
  )
})
