import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import type { LimitsFile, ThrottleRule } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp, type TestAppOptions } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const TOO_LONG = 'x'.repeat(100 * 1024 + 1)

const POSTS: ThrottleRule = {
  name: 'posts',
  method: 'POST',
  path: '/posts',
  limit: 10,
  period: '1 day',
}

type Headers = Readonly<Record<string, string>>

interface Opened extends TestApp {
  readonly clock: ReturnType<typeof createFakeClock>
}

/** Behind a proxy, so that X-Forwarded-For names the client. */
async function openWith(limits: LimitsFile, env: TestAppOptions['env'] = {}): Promise<Opened> {
  const clock = createFakeClock()
  const app = await openTestApp({ limits, env: { TRUST_PROXY: '1', ...env }, now: clock.now })
  return { ...app, clock }
}

function ask(app: TestApp, line: string, headers: Headers = {}) {
  const [method = '', path = ''] = line.split(' ')
  const request = app.http[method.toLowerCase() as 'get'](path)
  return request.redirects(0).set({ 'X-Forwarded-For': ANN, ...headers })
}

async function statusOf(app: TestApp, line: string, headers?: Headers): Promise<number> {
  return (await ask(app, line, headers)).status
}

async function statuses(app: TestApp, count: number, line: string, headers?: Headers) {
  const found = []
  for (let index = 0; index < count; index++) found.push(await statusOf(app, line, headers))
  return found
}

/** Sends just these bytes, and resolves to the first answer. */
async function answerTo(app: TestApp, bytes: string): Promise<RawAnswer> {
  const exchange = sendRaw(app.port, bytes)
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  return answer as RawAnswer
}

function trackedRules(app: TestApp) {
  return app.logLines.filter(({ msg }) => msg === 'request tracked').map(({ rule }) => rule)
}

describe('safelist', () => {
  test('lets requests pass that any other rule would refuse', async () => {
    const app = await openWith({
      safelist: [{ name: 'office', ip: ANN }],
      blocklist: [{ path: '*' }],
      bans: [{ maxretry: 1, findtime: 60, bantime: 60, mode: 'fail2ban' }],
      throttle: [{ limit: 1, period: 60 }],
      track: [{ name: 'all' }],
      rateLimits: [{ to: 1, within: 60 }],
    })
    expect(await statuses(app, 4, 'GET /users')).toEqual([200, 200, 200, 200])
    expect((await ask(app, 'GET /users')).headers).not.toHaveProperty('ratelimit')
    expect(trackedRules(app)).toEqual([])
    expect(await statusOf(app, 'GET /users', { 'X-Forwarded-For': BOB })).toBe(403)
  })

  test('lets a client pass that was banned meanwhile', async () => {
    const app = await openWith({
      safelist: [{ header: { 'X-Pass': 'please' } }],
      bans: [{ path: '/login', maxretry: 1, findtime: 60, bantime: 60 }],
    })
    await ask(app, 'GET /login')
    expect(await statusOf(app, 'GET /users')).toBe(403)
    expect(await statusOf(app, 'GET /users', { 'X-Pass': 'please' })).toBe(200)
  })

  test('keeps a request out of every count', async () => {
    const app = await openWith({
      safelist: [{ header: { 'X-Pass': 'please' } }],
      bans: [{ path: '/login', maxretry: 2, findtime: 60, bantime: 60 }],
      throttle: [{ path: '/users', limit: 2, period: 60 }],
      rateLimits: [{ to: 2, within: 60, only: ['create'] }],
    })
    for (const line of ['GET /login', 'GET /users', 'POST /users']) {
      await statuses(app, 5, line, { 'X-Pass': 'please' })
    }
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 200])
    expect(await statusOf(app, 'GET /users')).toBe(429)
    app.clock.advance(60_000)
    expect(await statuses(app, 3, 'POST /users')).toEqual([422, 422, 429])
  })

  test('needs only one of its rules to match', async () => {
    const app = await openWith({ safelist: [{ ip: BOB }, { path: '/a' }], blocklist: [{}] })
    expect(await statusOf(app, 'GET /a')).toBe(404)
    expect(await statusOf(app, 'GET /b')).toBe(403)
    expect(await statusOf(app, 'GET /b', { 'X-Forwarded-For': BOB })).toBe(404)
  })
})

