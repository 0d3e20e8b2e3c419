import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'
import { executeSql, holdWrites } from '../support/sql.ts'
import { until } from '../support/until.ts'

type Headers = readonly (readonly [name: string, value: string])[]

const AS_JSON = ['Content-Type', 'application/json'] as const

const NEW_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/

test('each request writes one line about itself and its outcome', async () => {
  const { http, logLines } = await openTestApp()
  await http.get('/users').set('User-Agent', 'tester/1.0').set('X-Request-Id', 'one').expect(200)
  expect(await until(() => linesOf(logLines, 'one'))).toEqual([
    {
      level: 30,
      time: expect.any(Number),
      requestId: 'one',
      method: 'GET',
      route: '/users',
      status: 200,
      ms: expect.any(Number),
      client: '127.0.0.1',
      userAgent: 'tester/1.0',
      msg: 'request',
    },
  ])
})

test.each([
  ['GET', '/', '/', 200],
  ['GET', '/livez', '/livez', 200],
  ['GET', '/readyz', '/readyz', 200],
  ['GET', '/users', '/users', 200],
  ['GET', '/users/1', '/users/{id}', 200],
  ['GET', '/users/999', '/users/{id}', 404],
  ['GET', '/users/ann@example.com', '/users/{id}', 404],
  ['HEAD', '/users/1', '/users/{id}', 200],
  ['OPTIONS', '/users', '/users', 204],
  ['POST', '/users', '/users', 422],
  ['PUT', '/users/1', '/users/{id}', 422],
  ['PATCH', '/users/1', '/users/{id}', 422],
  ['DELETE', '/users/1', '/users/{id}', 204],
  ['PUT', '/users', '/users', 405],
  ['POST', '/users/abc', '/users/{id}', 405],
  ['GET', '/nowhere', undefined, 404],
  ['GET', '/users/', undefined, 404],
  ['GET', '/users/1/posts', undefined, 404],
  ['GET', '/users/%zz', '/users/{id}', 400],
])('%s %s is logged with the route %s', async (method, path, route, status) => {
  const { port, http, logLines } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  const exchange = sendRaw(port, request(`${method} ${path}`, [['X-Request-Id', 'the-one']]))
  const lines = await until(() => linesOf(logLines, 'the-one'))
  exchange.socket.destroy()
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatchObject({ method, status })
  expect(lines[0]?.route).toBe(route)
  expect(lines[0]?.ms).toBeGreaterThanOrEqual(0)
})

test('the line of a request that is refused before its route has the route', async () => {
  const limits = {
    blocklist: [{ name: 'robots', userAgent: 'robot' }],
    throttle: [{ name: 'all', limit: 1, period: '1 hour' }],
  }
  const env = { API_KEYS: 'required', ALLOWED_HOSTS: 'localhost' }
  const { port, logLines } = await openTestApp({ limits, env })
  for (const [status, headers] of [
    [403, [['User-Agent', 'robot']]],
    [401, []],
    [429, []],
    [421, [['Host', 'elsewhere.example']]],
  ] as const) {
    const answer = await ask(port, 'GET /users/7', headers)
    const lines = linesOf(logLines, answer.headers['x-request-id'])
    expect(lines?.at(-1)).toMatchObject({ msg: 'request', status, route: '/users/{id}' })
  }
})

test('the line of a request has the beginning of a long User-Agent, and none if it was not sent', async () => {
  const { port, logLines } = await openTestApp()
  await ask(port, 'GET /livez', [['X-Request-Id', 'none']])
  expect(linesOf(logLines, 'none')?.[0]).not.toHaveProperty('userAgent')
  const agent = 'x'.repeat(10_000)
  await ask(port, 'GET /livez', [
    ['X-Request-Id', 'long'],
    ['User-Agent', agent],
  ])
  const line = linesOf(logLines, 'long')?.[0]
  expect(agent.startsWith(String(line?.userAgent))).toBe(true)
  expect(JSON.stringify(line).length).toBeLessThan(1000)
})

test.each([
  'a',
  '0',
  'A-z_0.9',
  '...',
  '-_.',
  'f47ac10b-58cc-4372-a567-0e02b2c3d479',
  'x'.repeat(128),
])('X-Request-Id %j is echoed and logged', async id => {
  const { port, logLines } = await openTestApp()
  for (const line of ['GET /users', 'GET /livez', 'GET /nowhere', 'POST /', 'OPTIONS /users']) {
    const answer = await ask(port, line, [['X-Request-Id', id]])
    expect(answer.headers['x-request-id']).toBe(id)
  }
  expect(linesOf(logLines, id)).toHaveLength(5)
})

