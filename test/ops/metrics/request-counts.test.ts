import { expect, test } from 'vitest'
import { addKey, unknownKey } from '../../support/api-keys.ts'
import { newUserBody } from '../../support/builders.ts'
import { type ManagedApp, openManagedApp } from '../../support/management-requests.ts'
import { type Metrics, parseMetrics } from '../../support/metrics-text.ts'
import { databaseIn } from '../../support/new-database.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { executeSql } from '../../support/sql.ts'
import { untilPasses } from '../../support/until.ts'

const DURATION = 'http_request_duration_seconds'

const KNOWN_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** How many requests, by method, route and status. */
type Counts = Readonly<Record<string, number>>

async function readMetrics({ ops }: Pick<ManagedApp, 'ops'>): Promise<Metrics> {
  return parseMetrics((await ops.get('/metrics').expect(200)).text)
}

function countsIn(metrics: Metrics): Counts {
  const counts = metrics.all(`${DURATION}_count`).map(({ labels, value }) => {
    const { method, route, status, ...others } = labels
    expect(others).toEqual({})
    return [`${method} ${route} ${status}`, value] as const
  })
  return Object.fromEntries(counts)
}

/** A request on a connection of its own. */
function requestText(line: string, headers: readonly string[] = [], body = ''): string {
  const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  const json = 'Content-Type: application/json'
  const lines = [`${line} HTTP/1.1`, 'Host: localhost', 'Connection: close', json, ...length]
  return `${[...lines, ...headers].join('\r\n')}\r\n\r\n${body}`
}

async function send(
  { port }: Pick<ManagedApp, 'port'>,
  ...request: Parameters<typeof requestText>
) {
  const [answer] = await sendRaw(port, requestText(...request)).ended
  if (answer === undefined) throw new Error('no answer')
  return answer
}

const MALFORMED = [
  'hush-hush\r\n\r\n',
  'GET /users HTTP/1.1\r\nHost: x\r\nAuthorization hush\r\n\r\n',
  `GET / HTTP/1.1\r\nHost: x\r\nCookie: ${'hush'.repeat(5000)}\r\n\r\n`,
  'CONNECT hush:443 HTTP/1.1\r\nHost: hush\r\n\r\n',
]

const THROTTLE = {
  throttle: [{ name: 'posts', method: 'POST', path: '/users', limit: 3, period: '1 hour' }],
  blocklist: [{ name: 'scanners', userAgent: 'sqlmap' }],
}

/** Sends requests of every kind, and returns how they must be counted. */
async function sendMix(app: ManagedApp): Promise<Counts> {
  const user = JSON.stringify(newUserBody())
  const expected: Record<string, number> = {}
  async function ask(route: string, ...request: Parameters<typeof requestText>): Promise<void> {
    const [method = '', path = ''] = request[0].split(' ')
    // What `send` reads has a body if it has a length.
    const { status } = await (method === 'HEAD' ? app.http.head(path) : send(app, ...request))
    const key = `${KNOWN_METHODS.includes(method) ? method : '_OTHER'} ${route} ${status}`
    expected[key] = (expected[key] ?? 0) + 1
  }

  await ask('/users', 'POST /users', [], user)
  await ask('/users', 'POST /users', [], user)
  await ask('/users', 'POST /users', [], '{')
  await ask('/users', 'POST /users', [], user)
  await ask('/users', 'POST /users?x=1', [], user)
  await ask('/users/{id}', 'GET /users/1')
  await ask('/users/{id}', 'GET /users/1?name=a')
  await ask('/users/{id}', 'HEAD /users/1')
  await ask('/users/{id}', 'GET /users/999')
  await ask('/users/{id}', 'GET /users/ann@example.com')
  await ask('/users/{id}', 'PUT /users/1', [], '{"user":{"name":"Other"}}')
  await ask('/users/{id}', 'DELETE /users/1', ['If-Match: "no"'])
  await ask('/users/{id}', 'DELETE /users/1')
  await ask('/users/{id}', 'POST /users/1', [], user)
  await ask('/users', 'GET /users')
  await ask('/users', 'GET /users?page=0')
  await ask('/users', 'OPTIONS /users')
  await ask('/users', 'GET /users', ['Accept: text/css'])
  await ask('/users', 'PROPFIND /users')
  await ask('', 'PURGE /nowhere')
  await ask('', 'GET /nowhere')
  await ask('', 'GET /users/1/posts')
  await ask('', 'GET /users/')
  await ask('', 'GET /__proto__')
  await ask('/users/{id}', 'GET /users/%zz')
  await ask('/livez', 'GET /livez')
  await ask('/readyz', 'HEAD /readyz')
  // Refused before their routes.
  await ask('/users/{id}', 'GET /users/7', ['User-Agent: sqlmap'])
  await ask('', 'GET /seven', ['User-Agent: sqlmap'])
  await ask('/users', 'GET /users', ['Host: localhost'])
  for (const bytes of MALFORMED) {
    const [answer] = await sendRaw(app.port, bytes).ended
    const key = `_OTHER  ${answer?.status}`
    expected[key] = (expected[key] ?? 0) + 1
  }
  const lost = sendRaw(
    app.port,
    requestText('POST /password-verifications', ['Content-Length: 50', 'Expect: 100-continue']),
  )
  await lost.answers(1)
  lost.socket.resetAndDestroy()
  return { ...expected, 'POST /password-verifications 0': 1 }
}