describe('blocklist', () => {
  test('answers 403 in the format of all errors, without Retry-After', async () => {
    const app = await openWith({ blocklist: [{ userAgent: { regex: 'sqlmap', flags: 'i' } }] })
    const { status, body, headers } = await ask(app, 'GET /users', { 'User-Agent': 'SQLMap/1.7' })
    expect(status).toBe(403)
    expect(body).toEqual({
      message: 'Forbidden',
      resource: 'User',
      code: 403,
      status: false,
      reason: 'blocked',
    })
    expect(headers).not.toHaveProperty('retry-after')
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.any(String),
    })
    expect(await statusOf(app, 'GET /users', { 'User-Agent': 'curl' })).toBe(200)
  })

  test('keeps a request out of the counts of throttles, bans, tracks and routes', async () => {
    const app = await openWith({
      blocklist: [{ header: { 'X-Bad': '*' } }],
      bans: [{ path: '/users', maxretry: 3, findtime: 60, bantime: 60 }],
      throttle: [{ path: '/users', limit: 2, period: 60 }],
      track: [{ name: 'limited', limit: 1, period: 60 }, { name: 'plain' }],
      rateLimits: [{ to: 2, within: 60 }],
    })
    expect(await statuses(app, 5, 'GET /users', { 'X-Bad': '1' })).toEqual(Array(5).fill(403))
    expect(trackedRules(app)).toEqual([])
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 200])
    expect(trackedRules(app)).toEqual(['plain', 'limited', 'plain'])
  })
})