test.each<[string, readonly string[]]>([
  ['none', []],
  ['empty', ['']],
  ['of 129 characters', ['x'.repeat(129)]],
  ['with a space', ['a b']],
  ['with a comma', ['a,b']],
  ['with a colon', ['a:b']],
  ['with a slash', ['a/b']],
  ['with a plus', ['a+b']],
  ['with a quote', ['"a"']],
  ['with a tab', ['a\tb']],
  ['beyond ASCII', ['\xe9']],
  ['with UTF-8', ['\xc3\xa9']],
  ['sent twice', ['a', 'b']],
  ['sent twice the same', ['a', 'a']],
  ['sent twice, once empty', ['', 'a']],
])('an X-Request-Id that is %s is replaced by a new one', async (_, ids) => {
  const { port, logLines } = await openTestApp()
  const headers = ids.map(id => ['X-Request-Id', id] as const)
  const first = (await ask(port, 'GET /users', headers)).headers['x-request-id'] ?? ''
  const second = (await ask(port, 'GET /nowhere', headers)).headers['x-request-id'] ?? ''
  expect(first).toMatch(NEW_ID)
  expect(second).toMatch(NEW_ID)
  expect(second).not.toBe(first)
  expect(linesOf(logLines, first)).toHaveLength(1)
  expect(linesOf(logLines, second)).toHaveLength(1)
})

test('the line of a request whose client went away before the answer says so', async () => {
  const { port, logLines } = await openTestApp()
  const headers: Headers = [
    AS_JSON,
    ['Content-Length', '50'],
    ['Expect', '100-continue'],
    ['X-Request-Id', 'lost'],
  ]
  const exchange = sendRaw(port, request('POST /users', headers))
  // Shows that the service is reading the body.
  await exchange.answers(1)
  exchange.socket.resetAndDestroy()
  const lines = await until(() => linesOf(logLines, 'lost'))
  expect(lines).toMatchObject([{ method: 'POST', route: '/users', aborted: true }])
})

test('the log has the refusal of a request that does not parse, but not its content', async () => {
  const { port, logLines } = await openTestApp()
  for (const bytes of [
    'hush-hush\r\n\r\n',
    'GET /hush-hush HTTP/1.1\r\nHost: x\r\nAuthorization hush-hush\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: x\r\nCookie: ${'hush-hush'.repeat(2000)}\r\n\r\n`,
    'CONNECT hush-hush:443 HTTP/1.1\r\nHost: hush-hush\r\n\r\n',
  ]) {
    const before = logLines.length
    const [answer] = await sendRaw(port, bytes).ended
    expect(logLines.slice(before)).toEqual([
      expect.objectContaining({ requestId: answer?.headers['x-request-id'] }),
    ])
  }
  expect(JSON.stringify(logLines)).not.toContain('hush-hush')
})

const SECRETS = {
  name: 'Secretname',
  email: 'secretemail@example.com',
  password: 'secretpassword',
  other: 'secretbody',
  query: 'secretquery',
  path: 'secretpath',
  cookie: 'secretcookie',
  authorization: 'secretauthorization',
  proxyAuthorization: 'secretproxy',
}

const { name, email, password, other } = SECRETS

const GOOD = { name, email, password }

const TELLING: Headers = [
  AS_JSON,
  ['Cookie', `session=${SECRETS.cookie}`],
  ['Authorization', `Bearer ${SECRETS.authorization}`],
  ['Proxy-Authorization', `Basic ${SECRETS.proxyAuthorization}`],
]

