import { expect, onTestFinished, test, vi } from 'vitest'
import type { ServiceStatus } from '../../../src/ops/management/service-status.ts'
import { unknownKey } from '../../support/api-keys.ts'
import { newUserBody } from '../../support/builders.ts'
import { type ManagedApp, openManagedApp } from '../../support/management-requests.ts'
import { type Metrics, parseMetrics } from '../../support/metrics-text.ts'
import {
  AS_JSON,
  askAndClose,
  CLOSING,
  type RawHeaders,
  requestBytes,
  sendRaw,
} from '../../support/raw-http.ts'
import { untilPasses } from '../../support/until.ts'

const DURATION = 'http_request_duration_seconds'

const KNOWN_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** How many requests, by method, route and status, or by fewer of them. */
type Counts = Record<string, number>

const USER = JSON.stringify(newUserBody())

type Rest = readonly [headers?: RawHeaders, body?: string]

/** By the route that their metrics name. */
const REQUESTS: readonly [route: string, line: string, ...Rest][] = [
  ['/users', 'POST /users', {}, USER],
  ['/users', 'POST /users', {}, USER],
  ['/users', 'POST /users', {}, '{'],
  ['/users', 'POST /users?x=1', {}, USER],
  ['/users/{id}', 'GET /users/1?name=a'],
  ['/users/{id}', 'HEAD /users/1'],
  ['/users/{id}', 'GET /users/ann@example.com'],
  ['/users/{id}', 'PUT /users/1', {}, '{"user":{"name":"Other"}}'],
  ['/users/{id}', 'DELETE /users/1', { 'If-Match': '"no"' }],
  ['/users/{id}', 'DELETE /users/1'],
  ['/users', 'GET /users'],
  ['/users', 'OPTIONS /users'],
  ['/users', 'GET /users', { Accept: 'text/css' }],
  ['/users', 'PROPFIND /users'],
  ['', 'PURGE /nowhere'],
  ['', 'GET /users/1/posts'],
  ['', 'GET /__proto__'],
  ['/users/{id}', 'GET /users/%zz'],
  ['/livez', 'GET /livez'],
  ['/readyz', 'HEAD /readyz'],
  // Refused before their routes.
  ['/users/{id}', 'GET /users/7', { 'User-Agent': 'sqlmap' }],
  ['', 'GET /seven', { 'User-Agent': 'sqlmap' }],
  ['/users', 'GET /users', { Host: ['localhost', 'localhost'] }],
]

const MALFORMED = [
  'hush-hush\r\n\r\n',
  `GET / HTTP/1.1\r\nHost: x\r\nCookie: ${'hush'.repeat(5000)}\r\n\r\n`,
  'CONNECT hush:443 HTTP/1.1\r\nHost: hush\r\n\r\n',
]

test('each request is counted once by method, route and status, as the log has it', async () => {
  const app = await openManagedApp({
    limits: {
      throttle: [{ name: 'posts', method: 'POST', path: '/users', limit: 3, period: '1 hour' }],
      blocklist: [{ name: 'scanners', userAgent: 'sqlmap' }],
    },
  })
  const expected: Counts = {}
  for (const [route, line, ...parts] of REQUESTS) {
    const [method = ''] = line.split(' ')
    const status = await send(app, line, ...parts)
    increase(expected, `${KNOWN_METHODS.includes(method) ? method : '_OTHER'} ${route} ${status}`)
  }
  for (const bytes of MALFORMED) {
    increase(expected, `_OTHER  ${(await sendRaw(app.port, bytes).ended)[0]?.status}`)
  }
  const lost = sendRaw(app.port, requestBytes('POST /password-verifications', EXPECTING))
  await lost.answers(1)
  lost.socket.resetAndDestroy()
  increase(expected, 'POST /password-verifications 0')
  const kinds = ['POST /users 201', 'POST /users 422', 'POST /users 400', 'POST /users 429']
  const refused = ['GET /users/{id} 403', 'GET  403', '_OTHER /users 405', '_OTHER  431']
  expect(Object.keys(expected)).toEqual(expect.arrayContaining([...kinds, ...refused]))

  const total = REQUESTS.length + MALFORMED.length + 1
  const isAboutRequest = ({ msg, port }: Record<string, unknown>) =>
    port === undefined && ['request', 'request refused'].includes(`${msg}`)
  const [metrics, lines] = await untilPasses(async () => {
    const read = await readMetrics(app)
    expect(countsIn(read)).toEqual(expected)
    const found = app.logLines.filter(isAboutRequest)
    expect(found).toHaveLength(total)
    return [read, found]
  })
  const byMethodAndStatus: Counts = {}
  for (const [labels, count] of Object.entries(expected)) {
    increase(byMethodAndStatus, labels.replace(/ .* /, ' '), count)
  }
  const logged: Counts = {}
  for (const { msg, method, status, aborted } of lines) {
    const isKnown = msg === 'request' && KNOWN_METHODS.includes(`${method}`)
    increase(logged, `${isKnown ? method : '_OTHER'} ${aborted === true ? 0 : status}`)
  }
  expect(logged).toEqual(byMethodAndStatus)
  const seconds = metrics.all(`${DURATION}_sum`).reduce((sum, { value }) => sum + value, 0)
  const loggedMs = lines.reduce((sum, { ms }) => sum + Number(ms ?? 0), 0)
  // The log has microseconds.
  expect(Math.abs(seconds * 1000 - loggedMs)).toBeLessThan(total * 0.001)
})