describe('throttle', () => {
  test('lets limit requests of a period pass, and answers the next 429', async () => {
    const app = await openWith({ throttle: [POSTS] })
    expect(await statuses(app, 12, 'POST /posts')).toEqual([...Array(10).fill(404), 429, 429])
    expect(await statuses(app, 2, 'GET /posts')).toEqual([404, 404])
    expect(await statusOf(app, 'POST /users')).toBe(422)
  })

  test('begins a period with the first request of a key and ends it exactly', async () => {
    const app = await openWith({ throttle: [{ limit: 2, period: 60 }] })
    app.clock.advance(45_000)
    expect(await statusOf(app, 'GET /users')).toBe(200)
    app.clock.advance(59_000)
    expect(await statusOf(app, 'GET /users')).toBe(200)
    expect(await statusOf(app, 'GET /users', { 'X-Forwarded-For': BOB })).toBe(200)
    app.clock.advance(999)
    expect(await statusOf(app, 'GET /users')).toBe(429)
    app.clock.advance(1)
    expect(await statuses(app, 3, 'GET /users')).toEqual([200, 200, 429])
    expect(await statuses(app, 2, 'GET /users', { 'X-Forwarded-For': BOB })).toEqual([200, 429])
  })

  test('is not prolonged by requests that it refuses', async () => {
    const app = await openWith({ throttle: [{ limit: 1, period: 60 }] })
    await ask(app, 'GET /users')
    app.clock.advance(59_000)
    expect(await statuses(app, 5, 'GET /users')).toEqual(Array(5).fill(429))
    app.clock.advance(1_000)
    expect(await statusOf(app, 'GET /users')).toBe(200)
  })

  test('answers with the limit in RateLimit, RateLimit-Policy and Retry-After', async () => {
    const app = await openWith({ throttle: [{ ...POSTS, limit: 1 }] })
    await ask(app, 'POST /posts')
    app.clock.advance(1)
    const { status, body, headers, type } = await ask(app, 'POST /posts')
    expect([status, type]).toEqual([429, 'application/json'])
    expect(body).toEqual({
      message: 'Too many requests, please try again later.',
      resource: 'Request',
      code: 429,
      status: false,
      reason: 'rate_limited',
    })
    expect(headers['retry-after']).toBe('86400')
    expect(headers.ratelimit).toBe('"posts"; r=0; t=86400')
    expect(headers['ratelimit-policy']).toMatch(/^"posts"; q=1; w=86400; pk=:[A-Za-z\d+/]+=*:$/)
    expect(headers['cache-control']).toBe('no-store')
    app.clock.advance(86_400_000 - 2)
    const last = await ask(app, 'POST /posts')
    expect([last.headers['retry-after'], last.headers.ratelimit]).toEqual([
      '1',
      '"posts"; r=0; t=1',
    ])
  })

  test('has a different partition for each client, but does not name the client', async () => {
    const app = await openWith({ throttle: [{ ...POSTS, limit: 1 }] })
    const policies = []
    for (const client of [ANN, BOB, ANN]) {
      await ask(app, 'POST /posts', { 'X-Forwarded-For': client })
      const { headers } = await ask(app, 'POST /posts', { 'X-Forwarded-For': client })
      policies.push(headers['ratelimit-policy'])
    }
    expect(policies[0]).toBe(policies[2])
    expect(policies[0]).not.toBe(policies[1])
    expect(Buffer.from(policies.join(), 'base64').toString()).not.toContain(ANN)
  })

  test('names the violated policy to a client that prefers problem+json', async () => {
    const app = await openWith({ throttle: [{ ...POSTS, limit: 1 }] })
    await ask(app, 'POST /posts')
    const { body, type } = await ask(app, 'POST /posts', { Accept: 'application/problem+json' })
    expect(type).toBe('application/problem+json')
    expect(body).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Too Many Requests',
      status: 429,
      detail: 'Too many requests, please try again later.',
      instance: '/posts',
      reason: 'rate_limited',
      'violated-policies': ['posts'],
    })
  })

  test('is named by its place if it has no name', async () => {
    const app = await openWith({
      throttle: [
        { path: '/none', limit: 1, period: 1 },
        { limit: 1, period: 60 },
      ],
    })
    await ask(app, 'GET /users')
    const { headers } = await ask(app, 'GET /users')
    expect(headers.ratelimit).toBe('"throttle[1]"; r=0; t=60')
  })

  test('escapes a name in its headers that no quoted string can hold', async () => {
    const app = await openWith({ throttle: [{ name: 'a"b\\c é\n', limit: 1, period: 60 }] })
    await ask(app, 'GET /users')
    const { status, headers } = await ask(app, 'GET /users')
    expect([status, headers.ratelimit]).toEqual([429, '"a\\"b\\\\c ??"; r=0; t=60'])
  })

  test('lets no more than limit pass of many that come at once', async () => {
    const app = await openWith({ throttle: [{ limit: 7, period: 60 }] })
    const found = await Promise.all(Array.from({ length: 30 }, () => statusOf(app, 'GET /users')))
    expect(found.filter(status => status === 200)).toHaveLength(7)
    expect(found.filter(status => status === 429)).toHaveLength(23)
  })

  test('asks several in order until one refuses; later ones do not count', async () => {
    const app = await openWith({
      throttle: [
        { name: 'first', limit: 5, period: 60 },
        { name: 'second', limit: 2, period: 60 },
        { name: 'third', limit: 3, period: 3600 },
      ],
    })
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 200])
    for (const rule of ['second', 'second', 'second', 'first', 'first']) {
      const { status, headers } = await ask(app, 'GET /users')
      expect([status, headers.ratelimit]).toEqual([429, `"${rule}"; r=0; t=60`])
    }
    app.clock.advance(60_000)
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 429])
    expect((await ask(app, 'GET /users')).headers.ratelimit).toContain('"second"')
  })

  test('keeps a request that it refuses out of tracks and route limits', async () => {
    const app = await openWith({
      throttle: [{ path: '/users', limit: 2, period: 60 }],
      track: [{ name: 'plain' }, { name: 'limited', limit: 3, period: 3600 }],
      rateLimits: [{ to: 3, within: 3600 }],
    })
    expect(await statuses(app, 5, 'GET /users')).toEqual([200, 200, 429, 429, 429])
    expect(trackedRules(app)).toEqual(['plain', 'plain'])
    app.clock.advance(60_000)
    expect((await ask(app, 'GET /users')).headers.ratelimit).toContain('r=0')
    expect(trackedRules(app)).toEqual(['plain', 'plain', 'plain'])
    expect((await ask(app, 'GET /users')).headers.ratelimit).toContain('"rateLimits[0]"')
    expect(trackedRules(app)).toEqual(['plain', 'plain', 'plain', 'plain', 'limited'])
  })

  test('keeps its count by kind and name when the rules are reloaded', async () => {
    const app = await openWith({ throttle: [{ ...POSTS, limit: 2 }] })
    expect(await statuses(app, 1, 'POST /posts')).toEqual([404])
    await app.reloadLimits()
    expect(await statuses(app, 2, 'POST /posts')).toEqual([404, 429])
  })
})