test('no body, name, address, password, query, cookie or authorization is in any line', async () => {
  const { port, databaseUrl, logLines } = await openTestApp({ env: { BODY_LIMIT: '1kb' } })
  const statuses: number[] = []
  async function tell(line: string, body?: unknown, more: Headers = []): Promise<void> {
    const text = typeof body === 'string' ? body : body === undefined ? '' : JSON.stringify(body)
    statuses.push(
      (await ask(port, `${line}?q=${SECRETS.query}`, [...more, ...TELLING], text)).status,
    )
  }

  await tell('POST /users', { user: GOOD })
  await tell('POST /users', { user: GOOD })
  await tell('POST /users', { user: { ...GOOD, name: `${name}\0` }, other })
  await tell('POST /users', { user: { ...GOOD, email: SECRETS.email.replace('@', '@@') } })
  await tell('POST /users', `{"user":{"name":"${name}","password":"${password}`)
  await tell('POST /users', `${other}${'x'.repeat(2000)}`)
  await tell('POST /users', { user: GOOD }, [['Content-Encoding', 'gzip']])
  await tell('POST /users', { user: GOOD }, [['Content-Encoding', SECRETS.other]])
  await tell('POST /users', { user: GOOD }, [['Content-Type', `text/${SECRETS.other}`]])
  await tell('POST /users', { user: GOOD }, [['Accept', `text/${SECRETS.other}`]])
  await tell('PUT /users/1', { user: { password } })
  await tell('PUT /users/1', { user: { ...GOOD, password: `${password} again` } })
  await tell('PATCH /users/2', { user: GOOD })
  await tell('POST /users/1', { user: GOOD })
  await tell('GET /users/1')
  await tell(`GET /users/${email}`)
  await tell(`DELETE /users/${email}`)
  await tell(`GET /${SECRETS.path}`)
  await tell(`GET /${SECRETS.path}/%zz`)
  const held = await holdWrites(databaseUrl)
  await tell('POST /users', { user: { ...GOOD, email: `x${email}` } })
  await held.release()
  await executeSql(databaseUrl, 'DROP TABLE users')
  await tell('POST /users', { user: { ...GOOD, email: `y${email}` } })
  await tell('GET /users/1')

  const bad = [400, 413, 400, 415, 415, 406]
  expect(statuses).toEqual(
    [201, 422, 422, 422, ...bad, 200, 200, 404, 405, 200, 404, 404, 404, 400, 503, 500, 500].flat(),
  )
  const text = JSON.stringify(logLines)
  expect(logLines.filter(({ msg }) => msg === 'request')).toHaveLength(statuses.length)
  for (const secret of Object.values(SECRETS)) expect(text).not.toContain(secret)
  // As a failed request might show it.
  expect(text).not.toContain('$argon2id')
})

const FORWARDED: Headers = [['X-Forwarded-For', '203.0.113.7, 198.51.100.9']]

test.each([
  ['unset', {}, '127.0.0.1'],
  ['0', { TRUST_PROXY: '0' }, '127.0.0.1'],
  ['1', { TRUST_PROXY: '1' }, '198.51.100.9'],
  ['2', { TRUST_PROXY: '2' }, '203.0.113.7'],
  ['loopback', { TRUST_PROXY: 'loopback' }, '198.51.100.9'],
  ['127.0.0.0/8', { TRUST_PROXY: '127.0.0.0/8' }, '198.51.100.9'],
  ['both proxies', { TRUST_PROXY: 'loopback, 198.51.100.0/24' }, '203.0.113.7'],
  ['another address', { TRUST_PROXY: '10.0.0.1' }, '127.0.0.1'],
])('with TRUST_PROXY %s the log names the right client', async (_, env, client) => {
  const { port, logLines } = await openTestApp({ env })
  const answer = await ask(port, 'GET /users', FORWARDED)
  expect(linesOf(logLines, answer.headers['x-request-id'])).toMatchObject([{ client }])
  const direct = await ask(port, 'GET /users', [])
  expect(linesOf(logLines, direct.headers['x-request-id'])).toMatchObject([{ client: '127.0.0.1' }])
})

const DRIVER_ERROR = byEngine({ sqlite: 'SqliteError', postgres: 'DatabaseError' })

test('an internal error is logged once beside the line of its request, with the same id', async () => {
  const { port, databaseUrl, logLines } = await openTestApp()
  await executeSql(databaseUrl, 'DROP TABLE users')
  const answer = await ask(port, 'GET /users', [])
  const lines = linesOf(logLines, answer.headers['x-request-id'])
  expect(lines).toMatchObject([
    { level: 50, err: { type: DRIVER_ERROR, stack: expect.stringContaining('at ') } },
    { level: 30, msg: 'request', status: 500 },
  ])
})

/** The lines of a request; `undefined` as long as there are none. */
function linesOf(logLines: TestApp['logLines'], id: string | undefined) {
  const lines = logLines.filter(({ requestId }) => requestId === id)
  return lines.length > 0 ? lines : undefined
}

function request(line: string, headers: Headers, body = ''): Buffer {
  const length = body === '' ? [] : [['Content-Length', String(Buffer.byteLength(body))] as const]
  const host = headers.some(([name]) => name === 'Host') ? [] : [['Host', 'localhost'] as const]
  const lines = [...host, ...length, ...headers]
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([
    Buffer.from(`${line} HTTP/1.1\r\n${head}\r\n`, 'latin1'),
    Buffer.from(body),
  ])
}

/** The answer, once the connection is closed and so the line of the request is written. */
async function ask(port: number, line: string, headers: Headers, body = ''): Promise<RawAnswer> {
  const closing = [['Connection', 'close'] as const, ...headers]
  const [answer] = await sendRaw(port, request(line, closing, body)).ended
  if (answer === undefined) throw new Error('no answer')
  return answer
}