test('each request is counted once, by method, route and status', async () => {
  const app = await openManagedApp({ limits: THROTTLE })
  const expected = await sendMix(app)
  await untilPasses(async () => expect(countsIn(await readMetrics(app))).toEqual(expected))
  expect(Object.keys(expected)).toEqual(
    expect.arrayContaining([
      'POST /users 201',
      'POST /users 422',
      'POST /users 400',
      'POST /users 429',
      'GET /users/{id} 403',
      'GET  403',
      '_OTHER /users 405',
      '_OTHER  404',
      '_OTHER  431',
    ]),
  )
})

test('the counts and durations agree with the lines of the log', async () => {
  const app = await openManagedApp({ limits: THROTTLE })
  const expected = await sendMix(app)
  const total = Object.values(expected).reduce((sum, count) => sum + count, 0)
  // Before `logged`, which may send requests of its own.
  const metrics = await untilPasses(async () => {
    const read = await readMetrics(app)
    expect(countsIn(read)).toEqual(expected)
    return read
  })
  const lines = await untilPasses(async () => {
    const found = app.logLines.filter(
      ({ msg, port }) => port === undefined && ['request', 'request refused'].includes(`${msg}`),
    )
    expect(found).toHaveLength(total)
    return found
  })
  const logged: Record<string, number> = {}
  const expectedByStatus: Record<string, number> = {}
  for (const { msg, method, status, aborted } of lines) {
    const isKnown = msg === 'request' && KNOWN_METHODS.includes(`${method}`)
    const key = `${isKnown ? method : '_OTHER'} ${aborted === true ? 0 : status}`
    logged[key] = (logged[key] ?? 0) + 1
  }
  for (const [labels, count] of Object.entries(expected)) {
    const [method, , status] = labels.split(' ')
    const key = `${method} ${status}`
    expectedByStatus[key] = (expectedByStatus[key] ?? 0) + count
  }
  expect(logged).toEqual(expectedByStatus)
  const seconds = metrics.all(`${DURATION}_sum`).reduce((sum, { value }) => sum + value, 0)
  const loggedMs = lines.reduce((sum, { ms }) => sum + Number(ms ?? 0), 0)
  // The log has microseconds.
  expect(Math.abs(seconds * 1000 - loggedMs)).toBeLessThan(total * 0.001)
  expect(metrics.read('http_requests_in_flight')).toBe(0)
})

test('counting goes on where the log says less', async () => {
  const app = await openManagedApp({ env: { LOG_LEVEL: 'info', API_KEYS: 'off' } })
  for (let count = 0; count < 20; count++) await app.http.get('/users').expect(200)
  await untilPasses(async () =>
    expect(countsIn(await readMetrics(app))).toEqual({ 'GET /users 200': 20 }),
  )
})