describe('by', () => {
  test.each<[string, ThrottleRule['by'], Headers | string, Headers | string, Headers | string]>([
    ['the address', undefined, {}, { 'X-Other': '1' }, { 'X-Forwarded-For': BOB }],
    [
      'an IPv6 /56',
      'ip',
      { 'X-Forwarded-For': '2001:db8:0:100::1' },
      { 'X-Forwarded-For': '2001:DB8:0:1ff:ffff:ffff:ffff:ffff' },
      { 'X-Forwarded-For': '2001:db8:0:200::1' },
    ],
    [
      'each IPv4 address that is mapped into IPv6',
      'ip',
      { 'X-Forwarded-For': '::ffff:198.51.100.7' },
      { 'X-Forwarded-For': '::ffff:198.51.100.7' },
      { 'X-Forwarded-For': '::ffff:198.51.100.8' },
    ],
    [
      'a header, from any address',
      'header:X-Key',
      { 'X-Key': 'one' },
      { 'x-key': 'one', 'X-Forwarded-For': BOB },
      { 'X-Key': 'two' },
    ],
    ['a query parameter', 'query:key', '/users?key=a+b', '/users?key=a%20b', '/users?key=c'],
    ['the name of a parameter as it is', 'query:Key', '/x?Key=1', '/x?key=2&Key=1', '/x?Key=2'],
    ['the path', 'path', '/users/1', '/users/%31?a=b', '/users/2'],
    ['the path with its slashes folded', 'path', '/a/b', '//a///b', '/a/b/'],
    ['the host', 'host', { Host: 'a.example' }, { Host: 'A.Example.:8080' }, { Host: 'b.example' }],
    [
      'the registrable domain',
      'domain',
      { Host: 'one.shop.co.uk' },
      { Host: 'two.SHOP.co.uk:80' },
      { Host: 'other.co.uk' },
    ],
    [
      'an address for a domain',
      'domain',
      { Host: '192.0.2.1' },
      { Host: '192.0.2.1:80' },
      { Host: '192.0.2.2' },
    ],
    [
      'a single label for a domain',
      'domain',
      { Host: 'localhost' },
      { Host: 'LOCALHOST' },
      { Host: 'other' },
    ],
    [
      'a site below a public suffix that a company owns',
      'domain',
      { Host: 'one.github.io' },
      { Host: 'www.one.github.io' },
      { Host: 'two.github.io' },
    ],
    [
      'a list, as a whole',
      ['header:A', 'header:B'],
      { A: 'x', B: 'y' },
      { A: 'x', B: 'y', 'X-Forwarded-For': BOB },
      { A: 'x","y', B: '' },
    ],
    [
      'a list whose parts stay separate',
      ['query:a', 'query:b'],
      '/?a=1&b=23',
      '/?b=23&a=1',
      '/?a=12&b=3',
    ],
  ])('counts by %s', async (_claim, by, one, same, other) => {
    const app = await openWith({ throttle: [{ limit: 1, period: 60, ...(by && { by }) }] })
    const isThrottled = async (what: Headers | string) =>
      (typeof what === 'string'
        ? await statusOf(app, `GET ${what}`)
        : await statusOf(app, 'GET /users', what)) === 429
    expect(await isThrottled(one)).toBe(false)
    expect(await isThrottled(other)).toBe(false)
    expect(await isThrottled(same)).toBe(true)
  })

  test.each<[ThrottleRule['by'] & {}, string]>([
    ['header:X-Key', '/users'],
    ['query:key', '/nowhere?Key=1&other=key'],
    ['query:key', '/nowhere?key='],
    [['ip', 'header:X-Key'], '/users'],
    [['query:key', 'ip'], '/nowhere?k=1'],
  ])('%j does not count GET %s, which has no such key', async (by, path) => {
    const app = await openWith({ throttle: [{ limit: 1, period: 60, by }] })
    expect(await statuses(app, 3, `GET ${path}`)).not.toContain(429)
  })

  test('host and domain do not count a request of HTTP/1.0 without a Host', async () => {
    const app = await openWith({
      throttle: [
        { name: 'h', limit: 1, period: 60, by: 'host' },
        { name: 'd', limit: 1, period: 60, by: 'domain' },
      ],
    })
    for (let index = 0; index < 3; index++) {
      expect((await answerTo(app, 'GET /users HTTP/1.0\r\n\r\n')).status).toBe(200)
    }
  })

  test('ip ignores X-Forwarded-For without a trusted proxy', async () => {
    const app = await openWith({ throttle: [{ limit: 2, period: 60 }] }, { TRUST_PROXY: '' })
    const found = []
    for (const client of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
      found.push(await statusOf(app, 'GET /users', { 'X-Forwarded-For': client }))
    }
    expect(found).toEqual([200, 200, 429])
  })

  test('ip is the address that the trusted proxy added, not one before it', async () => {
    const app = await openWith({ throttle: [{ limit: 1, period: 60 }] })
    const found = []
    for (const first of ['192.0.2.1', '192.0.2.2']) {
      found.push(await statusOf(app, 'GET /users', { 'X-Forwarded-For': `${first}, ${ANN}` }))
    }
    expect(found).toEqual([200, 429])
  })
})

