import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import type { LimitsFile, ThrottleRule } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import {
  ANN,
  BOB,
  type From,
  type LimitedApp,
  MINUTE,
  openLimitedApp,
  SECOND,
  shareLimitedApp,
} from '../support/limited-app.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

const POSTS: ThrottleRule = {
  name: 'posts',
  method: 'POST',
  path: '/posts',
  limit: 10,
  period: '1 day',
}
const ONCE: ThrottleRule = { name: 'once', limit: 1, period: 60 }
const BAN = { maxretry: 1, findtime: 60, bantime: 60 }

const LIMIT_OF_ONCE = { ratelimit: '"once"; r=0; t=60', 'retry-after': '60' }

const app = shareLimitedApp()
const direct = shareLimitedApp({ env: { TRUST_PROXY: '' } })

/** All that the service sends to these bytes, until it closes the connection. */
async function received({ port }: LimitedApp, line: string, headers = ''): Promise<string> {
  const { socket } = sendRaw(port, `${line}\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`)
  const chunks: string[] = []
  socket.on('data', chunk => chunks.push(String(chunk)))
  await once(socket, 'close')
  return chunks.join('')
}

/** The status of the answer to exactly these bytes. */
async function statusOfBytes({ port }: LimitedApp, bytes: string): Promise<number | undefined> {
  const exchange = sendRaw(port, bytes)
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  return answer?.status
}

describe('safelist', () => {
  test('lets requests pass that any other rule would refuse, and keeps them out of every count', async () => {
    const pass = { 'X-Pass': 'please' }
    await app.startOver({
      safelist: [{ name: 'office', ip: BOB }, { header: pass }],
      blocklist: [{ path: '/blocked' }],
      bans: [{ ...BAN, path: '/login', maxretry: 2 }],
      throttle: [{ path: '/users', limit: 2, period: 60 }],
      track: [{ name: 'all' }],
      rateLimits: [{ to: 2, within: 60, only: ['create'] }],
    })
    for (const [line, status] of [
      ['GET /login', 404],
      ['GET /users', 200],
      ['POST /users', 422],
      ['GET /blocked', 404],
    ] as const) {
      expect(await app.statuses(5, line, pass)).toEqual(Array(5).fill(status))
      expect((await app.ask(line, BOB)).headers).not.toHaveProperty('ratelimit')
    }
    expect(app.trackedRules()).toEqual([])
    expect(await app.statusOf('GET /blocked')).toBe(403)
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 429])
    app.clock.advance(MINUTE)
    expect(await app.statuses(2, 'POST /users')).toEqual([422, 422])
    app.clock.advance(MINUTE)
    expect(await app.statuses(3, 'GET /login')).toEqual([404, 404, 403])
    expect(await app.statusOf('GET /users', pass)).toBe(200)
  })
})

describe('blocklist', () => {
  test('answers 403 in the format of all errors, without Retry-After', async () => {
    await app.startOver({ blocklist: [{ userAgent: { regex: 'sqlmap', flags: 'i' } }] })
    const { status, body, headers } = await app.ask('GET /users', { 'User-Agent': 'SQLMap/1.7' })
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
    expect(await app.statusOf('GET /users', { 'User-Agent': 'curl' })).toBe(200)
  })

  test('keeps a request out of the counts of throttles, bans, tracks and routes', async () => {
    await app.startOver({
      blocklist: [{ header: { 'X-Bad': '*' } }],
      bans: [{ ...BAN, path: '/users', maxretry: 3 }],
      throttle: [{ path: '/users', limit: 2, period: 60 }],
      track: [{ name: 'limited', limit: 1, period: 60 }, { name: 'plain' }],
      rateLimits: [{ to: 2, within: 60 }],
    })
    expect(await app.statuses(5, 'GET /users', { 'X-Bad': '1' })).toEqual(Array(5).fill(403))
    expect(app.trackedRules()).toEqual([])
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    expect(app.trackedRules()).toEqual(['plain', 'limited', 'plain'])
  })
})

