import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import type { Key, LimitsFile, ThrottleRule } from '../../src/limits/kinds/define-limits.ts'
import { newUserBody } from '../support/builders.ts'
import {
  ANN,
  BOB,
  type From,
  type LimitedApp,
  MINUTE,
  openLimitedApp,
  shareLimitedApp,
} from '../support/limited-app.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

const MESSAGE = 'Too many requests, please try again later.'
const POSTS: ThrottleRule = { name: 'posts', path: '/posts', limit: 10, period: '1 day' }
const ONCE: ThrottleRule = { name: 'once', limit: 1, period: 60 }
const BAN = { maxretry: 1, findtime: 60, bantime: 60 }

const app = shareLimitedApp()
const direct = shareLimitedApp({ env: { TRUST_PROXY: '' } })

/** All that the service sends to these bytes, until it closes the connection. */
function received({ port }: LimitedApp, line: string, headers = ''): Promise<string> {
  return sendRaw(port, `${line}\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`).text
}

/** The status of the answer to exactly these bytes. */
async function statusOfBytes({ port }: LimitedApp, bytes: string): Promise<number | undefined> {
  const exchange = sendRaw(port, bytes)
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  return answer?.status
}

test('a safelist lets requests pass that any other rule would refuse, and keeps them out of every count', async () => {
  const pass = { 'X-Pass': 'please' }
  await app.startOver({
    safelist: [{ name: 'office', ip: BOB }, { header: pass }],
    blocklist: [{ path: '/blocked' }],
    bans: [{ ...BAN, path: '/login', maxretry: 2 }],
    throttle: [{ path: '/users', limit: 2, period: 60 }],
    track: [{ name: 'all' }],
    rateLimits: [
      { to: 2, within: 60, only: ['create'] },
      { to: 2, within: 60, by: 'body:user.email' },
    ],
  })
  for (const [line, status] of [
    ['GET /login', 404],
    ['GET /users', 200],
    ['POST /users', 422],
    ['GET /blocked', 404],
  ] as const) {
    const user = { email: 'ann@example.com' }
    for (const from of [pass, pass, pass, BOB]) {
      const answer = await app.ask(line, from).send({ user })
      expect([answer.status, answer.headers.ratelimit]).toEqual([status, undefined])
    }
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

test('a blocklist answers 403 in the format of all errors, without Retry-After, and no other rule counts the request', async () => {
  await app.startOver({
    blocklist: [{ userAgent: { regex: 'sqlmap', flags: 'i' } }],
    bans: [{ ...BAN, path: '/users', maxretry: 3 }],
    throttle: [{ path: '/users', limit: 2, period: 60 }],
    track: [{ name: 'limited', limit: 1, period: 60 }, { name: 'plain' }],
    rateLimits: [{ to: 2, within: 60 }],
  })
  for (let index = 0; index < 5; index++) {
    const { status, body, headers } = await app.ask('GET /users', { 'User-Agent': 'SQLMap/1.7' })
    expect([status, body]).toEqual([
      403,
      { message: 'Forbidden', resource: 'User', code: 403, status: false, reason: 'blocked' },
    ])
    expect(headers).not.toHaveProperty('retry-after')
    const id = expect.any(String)
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-request-id': id })
  }
  expect(app.trackedRules()).toEqual([])
  expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
  expect(app.trackedRules()).toEqual(['plain', 'limited', 'plain'])
})

describe('a throttle', () => {
  test('refuses with 429, and says in whole seconds, rounded up, when its period ends', async () => {
    await app.startOver({ throttle: [POSTS] })
    expect(await app.statuses(10, 'POST /posts')).toEqual(Array(10).fill(404))
    for (const [afterMs, seconds] of [
      [1, 86_400],
      [86_400_000 - 2, 1],
    ] as const) {
      app.clock.advance(afterMs)
      const { status, body, headers } = await app.ask('POST /posts')
      expect([status, body]).toEqual([
        429,
        { message: MESSAGE, resource: 'Request', code: 429, status: false, reason: 'rate_limited' },
      ])
      expect(headers).toMatchObject({
        'retry-after': String(seconds),
        ratelimit: `"posts"; r=0; t=${seconds}`,
        'cache-control': 'no-store',
      })
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

  test('is asked in order with others until one refuses; those after it do not count', async () => {
    await app.startOver({
      throttle: [
        { name: 'first', limit: 5, period: 60 },
        { name: 'second', limit: 2, period: 60 },
        { name: 'third', limit: 3, period: 3600 },
      ],
      track: [{ name: 'plain' }],
      rateLimits: [{ to: 3, within: 3600 }],
    })
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    for (const rule of ['second', 'second', 'second', 'first', 'first']) {
      const { status, headers } = await app.ask('GET /users')
      expect([status, headers.ratelimit]).toEqual([429, `"${rule}"; r=0; t=60`])
    }
    expect(app.trackedRules()).toEqual(['plain', 'plain'])
    app.clock.advance(MINUTE)
    const { status, headers } = await app.ask('GET /users')
    expect([status, headers.ratelimit]).toEqual([200, expect.stringMatching(/^"rate.*; r=0; /)])
    expect((await app.ask('GET /users')).headers.ratelimit).toContain('"third"')
  })
})

test('thousands of rules are asked in turn', async () => {
  const rules = Array.from({ length: 5000 }, (_, index) => ({ path: `/nowhere/${index}` }))
  await app.startOver({ blocklist: rules, throttle: [ONCE] })
  expect(await app.statuses(2, 'GET /users')).toEqual([200, 429])
  expect(await app.statusOf('GET /nowhere/4999')).toBe(403)
})

type Sent = readonly [line: string, from?: From]

const from = (client: string): Sent => ['GET /users', client]
const host = (name: string): Sent => ['GET /users', { Host: name }]
const get = (path: string): Sent => [`GET ${path}`]
const having = (headers: Readonly<Record<string, string>>): Sent => ['GET /users', headers]

describe('by', () => {
  test.each<[by: Key, one: Sent, same: Sent, other: Sent]>([
    ['ip', from(ANN), from(ANN), from(BOB)],
    ['ip', from('2001:db8:0:100::1'), from('2001:DB8:0:1ff:f::f'), from('2001:db8:0:200::1')],
    ['ip', from('::ffff:198.51.100.1'), from(ANN), from('::ffff:198.51.100.2')],
    // The trusted proxy added the last one.
    ['ip', from(`192.0.2.1, ${ANN}`), from(`192.0.2.2, ${ANN}`), from(`192.0.2.1, ${BOB}`)],
    ['host', host('a.example'), host('A.Example.:8080'), host('b.example')],
    ['domain', host('one.shop.co.uk'), host('two.SHOP.co.uk:80'), host('other.co.uk')],
    ['domain', host('one.github.io'), host('www.one.github.io'), host('two.github.io')],
    ['domain', host('co.uk'), host('CO.UK'), host('org.uk')],
    ['domain', host('[::1]'), host('[::1]:80'), host('[::2]')],
    ['domain', host('localhost'), host('LOCALHOST'), host('other')],
    ['query:key', get('/users?key=a+b'), get('/users?key=a%20b'), get('/users?key=c')],
    ['query:Key', get('/users?Key=1'), get('/users?key=2&Key=1'), get('/users?Key=2')],
    [['query:a', 'query:b'], get('/?a=1&b=23'), get('/?b=23&a=1'), get('/?a=12&b=3')],
    [
      'query:ip',
      get('/users?ip=2001:DB8:0:1ab::1'),
      get('/users?ip=2001:db8:0:100::9'),
      get('/users?ip=2001:db8:0:200::9'),
    ],
    ['path', get('/users/1'), get('/users/%31?a=b'), get('/users/2')],
    ['path', get('/a/b'), get('//a///b'), get('/a/b/')],
    ['header:X-A', having({ 'X-A': 'x' }), ['GET /', { 'x-a': 'x' }], having({ 'X-A': 'X' })],
    [
      ['header:X-A', 'header:X-B'],
      having({ 'X-A': 'x', 'X-B': 'y' }),
      having({ 'X-A': 'x', 'X-B': 'y', 'X-Forwarded-For': BOB }),
      having({ 'X-A': 'x","y', 'X-B': '' }),
    ],
  ])('%j counts %j and %j as one, and %j apart', async (by, one, same, other) => {
    await app.startOver({ throttle: [{ ...ONCE, by }] })
    expect(await app.statusOf(...one)).not.toBe(429)
    expect(await app.statusOf(...other)).not.toBe(429)
    expect(await app.statusOf(...same)).toBe(429)
  })

  test.each<[Key, string]>([
    ['header:X-Key', '/users'],
    ['query:key', '/nowhere?Key=1&other=key'],
    ['query:key', '/nowhere?key='],
    [['ip', 'header:X-Key'], '/users'],
  ])('%j does not count GET %s, which has no such key', async (by, path) => {
    await app.startOver({ throttle: [{ ...ONCE, by }] })
    expect(await app.statuses(3, `GET ${path}`)).not.toContain(429)
  })
})

test('a ban by a header may be ordered by any address of the network that it counts', async () => {
  const ban = { name: 'network', by: 'header:X-Real-IP', maxretry: 1, findtime: 60, bantime: 60 }
  await app.startOver({ bans: [ban] })
  await app.bans().add({ rule: 'network', client: '2001:db8:0:100::42' })
  expect(await app.statusOf('GET /users', { 'X-Real-IP': '2001:db8:0:1ff::7' })).toBe(403)
  expect(await app.statusOf('GET /users', { 'X-Real-IP': '2001:db8:0:200::7' })).toBe(200)
})

describe('with', () => {
  async function refused(answer: ThrottleRule['with'] & {}, headers: From = {}) {
    await app.startOver({ throttle: [{ ...ONCE, with: answer }] })
    await app.ask('GET /users')
    return app.ask('GET /users', headers)
  }

  test.each<[ThrottleRule['with'] & {}, status: number, message: string, headers: object]>([
    [{ redirect: '/busy', alert: 'Come back é!' }, 302, 'Come back é!', { location: '/busy' }],
    [
      { status: 503, message: 'Busy', headers: { 'X-Busy': 'yes', 'Retry-After': '5' } },
      ...([503, 'Busy', { 'x-busy': 'yes', 'retry-after': '5' }] as const),
    ],
    [{ message: 'Slow down' }, 429, 'Slow down', {}],
    [{}, 429, MESSAGE, {}],
  ])('%j answers %i with the headers of the limit', async (answer, status, message, headers) => {
    const { body, headers: sent, ...rest } = await refused(answer)
    expect(rest.status).toBe(status)
    expect(body).toEqual({
      ...{ message, resource: 'User', code: status, status: false, reason: 'rate_limited' },
    })
    const limit = { ratelimit: '"once"; r=0; t=60', 'retry-after': '60' }
    expect(sent).toMatchObject({ ...limit, ...headers })
    expect(sent['ratelimit-policy']).toContain('"once"; q=1; w=60')
  })

  test('a status other than 429 is not a quota-exceeded problem, and 204 has no body', async () => {
    const { body } = await refused({ status: 503 }, { Accept: 'application/problem+json' })
    expect(body).toMatchObject({ type: 'about:blank', status: 503, reason: 'rate_limited' })
    expect(body).not.toHaveProperty('violated-policies')
    const { status, headers } = await refused({ status: 204 })
    expect(status).toBe(204)
    expect(headers).not.toHaveProperty('content-length')
  })

  test.each([
    ['throttle', 'limit', 'period'],
    ['rateLimits', 'to', 'within'],
  ])('on %s sends a header that it names in lower case once', async (kind, limit, period) => {
    const headers = { 'retry-after': '7', 'cache-control': 'a', 'content-type': 'b' }
    const rule = {
      [limit]: 1,
      [period]: 60,
      with: { headers: { ...headers, 'content-length': '3' } },
    }
    await direct.startOver({ [kind]: [rule] })
    await direct.ask('GET /users')
    const [head = '', body] = (await received(direct, 'GET /users HTTP/1.1')).split('\r\n\r\n')
    const lengthOf = { 'content-length': String(body?.length) }
    for (const [name, value] of Object.entries({ ...headers, ...lengthOf })) {
      const lines = head.match(new RegExp(`^${name}:.*(?=\\r|$)`, 'gim'))
      expect(lines?.map(line => line.slice(name.length + 2))).toEqual([value])
    }
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
    ['an undecodable path', 'GET /users/%zz', ''],
    ['a method of nobody', 'PROPFIND /x', ''],
    ['OPTIONS of the server', 'OPTIONS *', ''],
    ['HEAD', 'HEAD /users', ''],
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

  test('/livez and /readyz pass before it, and count for nothing', async () => {
    for (const [limits, first, later] of RULES) {
      await app.startOver({ ...limits, track: [{ name: 'all', path: '/*z' }] })
      for (const path of ['/livez', '/readyz']) {
        expect(await app.statuses(2, `GET ${path}`)).toEqual([200, 200])
        expect(await app.statusOf(`POST ${path}`)).toBe(405)
      }
      expect(await app.statuses(2, 'GET /users')).toEqual([first, later])
      expect(await app.statusOf('HEAD /livez')).toBe(200)
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
  const BODY = JSON.stringify(newUserBody())
  const HEAD = `Host: a\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}`
  const TEXT = `POST /users HTTP/1.1\r\n${HEAD}\r\n\r\n${BODY}`

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
  async function postAndReset(port: number): Promise<void> {
    const done = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(CLIENT, { eval: true, workerData: { port, text: TEXT, done } })
    // Listened for early: a quick worker may exit before its `online` event is handled.
    const exited = once(worker, 'exit')
    await once(worker, 'online')
    Atomics.wait(done, 0, 0)
    await exited
  }

  test.each<[string, LimitsFile, number]>([
    ['a blocklist', { blocklist: [{ ...POST, ip: '127.0.0.0/8' }] }, 0],
    ['a ban', { bans: [{ ...BAN, ...POST }] }, 1],
    ['a throttle', { throttle: [{ ...ONCE, ...POST }] }, 1],
    ['a route limit', { rateLimits: [{ to: 1, within: 60, only: ['create'] }] }, 1],
  ])('does not get past %s', async (_kind, limits, most) => {
    const first = await openLimitedApp(limits, { env: { TRUST_PROXY: '' } })
    for (let index = 0; index < 3; index++) {
      await postAndReset(first.port)
      await first.http.get('/livez').expect(200)
    }
    await first.stop()
    const next = await openTestApp({ env: { DATABASE_URL: first.databaseUrl } })
    const { body: users } = await next.http.get('/users').expect(200)
    expect(users.length).toBeLessThanOrEqual(most)
  })
})