describe('with', () => {
  async function refused(answer: ThrottleRule['with'] & {}, headers: Headers = {}) {
    const app = await openWith({ throttle: [{ name: 'one', limit: 1, period: 60, with: answer }] })
    await ask(app, 'GET /users')
    return ask(app, 'GET /users', headers)
  }

  test('redirect answers 302 with Location, the limit headers and the alert', async () => {
    const { status, headers, body } = await refused({ redirect: '/busy', alert: 'Come back é!' })
    expect([status, headers.location]).toEqual([302, '/busy'])
    expect(body).toMatchObject({ message: 'Come back é!', code: 302, status: false })
    expect(headers).toMatchObject({
      ratelimit: '"one"; r=0; t=60',
      'ratelimit-policy': expect.stringContaining('"one"; q=1; w=60'),
      'retry-after': '60',
    })
  })

  test('redirect without an alert has the message of 429', async () => {
    const { status, body } = await refused({ redirect: 'https://busy.example/' })
    expect(status).toBe(302)
    expect(body.message).toBe('Too many requests, please try again later.')
  })

  test('status, message and headers replace those of 429', async () => {
    const { status, headers, body } = await refused({
      status: 503,
      message: 'Busy',
      headers: { 'X-Busy': 'yes', 'Retry-After': '5' },
    })
    expect(status).toBe(503)
    expect(body).toMatchObject({ message: 'Busy', code: 503, reason: 'rate_limited' })
    expect(headers).toMatchObject({
      'x-busy': 'yes',
      'retry-after': '5',
      ratelimit: '"one"; r=0; t=60',
    })
  })

  test('a message alone leaves the status 429', async () => {
    const { status, body, headers } = await refused({ message: 'Slow down' })
    expect([status, body.message, headers['retry-after']]).toEqual([429, 'Slow down', '60'])
  })

  test('a status other than 429 is not a quota-exceeded problem', async () => {
    const { body } = await refused({ status: 503 }, { Accept: 'application/problem+json' })
    expect(body).toMatchObject({ type: 'about:blank', status: 503, reason: 'rate_limited' })
    expect(body).not.toHaveProperty('violated-policies')
  })

  test('status 204 has neither a body nor a Content-Length', async () => {
    const { status, headers } = await refused({ status: 204 })
    expect(status).toBe(204)
    expect(headers).not.toHaveProperty('content-length')
  })

  test.each(['retry-after', 'cache-control', 'ratelimit'])(
    'a header named %s in lower case is sent once',
    async name => {
      const answer = { headers: { [name]: 'mine' } }
      const app = await openWith({ throttle: [{ limit: 1, period: 60, with: answer }] })
      const request = `GET /users HTTP/1.1\r\nHost: a\r\n\r\n`
      await answerTo(app, request)
      const exchange = sendRaw(app.port, request)
      let head = ''
      exchange.socket.on('data', chunk => {
        head += chunk
      })
      await exchange.answers(1)
      exchange.socket.destroy()
      expect(head.match(new RegExp(`^${name}:.*(?=\\r)`, 'gim'))).toEqual([
        expect.stringMatching(/: mine$/),
      ])
    },
  )

  test.each<[string, ThrottleRule['with'] & {}]>([
    ['beyond Latin-1 in redirect', { redirect: '/b€sy' }],
    ['a control character in redirect', { redirect: '/busy\u0000' }],
    ['beyond Latin-1 in headers', { headers: { 'X-Busy': '€' } }],
    ['a control character in headers', { headers: { 'X-Busy': '\u007f' } }],
  ])('%s, which no header can hold, is refused at the start', async (_claim, answer) => {
    const started = openWith({ throttle: [{ limit: 1, period: 60, with: answer }] })
    const mistake = await started.then(() => 'none', String)
    expect(mistake).toMatch(/throttle\[0\].*with/)
  })
})

