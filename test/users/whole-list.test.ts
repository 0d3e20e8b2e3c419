import { once } from 'node:events'
import { truncateSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { withSqlite } from '../support/databases.ts'
import { byEngine, engine } from '../support/engine.ts'
import { openManagedApp } from '../support/management-requests.ts'
import { createMany, insertManyUsers, LONG_END } from '../support/many-users.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { openResponse } from '../support/open-response.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { connectToPostgres } from '../support/postgres-databases.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'
import type { ShownUser } from '../support/user-scan.ts'

const NDJSON = 'application/x-ndjson'

const CSV = 'text/csv'

const HEADING = 'id,name,email,created_at,updated_at\r\n'

const MANY = 12_000

const openMany = async () => fill(await openTestApp())

async function fill<T extends TestApp>(app: T): Promise<T> {
  await executeSql(app.databaseUrl, insertManyUsers(MANY, LONG_END))
  return app
}

const idsUpTo = (last: number) => Array.from({ length: last }, (_, nth) => nth + 1)

/** The head of a whole list, of which nothing more is read yet. */
const begin = ({ port }: Pick<TestApp, 'port'>, query = '', Accept = NDJSON) =>
  openResponse(port, `/users${query}`, { Accept })

async function usersOf(response: IncomingMessage): Promise<ShownUser[]> {
  const body = await text(response)
  expect(body === '' || body.endsWith('}\n')).toBe(true)
  return body
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))
}

/** With its byte order mark. */
const text = async (response: IncomingMessage) => (await buffer(response)).toString()

const idsOf = (users: readonly ShownUser[]) => users.map(({ id }) => id)

const rename = ({ http }: TestApp, id: number, name: string) =>
  http.put(`/users/${id}`).send({ user: { name } }).expect(200)

const ask = ({ http }: TestApp, path = '/users') => http.get(path).set('Accept', NDJSON)

/** Its first value is 0 when it has moved everything into the file. */
const CHECKPOINT = 'wal_checkpoint(TRUNCATE)'

/** Whether a reader keeps the WAL of SQLite from being emptied, or PostgreSQL from forgetting what was deleted. */
async function isHeld({ databaseUrl }: TestApp): Promise<boolean> {
  if (engine === 'sqlite')
    return withSqlite(databaseUrl, database => database.pragma(CHECKPOINT, { simple: true }) !== 0)
  const client = await connectToPostgres(databaseUrl)
  try {
    const { rows } = await client.query(READERS)
    return rows.length > 0
  } finally {
    await client.end()
  }
}

/** What has a transaction open. */
const READERS = `
  SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`

/** Returns a function that makes the database fail for what reads it now. */
async function prepareFailure({ databaseUrl }: TestApp): Promise<() => void> {
  if (engine === 'sqlite') {
    // A read that ran while the users were written keeps them in the WAL, which would still be whole.
    await until(() =>
      withSqlite(databaseUrl, database => database.pragma(CHECKPOINT, { simple: true }) === 0),
    )
    return () => truncateSync(databaseUrl, 80 * 1024)
  }
  return () => void executeSql(databaseUrl, 'ALTER TABLE users RENAME TO lost').catch(() => {})
}

const few = shareTestApp({
  users: ['b', 'a', 'Zoë', 'c', 'a']
    .map(name => newUserBody({ name, email: `${name}@${name}.co` }))
    .map(({ user }, nth) => ({ user: { ...user, email: `u${9 - nth}@x.co` } })),
})