test('a request is in flight until it is answered, and its connection is open; none of this port', async () => {
  const app = await openManagedApp()
  const exchange = sendRaw(app.port, requestBytes('POST /users', { ...CLOSING, ...EXPECTING }))
  await exchange.answers(1)
  const expectNow = (open: number, counts: Counts) =>
    // A connection that opening the service took, or that was answered, may be closed a little later.
    untilPasses(async () => {
      const metrics = await readMetrics(app)
      const now = ['http_requests_in_flight', 'http_connections'].map(name => metrics.read(name))
      expect([now, countsIn(metrics)]).toEqual([[open, open], counts])
    })
  await expectNow(1, {})
  exchange.socket.write('x'.repeat(50))
  await exchange.ended
  await expectNow(0, { 'POST /users 400': 1 })
})

test('shed requests are counted as many as were answered with overloaded', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
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
  vi.advanceTimersByTime(2000)
  await untilPasses(async () => {
    const { requests, history } = (await app.ops.get('/status')).body as ServiceStatus
    const sampled = history.samples.reduce((sum, sample) => sum + sample.shed, 0)
    expect([requests.shed, sampled]).toEqual([shed(), shed()])
  })
  const { 'GET /users 503': refused, 'GET /users 200': served } = countsIn(metrics)
  expect([refused, served]).toEqual([shed(), sent - shed()])
  expect(metrics.read('queue_length', { queue: 'requests' })).toBe(0)
})

test('requests with an API key are counted by its name', async () => {
  const reading = { name: 'reader', scopes: ['users:read'] } as const
  const keys = [reading, { name: 'constructor' }, { name: 'expired', expiresAt: 1 }]
  const app = await openManagedApp({ keys })
  const [reader = '', other = '', expired = ''] = app.bearers
  for (const [line, key, status] of [
    ['GET /users', reader, 200],
    ['DELETE /users/1', reader, 403],
    ['GET /nowhere', reader, 404],
    ['GET /users', other, 200],
    ['GET /users', expired, 401],
    ['GET /users', `Bearer ${unknownKey()}`, 401],
    ['GET /users', 'Bearer x', 401],
  ] as const) {
    expect(await send(app, line, { Authorization: key })).toBe(status)
  }
  await untilPasses(async () => {
    const byKey = (await readMetrics(app)).all('http_requests_by_key_total')
    expect(byKey.map(({ labels, value }) => [labels, value])).toEqual([
      [{ key: 'reader' }, 3],
      [{ key: 'constructor' }, 1],
    ])
  })
})

test('nothing of a user, a client or a key is in any metric', async () => {
  const app = await openManagedApp({ keys: [{}] })
  const [bearer = ''] = app.bearers
  const headers = {
    ...{ Authorization: bearer, 'User-Agent': 'secretagent', Cookie: 'secretcookie' },
    ...{ 'X-Request-Id': 'secretrequest', 'Idempotency-Key': 'secretidempotency' },
    'X-Forwarded-For': '203.0.113.77',
  }
  const user = { name: 'Secretname', email: 'secret@example.com', password: 'secretpassword' }
  for (const line of [
    ...['POST /users', 'POST /password-verifications', 'GET /users/470011470011'],
    ...['GET /users?email=secret@example.com', 'GET /users/secret@example.com'],
    ...['GET /users/%zz/secretpath', 'SECRETMETHOD /users', 'PROPFIND /secretpath'],
  ]) {
    await send(app, line, headers, JSON.stringify({ user }))
    await send(app, line, {}, JSON.stringify({ user }))
  }
  const { text } = await app.ops.get('/metrics').expect(200)
  expect(text).toContain('users')
  for (const told of ['secret', '470011470011', '127.0.0.1', '203.0.113', bearer.slice(-20)]) {
    expect(text.toLowerCase()).not.toContain(told.toLowerCase())
  }
  await app.ops.get('/metrics').set('Accept', 'application/openmetrics-text').expect(406)
  // Of Prometheus, which prefers another format.
  const accept =
    'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'
  await app.ops
    .get('/metrics')
    .set('Accept', accept)
    .expect(200, /\n# TYPE /)
})

const EXPECTING = { ...AS_JSON, 'Content-Length': '50', Expect: '100-continue' }

function increase(counts: Counts, key: string, by = 1): void {
  counts[key] = (counts[key] ?? 0) + by
}

async function readMetrics({ ops }: Pick<ManagedApp, 'ops'>): Promise<Metrics> {
  return parseMetrics((await ops.get('/metrics').expect(200)).text)
}

/** By `method route status`. Fails if the samples have other labels too. */
function countsIn(metrics: Metrics): Counts {
  const counts = metrics.all(`${DURATION}_count`).map(({ labels, value }) => {
    const { method, route, status, ...others } = labels
    expect(others).toEqual({})
    return [`${method} ${route} ${status}`, value] as const
  })
  return Object.fromEntries(counts)
}

/** The status of a request on a connection of its own. */
async function send({ port }: Pick<ManagedApp, 'port'>, line: string, ...rest: Rest) {
  const [headers, body] = rest
  return (await askAndClose(port, line, { ...AS_JSON, ...headers }, body)).status
}