describe('where the filter stands', () => {
  const NO_BODY_COMES = 'Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"us'

  test.each([
    ['an unknown path', 'GET /nowhere', ''],
    ['an undecodable path', 'GET /users/%zz', ''],
    ['an unknown method', 'PUT /users', ''],
    ['a method of nobody', 'PROPFIND /x', ''],
    ['OPTIONS', 'OPTIONS /users', ''],
    ['OPTIONS of the server', 'OPTIONS *', ''],
    ['HEAD', 'HEAD /users', ''],
    ['an Accept that cannot be met', 'GET /users', 'Accept: text/html\r\n'],
    ['a Content-Type that is not JSON', 'POST /users', 'Content-Type: text/plain\r\n'],
    ['a malformed Idempotency-Key', 'POST /users', 'Idempotency-Key: "\r\n'],
  ])('blocklist, bans and throttle refuse %s', async (_claim, line, headers) => {
    const request = `${line} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`
    const counted = { findtime: 60, bantime: 60, maxretry: 1 }
    const isHead = line.startsWith('HEAD')
    for (const [limits, status] of [
      [{ blocklist: [{}] }, 403],
      [{ bans: [{ ...counted, mode: 'fail2ban' }] }, 403],
      [{ bans: [counted] }, 403],
      [{ throttle: [{ limit: 1, period: 60 }] }, 429],
    ] as const) {
      const app = await openWith(limits)
      const first = sendRaw(app.port, request.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
      await new Promise(resolve => first.socket.once('close', resolve))
      const second = sendRaw(app.port, request.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
      let received = ''
      second.socket.on('data', chunk => {
        received += chunk
      })
      await new Promise(resolve => second.socket.once('close', resolve))
      expect(received).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(received.endsWith('\r\n\r\n')).toBe(isHead)
    }
  })

  test('an undecodable path is matched as it was sent', async () => {
    const app = await openWith({ blocklist: [{ path: '/users/%zz' }, { path: '/%61/%ff*' }] })
    const statusOfPath = async (path: string) =>
      (await answerTo(app, `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)).status
    expect(await statusOfPath('/users/%zz')).toBe(403)
    expect(await statusOfPath('/%61/%ff/b')).toBe(403)
    expect(await statusOfPath('/a/%ff/b')).toBe(400)
    expect(await statusOfPath('/users/%zy')).toBe(400)
  })

  test.each<[string, LimitsFile, number]>([
    ['blocklist', { blocklist: [{ method: 'POST' }] }, 403],
    [
      'fail2ban',
      { bans: [{ method: 'POST', maxretry: 9, findtime: 1, bantime: 1, mode: 'fail2ban' }] },
      403,
    ],
    ['throttle', { throttle: [{ limit: 1, period: 60 }] }, 429],
  ])('%s answers before the body has arrived', async (_kind, limits, status) => {
    const app = await openWith(limits, { TRUST_PROXY: '' })
    await ask(app, 'GET /users')
    const head = `POST /users HTTP/1.1\r\nHost: a\r\n${NO_BODY_COMES}`
    expect((await answerTo(app, head)).status).toBe(status)
  })

  test.each([
    ['broken', '{"user":'],
    ['too long', TOO_LONG],
  ])('throttle answers 429 to a body that is %s', async (_claim, body) => {
    const app = await openWith({ throttle: [{ limit: 1, period: 60 }] })
    const post = () => ask(app, 'POST /users').set('Content-Type', 'application/json').send(body)
    expect([400, 413]).toContain((await post()).status)
    expect((await post()).status).toBe(429)
  })

  test('a refused body does not spoil the next request of its connection', async () => {
    const app = await openWith({ blocklist: [{ method: 'POST' }] })
    const body = JSON.stringify(newUserBody())
    const exchange = sendRaw(
      app.port,
      `POST /users HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}` +
        'GET /users HTTP/1.1\r\nHost: a\r\n\r\n',
    )
    const answers = await exchange.answers(2)
    exchange.socket.destroy()
    expect(answers.map(({ status }) => status)).toEqual([403, 200])
  })

  test.each(['/livez', '/readyz'])('%s passes before the filter', async path => {
    const app = await openWith({
      blocklist: [{ path: ['/livez', '/readyz'] }],
      throttle: [{ limit: 1, period: 60 }],
      track: [{ name: 'all' }],
    })
    expect(await statuses(app, 3, `GET ${path}`)).toEqual([200, 200, 200])
    expect(await statusOf(app, `HEAD ${path}`)).toBe(200)
    expect(await statusOf(app, `POST ${path}`)).toBe(405)
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 429])
    expect(trackedRules(app)).toEqual(['all'])
  })

  test('a preflight is filtered, and a page may read the denial', async () => {
    const origin = { Origin: 'https://app.example' }
    const app = await openWith(
      { throttle: [{ limit: 1, period: 60 }] },
      { CORS_ORIGINS: 'https://app.example' },
    )
    await ask(app, 'GET /users')
    const preflight = { ...origin, 'Access-Control-Request-Method': 'POST' }
    expect(await statusOf(app, 'OPTIONS /users', preflight)).toBe(429)
    const { headers } = await ask(app, 'GET /users', origin)
    expect(headers['access-control-allow-origin']).toBe('https://app.example')
    expect(headers['access-control-expose-headers']).toContain('Retry-After')
  })
})

describe('a client that resets the connection as soon as its request is sent', () => {
  const POST = { method: 'POST', path: '/users' }

  function requestText(): string {
    const body = JSON.stringify(newUserBody())
    const head = `Host: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
    return `POST /users HTTP/1.1\r\n${head}\r\n\r\n${body}`
  }

  function postAndReset(port: number): Promise<void> {
    return new Promise(resolve => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(requestText())
        socket.resetAndDestroy()
      })
      socket.on('error', () => {})
      socket.once('close', () => resolve())
    })
  }

  const CLIENT = `
    const { workerData: { port, text, done } } = require('node:worker_threads')
    const socket = require('node:net').connect(port, '127.0.0.1', () => {
      socket.write(text)
      socket.resetAndDestroy()
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      Atomics.store(done, 0, 1)
      Atomics.notify(done, 0)
    })`

  /** Sends and resets while the server, which runs in this thread, is busy and has not accepted the connection yet. */
  async function postAndResetUnseen(port: number): Promise<void> {
    const done = new Int32Array(new SharedArrayBuffer(4))
    const workerData = { port, text: requestText(), done }
    const worker = new Worker(CLIENT, { eval: true, workerData })
    // Listened for early: a quick worker may exit before its `online` event is handled.
    const exited = once(worker, 'exit')
    await once(worker, 'online')
    Atomics.wait(done, 0, 0)
    await exited
  }

  const KINDS: [string, LimitsFile, number][] = [
    ['a blocklist', { blocklist: [{ ...POST, ip: '127.0.0.0/8' }] }, 0],
    ['a ban', { bans: [{ ...POST, maxretry: 1, findtime: 60, bantime: 60 }] }, 1],
    ['a throttle', { throttle: [{ ...POST, limit: 1, period: 60 }] }, 1],
    ['a route limit', { rateLimits: [{ to: 1, within: 60, only: ['create'] }] }, 1],
  ]

  test.each(
    KINDS.flatMap(([kind, limits, most]) => [
      { kind, limits, most, when: 'once it is accepted', attempt: postAndReset },
      { kind, limits, most, when: 'before it is accepted', attempt: postAndResetUnseen },
    ]),
  )('does not get past $kind $when', async ({ limits, most, attempt }) => {
    const app = await openWith(limits, { TRUST_PROXY: '' })
    for (let index = 0; index < 3; index++) {
      await attempt(app.port)
      await app.http.get('/livez').expect(200)
    }
    await app.stop()
    const next = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    const { body: users } = await next.http.get('/users').expect(200)
    expect(users.length).toBeLessThanOrEqual(most)
  })
})

describe('track', () => {
  test('lets all requests pass, and reports only those over its limit, once a window', async () => {
    const app = await openWith({
      track: [{ name: 'agent', userAgent: 'Special', limit: 2, period: 60 }],
    })
    const special = { 'User-Agent': 'Special' }
    expect(await statuses(app, 2, 'GET /users', special)).toEqual([200, 200])
    await statuses(app, 5, 'GET /users', { 'User-Agent': 'Other' })
    expect(trackedRules(app)).toEqual([])
    const { status, headers } = await ask(app, 'GET /users', special)
    expect(status).toBe(200)
    expect(Object.keys(headers)).not.toContain('ratelimit')
    expect(trackedRules(app)).toEqual(['agent'])
    app.clock.advance(60_000)
    await statuses(app, 2, 'GET /users', special)
    expect(trackedRules(app)).toEqual(['agent'])
    await statuses(app, 2, 'GET /users', special)
    expect(trackedRules(app)).toEqual(['agent', 'agent'])
  })

  test('all tracks that match are asked', async () => {
    const app = await openWith({ track: [{ name: 'a' }, { name: 'b' }, { name: 'c', path: '/x' }] })
    await ask(app, 'GET /users')
    expect(trackedRules(app)).toEqual(['a', 'b'])
  })
})

test('without any rule every request is served as if there were no limits', async () => {
  const app = await openWith({})
  expect(await statuses(app, 3, 'GET /users')).toEqual([200, 200, 200])
  expect(await statusOf(app, 'GET /nowhere')).toBe(404)
})