test('requests of the management port are not counted', async () => {
  const app = await openManagedApp()
  for (let count = 0; count < 3; count++) await app.ops.get('/livez').expect(200)
  await app.ops.get('/nowhere').expect(404)
  expect(countsIn(await readMetrics(app))).toEqual({})
  const metrics = await readMetrics(app)
  expect(metrics.read('http_connections')).toBe(0)
  expect(metrics.types[DURATION]).toBe('histogram')
})

test('a request is in flight until it is answered, and its connection is open', async () => {
  const app = await openManagedApp()
  const request = requestText('POST /users', ['Content-Length: 50', 'Expect: 100-continue'])
  const exchange = sendRaw(app.port, request)
  await exchange.answers(1)
  // The connections that opening the service took may be closed a little later.
  await untilPasses(async () => {
    const during = await readMetrics(app)
    expect(during.read('http_requests_in_flight')).toBe(1)
    expect(during.read('http_connections')).toBe(1)
    expect(countsIn(during)).toEqual({})
  })
  exchange.socket.write('x'.repeat(50))
  await exchange.ended
  await untilPasses(async () => {
    const after = await readMetrics(app)
    expect(after.read('http_requests_in_flight')).toBe(0)
    expect(after.read('http_connections')).toBe(0)
    expect(countsIn(after)).toEqual({ 'POST /users 400': 1 })
  })
})

test('shed requests are counted as many as were answered with overloaded', async () => {
  const app = await openManagedApp({
    env: { MAX_EVENT_LOOP_DELAY: '1ms', MAX_WAITING_REQUESTS: '1' },
  })
  const shed = () => app.logLines.filter(({ reason }) => reason === 'overloaded').length
  let sent = 0
  await untilPasses(async () => {
    await Promise.all(Array.from({ length: 200 }, () => send(app, 'GET /users?per_page=1000')))
    sent += 200
    expect(shed()).toBeGreaterThan(0)
  })
  const metrics = await readMetrics(app)
  expect(metrics.read('http_requests_shed_total')).toBe(shed())
  const counts = countsIn(metrics)
  expect(counts['GET /users 503']).toBe(shed())
  expect(counts['GET /users 200']).toBe(sent - shed())
  expect(metrics.read('queue_length', { queue: 'requests' })).toBe(0)
})

test('requests with an API key are counted by its name', async () => {
  const databaseUrl = await databaseIn(temporaryFolder())
  const reader = await addKey(databaseUrl, { name: 'reader', scopes: ['users:read'] })
  const other = await addKey(databaseUrl, { name: 'constructor' })
  const expired = await addKey(databaseUrl, { name: 'expired', expiresAt: 1 })
  const app = await openManagedApp({ env: { DATABASE_URL: databaseUrl, API_KEYS: 'required' } })
  const ask = (line: string, key: string) => send(app, line, [`Authorization: Bearer ${key}`])
  const statuses: number[] = []
  for (const [line, key] of [
    ['GET /users', reader],
    ['GET /users', reader],
    ['DELETE /users/1', reader],
    ['GET /nowhere', reader],
    ['GET /users', other],
    ['GET /users', expired],
    ['GET /users', unknownKey()],
    ['GET /users', 'x'],
  ] as const) {
    statuses.push((await ask(line, key)).status)
  }
  expect(statuses).toEqual([200, 200, 403, 404, 200, 401, 401, 401])
  await untilPasses(async () => {
    const metrics = await readMetrics(app)
    const byKey = metrics
      .all('http_requests_by_key_total')
      .map(({ labels, value }) => [labels.key, value])
    expect(Object.fromEntries(byKey)).toEqual({ reader: 4, constructor: 1 })
    expect(countsIn(metrics)).toEqual({
      'GET /users 200': 3,
      'DELETE /users/{id} 403': 1,
      'GET  404': 1,
      'GET /users 401': 3,
    })
  })
})