describe('throttle', () => {
  test('begins a period with the first request of a key, and no refused one prolongs it', async () => {
    await app.startOver({ throttle: [{ limit: 2, period: 60 }] })
    app.clock.advance(45 * SECOND)
    expect(await app.statusOf('GET /users')).toBe(200)
    app.clock.advance(59 * SECOND)
    expect(await app.statusOf('GET /users')).toBe(200)
    expect(await app.statusOf('GET /users', BOB)).toBe(200)
    app.clock.advance(999)
    expect(await app.statuses(5, 'GET /users')).toEqual(Array(5).fill(429))
    app.clock.advance(1)
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 429])
    expect(await app.statuses(2, 'GET /users', BOB)).toEqual([200, 429])
  })

  test('says in whole seconds, rounded up, when its period ends', async () => {
    await app.startOver({ throttle: [{ ...POSTS, limit: 1 }] })
    await app.ask('POST /posts')
    for (const [afterMs, seconds] of [
      [1, 86_400],
      [86_400_000 - 2, 1],
    ] as const) {
      app.clock.advance(afterMs)
      const { headers } = await app.ask('POST /posts')
      expect(headers['retry-after']).toBe(String(seconds))
      expect(headers.ratelimit).toBe(`"posts"; r=0; t=${seconds}`)
      expect(headers['cache-control']).toBe('no-store')
    }
  })

  test('has a different partition for each client, but does not name the client', async () => {
    await app.startOver({ throttle: [ONCE] })
    const policies = []
    for (const client of [ANN, BOB, ANN]) {
      await app.ask('GET /users', client)
      policies.push((await app.ask('GET /users', client)).headers['ratelimit-policy'])
    }
    expect(policies[0]).toMatch(/^"once"; q=1; w=60; pk=:[A-Za-z\d+/]+=*:$/)
    expect(policies[0]).toBe(policies[2])
    expect(policies[0]).not.toBe(policies[1])
    expect(Buffer.from(policies.join(), 'base64').toString()).not.toContain(ANN)
  })

  test('names the violated policy to a client that prefers problem+json', async () => {
    await app.startOver({ throttle: [{ ...POSTS, limit: 1 }] })
    await app.ask('POST /posts')
    const { body, type } = await app.ask('POST /posts', { Accept: 'application/problem+json' })
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

  test.each([
    ['by its place if it has no name', {}, '"throttle[1]"'],
    ['with what no quoted string can hold escaped', { name: 'a"b\\c é\n' }, '"a\\"b\\\\c ??"'],
  ])('is named in its headers %s', async (_claim, named, shown) => {
    const unnamed = { limit: 1, period: 60 }
    await app.startOver({
      throttle: [
        { ...ONCE, path: '/none' },
        { ...unnamed, ...named },
      ],
    })
    await app.ask('GET /users')
    const { status, headers } = await app.ask('GET /users')
    expect([status, headers.ratelimit]).toEqual([429, `${shown}; r=0; t=60`])
  })

  test('lets no more than limit pass of many that come at once', async () => {
    await app.startOver({ throttle: [{ limit: 7, period: 60 }] })
    const found = await Promise.all(Array.from({ length: 30 }, () => app.statusOf('GET /users')))
    expect(found.filter(status => status === 200)).toHaveLength(7)
    expect(found.filter(status => status === 429)).toHaveLength(23)
  })

  test('asks several in order until one refuses; later ones do not count', async () => {
    await app.startOver({
      throttle: [
        { name: 'first', limit: 5, period: 60 },
        { name: 'second', limit: 2, period: 60 },
        { name: 'third', limit: 3, period: 3600 },
      ],
    })
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    for (const rule of ['second', 'second', 'second', 'first', 'first']) {
      const { status, headers } = await app.ask('GET /users')
      expect([status, headers.ratelimit]).toEqual([429, `"${rule}"; r=0; t=60`])
    }
    app.clock.advance(MINUTE)
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 429])
    expect((await app.ask('GET /users')).headers.ratelimit).toContain('"second"')
  })

  test('keeps a request that it refuses out of tracks and route limits', async () => {
    await app.startOver({
      throttle: [{ path: '/users', limit: 2, period: 60 }],
      track: [{ name: 'plain' }, { name: 'limited', limit: 3, period: 3600 }],
      rateLimits: [{ to: 3, within: 3600 }],
    })
    expect(await app.statuses(5, 'GET /users')).toEqual([200, 200, 429, 429, 429])
    expect(app.trackedRules()).toEqual(['plain', 'plain'])
    app.clock.advance(MINUTE)
    expect((await app.ask('GET /users')).headers.ratelimit).toContain('r=0')
    expect(app.trackedRules()).toEqual(['plain', 'plain', 'plain'])
    expect((await app.ask('GET /users')).headers.ratelimit).toContain('"rateLimits[0]"')
    expect(app.trackedRules()).toEqual(['plain', 'plain', 'plain', 'plain', 'limited'])
  })
})