describe('GET /users as application/x-ndjson', () => {
  test.each([
    '',
    'email=U9@x.co,u5@x.co,nobody@x.co',
    'id=2,3,5&name=a&created_after=2026-01-01T00:00:00Z',
    'id=99999999999999999999',
    'q=x+u',
    'q=a&updated_after=2026-01-01T00:00:00Z',
    'q=zoe&id=1,3',
    'created_after=2026-01-01T00:00:00Z&updated_before=9999-01-01T00:00:00Z&name=A',
  ])('has the users of all pages of ?%s, one in each line', async filters => {
    const users = (await few.http.get(`/users?${filters}`).expect(200)).body
    const response = await begin(few, `?${filters}`)
    expect(response.headers['content-type']).toBe(NDJSON)
    const lines = users.map((user: ShownUser) => `${JSON.stringify(user)}\n`).join('')
    expect(await text(response)).toBe(lines)
  })

  // In a file: contracts/user-lists.test.ts.
  test.each(byEngine({ sqlite: [':memory:'], postgres: [] }))(
    'has all of many users in the order of their ids, in %s',
    async DATABASE_URL => {
      const app = await openTestApp({ env: { DATABASE_URL } })
      await createMany(
        app,
        idsUpTo(1200).map(() => newUserBody().user),
      )
      expect(idsOf(await usersOf(await begin(app)))).toEqual(idsUpTo(1200))
    },
  )

  test('has those of many users that match, whether few or more', async () => {
    const app = await openMany()
    const inSeconds = (from: number) => idsUpTo(MANY).filter(id => 10 + (id % 50) > from)
    const since = (seconds: number) => `?created_after=2026-01-31T12:00:${seconds}Z`
    expect(idsOf(await usersOf(await begin(app, since(57))))).toEqual(inSeconds(57))
    // More than 10,000.
    expect(idsOf(await usersOf(await begin(app, since(10))))).toEqual(inSeconds(10))
  })

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
    const { 'x-request-id': _, date, 'transfer-encoding': coding, ...others } = got.headers
    expect([date, coding]).not.toContain(undefined)
    expect(head.headers).toMatchObject({ ...others, connection: expect.anything() })
    await few.http.head('/users?page=1').set('Accept', NDJSON).expect(400)
  })

  test.each(['per_page=5', 'page=1', 'after=x', 'sort=id', 'count=true', 'envelope=false'])(
    'takes no %s',
    async parameter => {
      const [name = ''] = parameter.split('=')
      const { body } = await ask(few, `/users?name=a&${parameter}`).expect(400)
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
    ['text/csv', CSV],
    ['text/csv;q=0.5, application/x-ndjson;q=0.4', CSV],
    ['text/csv;q=0.4, application/x-ndjson;q=0.5', NDJSON],
    ['text/csv, application/x-ndjson', NDJSON],
    ['text/html, text/csv;q=0.9, */*;q=0.8', CSV],
    ['text/html, */*;q=0.8', 'application/json; charset=utf-8'],
    ['text/*', CSV],
    ['text/html', 406],
  ])('answers Accept: %s with %s', async (accept, expected) => {
    const { status, headers, body } = await few.http.get('/users').set('Accept', accept)
    expect(status === 406 ? status : headers['content-type']).toBe(expected)
    const message = 'Only application/json or application/x-ndjson or text/csv is available'
    if (status === 406) expect(body.message).toBe(message)
  })

  test('is no form of other requests', async () => {
    for (const path of ['/users/1', '/users/changes']) await ask(few, path).expect(406)
    await few.http.post('/users').set('Accept', NDJSON).send(newUserBody()).expect(406)
  })

  test('has each user that existed throughout once, and with the feed from before it all of them', async () => {
    const app = await openMany()
    const { next } = (await app.http.get(`/users/changes?limit=1`)).body
    const response = await begin(app)
    const last = MANY - 1
    await rename(app, last, 'Later')
    for (const id of [2, MANY]) await app.http.delete(`/users/${id}`).expect(204)
    const made = await app.http.post('/users').send(newUserBody()).expect(201)
    const users = new Map<number, ShownUser>()
    for (const user of await usersOf(response)) {
      expect(users.has(user.id)).toBe(false)
      users.set(user.id, user)
    }
    for (let id = 1; id < MANY; id++) if (id !== 2) expect(users.has(id)).toBe(true)
    for (let after = next, hasMore = true; hasMore; ) {
      const { body } = await app.http.get(`/users/changes?limit=1000&after=${after}`)
      for (const { id, user } of body.data) {
        if (user === null) users.delete(id)
        else users.set(id, user)
      }
      after = body.next
      hasMore = body.has_more
    }
    expect([users.size, users.has(2), users.has(MANY)]).toEqual([MANY - 1, false, false])
    expect([users.get(last)?.name, users.get(made.body.id)]).toEqual(['Later', made.body])
  })

  test('that nobody reads holds nothing of the database', async () => {
    const app = await openMany()
    await Promise.all([1, 2, 3, 4].map(() => begin(app)))
    await until(async () => !(await isHeld(app)))
    for (let nth = 0; nth < 20; nth++) await rename(app, MANY - nth, `N ${nth}`)
    await until(async () => !(await isHeld(app)))
  })

  test('runs four times at once, and a client that leaves or is too slow makes room for another', async () => {
    const timeouts = { headersMs: 10_000, requestMs: 10_000, takeMs: 1000, checkEveryMs: 100 }
    const app = await fill(await openManagedApp({ timeouts }))
    const running = async () =>
      parseMetrics((await app.ops.get('/metrics')).text).read('whole_lists')
    const four = await Promise.all(
      ['managementPort', 'port', 'port', 'port'].map(name => begin({ port: app[name as 'port'] })),
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
      let received = ''
      // Node takes a reset for an end if there was less to read than the size of its buffer.
      const onByte = (_: number, [byte = 0]: Uint8Array) => {
        if (received === '') fail()
        received += String.fromCharCode(byte)
        return true
      }
      const onread = { buffer: Buffer.alloc(1), callback: onByte }
      const socket = connect({ port: app.port, host: '127.0.0.1', onread })
      socket.write(head)
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
})

describe('GET /users as text/csv', () => {
  test('has a byte order mark, a heading and a row for each user, which a spreadsheet takes for no formula', async () => {
    const names = ['=1+1', '+1', '-1', '@a', "'a", 'a=b', 'Zo\u00eb "Z", Q', '1']
    const app = await openTestApp({
      users: names.map((name, nth) => newUserBody({ name, email: `=u${nth}@x.co` })),
    })
    const response = await begin(app, '?name=1', CSV)
    expect(response.headers).toMatchObject({
      'content-type': CSV,
      'content-disposition': 'attachment; filename="users.csv"',
      'cache-control': 'private, no-cache',
      vary: 'Accept',
    })
    const [{ created_at: time }] = (await app.http.get('/users?name=1')).body
    expect(await text(response)).toBe(`\ufeff${HEADING}8,1,'=u7@x.co,${time},${time}\r\n`)
    const rows = (await text(await begin(app, '', CSV))).split('\r\n')
    expect(rows).toHaveLength(names.length + 2)
    expect(rows.slice(1, -1).map(row => row.split(",'=u")[0])).toEqual([
      ...["1,'=1+1", "2,'+1", "3,'-1", "4,'@a", "5,'a", '6,a=b', '7,"Zo\u00eb ""Z"", Q"', '8,1'],
    ])
  })

  test('has the rows of all parts after one heading', async () => {
    const app = await openMany()
    const rows = (await text(await begin(app, '', CSV))).split('\r\n')
    expect(`${rows[0]}\r\n`).toBe(`\ufeff${HEADING}`)
    const ids = rows.slice(1, -1).map(row => Number(row.split(',', 1)))
    expect(ids).toEqual(idsUpTo(MANY))
  })

  test.each(['id=99', 'q=nobody', 'created_before=2026-01-01T00:00:00Z'])(
    'of nobody (?%s) is the heading',
    async query => {
      expect(await text(await begin(few, `?${query}`, CSV))).toBe(`\ufeff${HEADING}`)
    },
  )

  test('takes no parameters of pages, and HEAD has its headers', async () => {
    const { body } = await few.http.get('/users?sort=name').set('Accept', CSV).expect(400)
    expect(body.errors).toEqual({ sort: ['cannot be given for the whole list'] })
    const { headers } = await few.http.head('/users').set('Accept', CSV).expect(200)
    expect(headers['content-disposition']).toBe('attachment; filename="users.csv"')
  })
})