test('decisions of the limits are counted by rule and outcome, from 0 on', async () => {
  const limits = {
    throttle: [
      { name: 'lists', path: '/users', limit: 2, period: '1 hour' },
      { name: 'tried "out"', path: '/nowhere', limit: 1, period: '1 hour', dryRun: true },
    ],
    bans: [{ name: 'login', path: '/login', maxretry: 1, findtime: 60, bantime: 60 }],
  }
  const app = await openManagedApp({ limits, env: { TRUST_PROXY: '1' } })
  const decisions = async () => {
    const found = (await readMetrics(app)).all('limit_decisions_total')
    return Object.fromEntries(
      found.map(({ labels: { type, rule, outcome, ...others }, value }) => {
        expect(others).toEqual({})
        return [`${type} ${rule} ${outcome}`, value]
      }),
    )
  }
  const before = await decisions()
  expect(Object.keys(before)).toHaveLength(9)
  expect(Object.values(before)).toEqual(Object.values(before).map(() => 0))
  const ask = async (path: string, client: string) =>
    (await send(app, `GET ${path}`, [`X-Forwarded-For: ${client}`])).status
  const statuses: number[] = []
  for (const path of ['/users', '/users', '/users', '/nowhere', '/nowhere']) {
    statuses.push(await ask(path, '203.0.113.1'))
  }
  expect(await ask('/login', '203.0.113.2')).toBe(404)
  expect(await ask('/users', '203.0.113.2')).toBe(403)
  expect(statuses).toEqual([200, 200, 429, 404, 404])
  await untilPasses(async () => {
    expect(await decisions()).toMatchObject({
      'throttle lists passed': 2,
      'throttle lists refused': 1,
      'throttle lists would_refuse': 0,
      'throttle tried "out" passed': 1,
      'throttle tried "out" refused': 0,
      'throttle tried "out" would_refuse': 1,
      'ban login passed': 1,
      'ban login refused': 1,
    })
    const metrics = await readMetrics(app)
    expect(metrics.read('limit_requests_counted_total', { rule: 'lists' })).toBe(3)
    expect(metrics.read('limit_bans')).toBe(1)
    expect(metrics.read('limit_store_up')).toBe(1)
  })
})

test('storage_up is 0 while the database does not answer', async () => {
  const app = await openManagedApp()
  expect((await readMetrics(app)).read('storage_up')).toBe(1)
  await executeSql(app.databaseUrl, 'ALTER TABLE users RENAME TO elsewhere')
  expect((await readMetrics(app)).read('storage_up')).toBe(0)
  await executeSql(app.databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  expect((await readMetrics(app)).read('storage_up')).toBe(1)
})

const SECRETS = ['Secretname', 'secret@example.com', 'secretpassword', 'secretquery', 'secretpath']

test('nothing of a user, a client or a key is in any metric', async () => {
  const databaseUrl = await databaseIn(temporaryFolder())
  const bearer = `Bearer ${await addKey(databaseUrl)}`
  const app = await openManagedApp({ env: { DATABASE_URL: databaseUrl, API_KEYS: 'required' } })
  const headers = [
    `Authorization: ${bearer}`,
    'User-Agent: secretagent',
    'Cookie: secretcookie',
    'X-Request-Id: secretrequest',
    'Idempotency-Key: secretidempotency',
    'X-Forwarded-For: 203.0.113.77',
    'tracestate: secretstate=1',
  ]
  const [name, email, password] = SECRETS
  const body = JSON.stringify({ user: { name, email, password } })
  for (const line of [
    'POST /users',
    'POST /password-verifications',
    'GET /users/1',
    'GET /users/4711',
    'GET /users?email=secret@example.com',
    'GET /users?secretquery=1',
    'GET /secretpath',
    'GET /users/secret@example.com',
    'GET /users/%zz/secretpath',
    'SECRETMETHOD /users',
    'PROPFIND /secretpath',
  ]) {
    await send(app, line, headers, body)
    await send(app, line, [], body)
  }
  for (const accept of ['text/plain', 'application/openmetrics-text']) {
    const { text } = await app.ops.get('/metrics').set('Accept', accept).expect(200)
    expect(text).toContain('users')
    expect(text.toLowerCase()).not.toContain('secret')
    for (const told of ['4711', '127.0.0.1', '203.0.113', bearer.slice(-20)]) {
      expect(text).not.toContain(told)
    }
  }
})