describe('by', () => {
  /** The first two are one client, and the third is another one. */
  type Trio = [one: string, same: string, other: string]

  test.each<[by: 'ip' | 'host' | 'domain', ...Trio]>([
    ['ip', '198.51.100.1', '198.51.100.1', '198.51.100.2'],
    ['ip', '2001:db8:0:100::1', '2001:DB8:0:1ff:ffff:ffff:ffff:ffff', '2001:db8:0:200::1'],
    ['ip', '::ffff:198.51.100.7', '::ffff:198.51.100.7', '::ffff:198.51.100.8'],
    // The trusted proxy added the last one.
    ['ip', '192.0.2.1, 198.51.100.1', '192.0.2.2, 198.51.100.1', '192.0.2.1, 198.51.100.2'],
    ['host', 'a.example', 'A.Example.:8080', 'b.example'],
    ['domain', 'one.shop.co.uk', 'two.SHOP.co.uk:80', 'other.co.uk'],
    ['domain', 'one.github.io', 'www.one.github.io', 'two.github.io'],
    ['domain', '192.0.2.1', '192.0.2.1:80', '192.0.2.2'],
    ['domain', 'localhost', 'LOCALHOST', 'other'],
  ])('%s counts %s and %s as one, and %s apart', async (by, one, same, other) => {
    await app.startOver({ throttle: [{ ...ONCE, by }] })
    const name = by === 'ip' ? 'X-Forwarded-For' : 'Host'
    const statusFrom = (value: string) => app.statusOf('GET /users', { [name]: value })
    expect(await statusFrom(one)).toBe(200)
    expect(await statusFrom(other)).toBe(200)
    expect(await statusFrom(same)).toBe(429)
  })

  test.each<[by: ThrottleRule['by'] & {}, ...Trio]>([
    ['query:key', '/users?key=a+b', '/users?key=a%20b', '/users?key=c'],
    ['query:Key', '/users?Key=1', '/users?key=2&Key=1', '/users?Key=2'],
    [['query:a', 'query:b'], '/users?a=1&b=23', '/users?b=23&a=1', '/users?a=12&b=3'],
    ['path', '/users/1', '/users/%31?a=b', '/users/2'],
    ['path', '/a/b', '//a///b', '/a/b/'],
  ])('%j counts %s and %s as one, and %s apart', async (by, one, same, other) => {
    await app.startOver({ throttle: [{ ...ONCE, by }] })
    expect(await app.statusOf(`GET ${one}`)).not.toBe(429)
    expect(await app.statusOf(`GET ${other}`)).not.toBe(429)
    expect(await app.statusOf(`GET ${same}`)).toBe(429)
  })

  test('header counts by its value from any address, and a list as a whole', async () => {
    const byX = { 'X-A': 'x', 'X-B': 'y' }
    await app.startOver({ throttle: [{ ...ONCE, by: 'header:X-A' }] })
    expect(await app.statusOf('GET /users', byX)).toBe(200)
    expect(await app.statusOf('GET /users', { 'X-A': 'y' })).toBe(200)
    expect(await app.statusOf('GET /users', { 'x-a': 'x', 'X-Forwarded-For': BOB })).toBe(429)
    await app.startOver({ throttle: [{ ...ONCE, by: ['header:X-A', 'header:X-B'] }] })
    expect(await app.statusOf('GET /users', byX)).toBe(200)
    expect(await app.statusOf('GET /users', { 'X-A': 'x","y', 'X-B': '' })).toBe(200)
    expect(await app.statusOf('GET /users', { ...byX, 'X-Forwarded-For': BOB })).toBe(429)
  })

  test.each<[ThrottleRule['by'] & {}, string]>([
    ['header:X-Key', '/users'],
    ['query:key', '/nowhere?Key=1&other=key'],
    ['query:key', '/nowhere?key='],
    [['ip', 'header:X-Key'], '/users'],
    [['query:key', 'ip'], '/nowhere?k=1'],
  ])('%j does not count GET %s, which has no such key', async (by, path) => {
    await app.startOver({ throttle: [{ ...ONCE, by }] })
    expect(await app.statuses(3, `GET ${path}`)).not.toContain(429)
  })

  test('host and domain do not count a request of HTTP/1.0 without a Host', async () => {
    await app.startOver({
      throttle: [
        { ...ONCE, by: 'host' },
        { ...ONCE, name: 'd', by: 'domain' },
      ],
    })
    for (let index = 0; index < 3; index++) {
      expect(await statusOfBytes(app, 'GET /users HTTP/1.0\r\n\r\n')).toBe(200)
    }
  })

  test('ip ignores X-Forwarded-For without a trusted proxy', async () => {
    await direct.startOver({ throttle: [ONCE] })
    expect(await direct.statusOf('GET /users', '192.0.2.1')).toBe(200)
    expect(await direct.statusOf('GET /users', '192.0.2.2')).toBe(429)
  })
})

describe('with', () => {
  async function refused(answer: ThrottleRule['with'] & {}, headers: From = {}) {
    await app.startOver({ throttle: [{ ...ONCE, with: answer }] })
    await app.ask('GET /users')
    return app.ask('GET /users', headers)
  }

  const MESSAGE = 'Too many requests, please try again later.'
  const POLICY = { 'ratelimit-policy': expect.stringContaining('"once"; q=1; w=60') }
  const AWAY = 'https://busy.example/'

  test.each<[ThrottleRule['with'] & {}, status: number, body: object, headers: object]>([
    [
      { redirect: '/busy', alert: 'Come back é!' },
      302,
      { message: 'Come back é!', code: 302, status: false },
      { ...LIMIT_OF_ONCE, ...POLICY, location: '/busy' },
    ],
    [{ redirect: AWAY }, 302, { message: MESSAGE }, { ...LIMIT_OF_ONCE, location: AWAY }],
    [
      { status: 503, message: 'Busy', headers: { 'X-Busy': 'yes', 'Retry-After': '5' } },
      503,
      { message: 'Busy', code: 503, reason: 'rate_limited' },
      { ...LIMIT_OF_ONCE, 'x-busy': 'yes', 'retry-after': '5' },
    ],
    [{ message: 'Slow down' }, 429, { message: 'Slow down' }, LIMIT_OF_ONCE],
  ])('%j answers %i with the headers of the limit', async (answer, status, body, headers) => {
    expect(await refused(answer)).toMatchObject({ status, body, headers })
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
      await direct.startOver({ throttle: [{ ...ONCE, with: { headers: { [name]: 'mine' } } }] })
      await direct.ask('GET /users')
      const answer = await received(direct, 'GET /users HTTP/1.1')
      expect(answer.match(new RegExp(`^${name}:.*(?=\\r)`, 'gim'))).toEqual([
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
    const started = openTestApp({ limits: { throttle: [{ ...ONCE, with: answer }] } })
    await expect(started).rejects.toThrow(/throttle\[0\].*with/)
  })
})

describe('where the filter stands', () => {
  /** Rules for all requests, with the statuses of the first request of a client and of those after it. */
  const RULES: readonly (readonly [limits: LimitsFile, first: number, later: number])[] = [
    [{ blocklist: [{}] }, 403, 403],
    [{ bans: [{ ...BAN, mode: 'fail2ban' }] }, 403, 403],
    [{ bans: [BAN] }, 200, 403],
    [{ throttle: [ONCE] }, 200, 429],
  ]

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
    for (const [limits, , status] of RULES) {
      await app.startOver(limits)
      await received(app, `${line} HTTP/1.1`, headers)
      const answer = await received(app, `${line} HTTP/1.1`, headers)
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(answer.endsWith('\r\n\r\n')).toBe(line.startsWith('HEAD'))
    }
  })

  test('they answer before the body has arrived', async () => {
    const head = 'Host: a\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"us'
    for (const [limits, , status] of RULES) {
      await direct.startOver(limits)
      await direct.ask('GET /users')
      expect(await statusOfBytes(direct, `POST /users HTTP/1.1\r\n${head}`)).toBe(status)
    }
  })

  test('a throttle counts bodies that are broken or too long', async () => {
    for (const [body, status] of [
      ['{"user":', 400],
      ['x'.repeat(100 * 1024 + 1), 413],
    ] as const) {
      await app.startOver({ throttle: [ONCE] })
      const post = () => app.ask('POST /users').set('Content-Type', 'application/json').send(body)
      expect([(await post()).status, (await post()).status]).toEqual([status, 429])
    }
  })

  test('a refused body does not spoil the next request of its connection', async () => {
    await app.startOver({ blocklist: [{ method: 'POST' }] })
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

  test('/livez and /readyz pass before it, and count for nothing', async () => {
    for (const [limits, first, later] of RULES) {
      await app.startOver({ ...limits, track: [{ name: 'all', path: '/*z' }] })
      for (const path of ['/livez', '/readyz']) {
        expect(await app.statuses(2, `GET ${path}`)).toEqual([200, 200])
        expect(await app.statusOf(`HEAD ${path}`)).toBe(200)
        expect(await app.statusOf(`POST ${path}`)).toBe(405)
      }
      expect(await app.statuses(2, 'GET /users')).toEqual([first, later])
      expect(await app.statusOf('GET /livez')).toBe(200)
      expect(app.trackedRules()).toEqual([])
    }
  })

  test('a preflight is filtered, and a page may read the denial', async () => {
    const origin = { Origin: 'https://app.example' }
    const env = { CORS_ORIGINS: 'https://app.example' }
    const { ask, statusOf } = await openLimitedApp({ throttle: [ONCE] }, { env })
    await ask('GET /users')
    const preflight = { ...origin, 'Access-Control-Request-Method': 'POST' }
    expect(await statusOf('OPTIONS /users', preflight)).toBe(429)
    const { headers } = await ask('GET /users', origin)
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

  async function postAndReset(port: number): Promise<void> {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(requestText())
      socket.resetAndDestroy()
    })
    socket.on('error', () => {})
    await new Promise<void>(resolve => socket.once('close', () => resolve()))
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
    ['a ban', { bans: [{ ...BAN, ...POST }] }, 1],
    ['a throttle', { throttle: [{ ...ONCE, ...POST }] }, 1],
    ['a route limit', { rateLimits: [{ to: 1, within: 60, only: ['create'] }] }, 1],
  ]

  test.each(
    KINDS.flatMap(([kind, limits, most]) => [
      { kind, limits, most, when: 'once it is accepted', attempt: postAndReset },
      { kind, limits, most, when: 'before it is accepted', attempt: postAndResetUnseen },
    ]),
  )('does not get past $kind $when', async ({ limits, most, attempt }) => {
    const first = await openLimitedApp(limits, { env: { TRUST_PROXY: '' } })
    for (let index = 0; index < 3; index++) {
      await attempt(first.port)
      await first.http.get('/livez').expect(200)
    }
    await first.stop()
    const next = await openTestApp({ env: { DATABASE_URL: first.databaseUrl } })
    const { body: users } = await next.http.get('/users').expect(200)
    expect(users.length).toBeLessThanOrEqual(most)
  })
})
