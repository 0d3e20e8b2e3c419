import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import pino from 'pino'
import supertest, { type Response } from 'supertest'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import { createLimiter } from '../../src/limits/limiter.ts'
import { createRuleLines } from '../../src/limits/rule-lines.ts'
import { checkLimits } from '../../src/limits/rules/checked-limits.ts'
import { shareAppWithRules } from '../support/app-with-rules.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { memoryBans } from '../support/memory-bans.ts'
import { sendRaw } from '../support/raw-http.ts'

const MESSAGE = 'Too many requests, please try again later.'

const TOO_LONG = JSON.stringify({ user: { name: 'x'.repeat(100 * 1024) } })

const ANN = newUserBody({ email: 'ann@example.com' })

/** The users 1 and 2. */
const { app, clock, useLimits } = shareAppWithRules({ users: [ANN, newUserBody()] })

interface Sent {
  readonly line: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object | string
}

type Verb = 'get' | 'head' | 'post' | 'put' | 'patch' | 'delete' | 'options'

async function send({ line, headers = {}, body }: Sent, http = app.http): Promise<Response> {
  const [method = '', path = ''] = line.split(' ')
  const request = http[method.toLowerCase() as Verb](path).redirects(0)
  if (body !== undefined) request.set('Content-Type', 'application/json')
  return request.set(headers).send(typeof body === 'object' ? JSON.stringify(body) : body)
}

const LIST: Sent = { line: 'GET /users' }

async function statusesOf(times: number, sent = LIST, http = app.http): Promise<number[]> {
  const statuses: number[] = []
  for (let index = 0; index < times; index++) statuses.push((await send(sent, http)).status)
  return statuses
}

interface Row extends Sent {
  readonly status: number
}

/** Sends the request of each row, and returns it with the status of its answer. */
async function answersTo(rows: readonly Row[]): Promise<Row[]> {
  const answered: Row[] = []
  for (const row of rows) answered.push({ ...row, status: (await send(row)).status })
  return answered
}

/** How many requests each rule that counted this one leaves, by name. */
function remainingOf({ headers }: Response): Record<string, number> {
  const items = (headers.ratelimit ?? '').matchAll(/"([^"]+)"; r=(\d+)/g)
  return Object.fromEntries([...items].map(([, name, left]) => [name, Number(left)]))
}

function isCounted({ headers }: Response): boolean {
  return headers.ratelimit !== undefined && headers['ratelimit-policy'] !== undefined
}

/** The items of `RateLimit-Policy`, without the partition of the client. */
function policyOf({ headers }: Response): string {
  return String(headers['ratelimit-policy']).replaceAll(/; pk=:[\w+/]+=*:/g, '')
}

describe('rateLimits with to 5 within 1 minute', () => {
  const limits = { rateLimits: [{ name: 'five', to: 5, within: '1 minute' }] }

  test('let five requests pass, refuse later ones with 429, and say what is left', async () => {
    await useLimits(limits)
    for (const [r, status, retryAfter] of [
      [4, 200, undefined],
      [3, 200, undefined],
      [2, 200, undefined],
      [1, 200, undefined],
      [0, 200, undefined],
      [0, 429, '60'],
      [0, 429, '60'],
    ] as const) {
      const answer = await send(LIST)
      expect(answer.status).toBe(status)
      expect(answer.headers.ratelimit).toBe(`"five"; r=${r}; t=60`)
      expect(policyOf(answer)).toBe('"five"; q=5; w=60')
      expect(answer.headers['retry-after']).toBe(retryAfter)
    }
    clock.advance(30_000)
    const { body, headers } = await send(LIST)
    expect(body).toEqual({
      message: MESSAGE,
      ...{ resource: 'User', code: 429, status: false, reason: 'rate_limited' },
    })
    expect(headers).toMatchObject({
      'retry-after': '30',
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
    })
    clock.advance(29_999)
    expect(await statusesOf(1)).toEqual([429])
    clock.advance(1)
    expect(await statusesOf(6)).toEqual([200, 200, 200, 200, 200, 429])
  })

  test('send the same rest of the window whatever happens to the clock of the machine', async () => {
    await useLimits(limits)
    let time = Date.now()
    const machine = vi.spyOn(Date, 'now').mockImplementation(() => {
      time += 50_000
      return time
    })
    onTestFinished(() => machine.mockRestore())
    expect(await statusesOf(5)).toEqual([200, 200, 200, 200, 200])
    const { headers } = await send(LIST)
    expect(headers).toMatchObject({ 'retry-after': '60', ratelimit: '"five"; r=0; t=60' })
  })

  test('let no more pass when all arrive at the same moment', async () => {
    await useLimits(limits)
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(LIST)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(15)
  })
})

test('rateLimits begin the window of a key with its first request', async () => {
  await useLimits({ rateLimits: [{ to: 1, within: '1 minute', by: 'header:x-client' }] })
  const ann = { ...LIST, headers: { 'X-Client': 'ann' } }
  const bob = { ...LIST, headers: { 'X-Client': 'bob' } }
  expect(await statusesOf(1, ann)).toEqual([200])
  clock.advance(40_000)
  expect(await statusesOf(1, bob)).toEqual([200])
  clock.advance(20_000)
  expect(await statusesOf(1, bob)).toEqual([429])
  expect(await statusesOf(1, ann)).toEqual([200])
  clock.advance(40_000)
  expect(await statusesOf(1, bob)).toEqual([200])
  expect(await statusesOf(1, ann)).toEqual([429])
})

const LINES_OF_ACTIONS = {
  list: ['GET /users', 'HEAD /users'],
  read: ['GET /users/99', 'HEAD /users/99'],
  create: ['POST /users'],
  update: ['PUT /users/99', 'PATCH /users/99'],
  delete: ['DELETE /users/99'],
  verify: ['POST /password-verifications'],
}

type ActionName = keyof typeof LINES_OF_ACTIONS

const ALL_ACTIONS = Object.keys(LINES_OF_ACTIONS) as ActionName[]

const LINES_OF_NO_ACTION = [
  ...['OPTIONS /users', 'OPTIONS /users/99', 'GET /', 'GET /livez', 'GET /readyz', 'GET /nowhere'],
  ...['GET /users/', 'POST /Users', 'DELETE /users', 'PATCH /users', 'POST /users/99'],
  ...['GET /password-verifications', 'GET /users/%zz'],
]

describe('rateLimits choose among actions', () => {
  test.each<{ choice: object; counted: readonly ActionName[] }>([
    { choice: {}, counted: ALL_ACTIONS },
    ...ALL_ACTIONS.map(action => ({ choice: { only: [action] }, counted: [action] })),
    { choice: { only: ['create', 'delete'] }, counted: ['create', 'delete'] },
    ...ALL_ACTIONS.map(action => ({
      choice: { except: [action] },
      counted: ALL_ACTIONS.filter(other => other !== action),
    })),
    { choice: { except: ALL_ACTIONS }, counted: [] },
  ])('$choice counts $counted, as one', async ({ choice, counted }) => {
    await useLimits({ rateLimits: [{ name: 'it', to: 100, within: 60, ...choice }] })
    const lines = [...Object.values(LINES_OF_ACTIONS).flat(), ...LINES_OF_NO_ACTION]
    const countedLines = counted.flatMap(action => LINES_OF_ACTIONS[action])
    let left = 100
    for (const line of lines) {
      const expected = countedLines.includes(line) ? --left : undefined
      expect([line, remainingOf(await send({ line })).it]).toEqual([line, expected])
    }
  })
})

const TEXT = { 'Content-Type': 'text/plain' }
const ROT13 = { 'Content-Encoding': 'rot13' }
const HTML = { Accept: 'text/html' }
const NO_IDEMPOTENCY_KEY = { 'Idempotency-Key': ' ' }
const OTHER_VERSION = { 'If-Match': '"other"' }

test('rateLimits count requests that fail or succeed later, and show it in the answer', async () => {
  await useLimits({ rateLimits: [{ name: 'it', to: 17, within: 60 }] })
  let left = 17
  const rows: readonly Row[] = [
    { status: 200, line: 'GET /users' },
    { status: 200, line: 'HEAD /users/1' },
    { status: 201, line: 'POST /users', body: newUserBody() },
    { status: 204, line: 'DELETE /users/2' },
    { status: 304, line: 'GET /users/1', headers: { 'If-None-Match': '*' } },
    { status: 400, line: 'GET /users?page=0' },
    { status: 400, line: 'POST /users', body: '{"user":' },
    { status: 400, line: 'POST /users', body: newUserBody(), headers: NO_IDEMPOTENCY_KEY },
    { status: 404, line: 'GET /users/999' },
    { status: 404, line: 'DELETE /users/none' },
    { status: 406, line: 'GET /users', headers: HTML },
    { status: 412, line: 'PUT /users/1', body: { user: {} }, headers: OTHER_VERSION },
    { status: 413, line: 'POST /users', body: TOO_LONG },
    { status: 415, line: 'POST /users', body: 'x', headers: TEXT },
    { status: 422, line: 'POST /users', body: {} },
    { status: 422, line: 'POST /users', body: ANN },
  ]
  for (const { status, ...sent } of rows) {
    const answer = await send(sent)
    expect([sent, answer.status, remainingOf(answer)]).toEqual([sent, status, { it: --left }])
  }
  expect(await statusesOf(2)).toEqual([200, 429])
})

describe('a limit that is used up', () => {
  test('is told before the faults of a request, and after those of its path', async () => {
    await useLimits({ rateLimits: [{ to: 1, within: 60 }] })
    await send(LIST)
    const rows: readonly Row[] = [
      { status: 404, line: 'GET /users/' },
      { status: 400, line: 'GET /users/%zz' },
      { status: 405, line: 'DELETE /users' },
      { status: 405, line: 'POST /users/1', body: 'x', headers: TEXT },
      { status: 204, line: 'OPTIONS /users' },
      { status: 429, line: 'GET /users', headers: HTML },
      { status: 429, line: 'POST /users', body: 'x', headers: TEXT },
      { status: 429, line: 'POST /users', body: {}, headers: ROT13 },
      { status: 429, line: 'POST /users', body: TOO_LONG },
      { status: 429, line: 'POST /users', body: '{"user":' },
      { status: 429, line: 'POST /users', body: {}, headers: NO_IDEMPOTENCY_KEY },
      { status: 429, line: 'GET /users?page=0' },
      { status: 429, line: 'POST /users', body: {} },
      { status: 429, line: 'GET /users/999' },
      { status: 429, line: 'GET /users', headers: { 'If-None-Match': '*' } },
    ]
    expect(await answersTo(rows)).toEqual(rows)
  })

  test('is told after the faults of a body that cannot be read, if it counts by the body', async () => {
    await useLimits({ rateLimits: [{ to: 1, within: 60, by: 'body:user.email' }] })
    const email = 'bob@example.com'
    const right = JSON.stringify(newUserBody({ email }))
    const used = { 'Idempotency-Key': 'used' }
    const partial = { user: { email } }
    const rows: readonly Row[] = [
      { status: 201, line: 'POST /users', body: right, headers: used },
      { status: 406, line: 'POST /users', body: right, headers: HTML },
      { status: 415, line: 'POST /users', body: right, headers: TEXT },
      { status: 415, line: 'POST /users', body: right, headers: ROT13 },
      { status: 413, line: 'POST /users', body: { ...partial, more: TOO_LONG } },
      { status: 400, line: 'POST /users', body: right.slice(0, -1) },
      { status: 429, line: 'POST /users', body: right, headers: NO_IDEMPOTENCY_KEY },
      { status: 429, line: 'POST /users', body: partial },
      { status: 429, line: 'POST /users', body: partial, headers: used },
      { status: 429, line: 'POST /users', body: right, headers: used },
      { status: 429, line: 'PUT /users/999', body: right },
      { status: 429, line: 'PATCH /users/1', body: right, headers: OTHER_VERSION },
    ]
    expect(await answersTo(rows)).toEqual(rows)
  })
})

describe('several rateLimits', () => {
  test('count separately, in the order of the file, until one refuses', async () => {
    await useLimits({
      rateLimits: [
        { name: 'short', to: 2, within: '10 seconds' },
        { name: 'long', to: 3, within: '1 minute' },
        { name: 'reads', to: 9, within: '1 minute', only: ['read'] },
      ],
    })
    for (const [waitMs, status, left] of [
      [0, 200, { short: 1, long: 2 }],
      [0, 200, { short: 0, long: 1 }],
      [0, 429, { short: 0 }],
      [0, 429, { short: 0 }],
      [10_000, 200, { short: 1, long: 0 }],
      [0, 429, { short: 0, long: 0 }],
    ] as const) {
      clock.advance(waitMs)
      const answer = await send(LIST)
      expect([answer.status, remainingOf(answer)]).toEqual([status, left])
    }
  })

  test('name the one that refuses as violated-policies', async () => {
    await useLimits({
      rateLimits: [
        { name: 'wide', to: 9, within: 60 },
        { name: 'narrow "1"', to: 1, within: 60 },
      ],
    })
    const sent = { ...LIST, headers: { Accept: 'application/problem+json' } }
    await send(sent)
    const { status, headers, body } = await send(sent)
    expect([status, headers['content-type']]).toEqual([429, 'application/problem+json'])
    expect(body).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      ...{ title: 'Too Many Requests', status: 429, detail: MESSAGE, instance: '/users' },
      ...{ reason: 'rate_limited', 'violated-policies': ['narrow "1"'] },
    })
  })

  test.each([
    ['plain', 'plain'],
    ['a "quoted" name', 'a \\"quoted\\" name'],
    ['back\\slash\\', 'back\\\\slash\\\\'],
    ['a", b; r=9; q="', 'a\\", b; r=9; q=\\"'],
    ['Grüße für 10 €', 'Gr??e f?r 10 ?'],
    ['限制 🚦', '?? ?'],
    ['tab\tline\r\nX-Other: 1', 'tab?line??X-Other: 1'],
    [undefined, 'rateLimits[1]'],
  ])('whose name is %j are valid items of both headers', async (name, shown) => {
    await useLimits({
      rateLimits: [
        { name: 'first', to: 7, within: 60 },
        { name, to: 8, within: 120 },
      ],
    })
    const answer = await send(LIST)
    expect([answer.status, answer.headers['x-other']]).toEqual([200, undefined])
    expect(answer.headers.ratelimit).toBe(`"first"; r=6; t=60, "${shown}"; r=7; t=120`)
    expect(policyOf(answer)).toBe(`"first"; q=7; w=60, "${shown}"; q=8; w=120`)
  })
})

const list = (headers: Record<string, string>): Sent => ({ ...LIST, headers })
const host = (name: string) => list({ Host: name })
const create = (user: unknown): Sent => ({ line: 'POST /users', body: { user } })

/** Counts by it, these count as one client, this is another one, this is not counted. */
type KeyRow = readonly [by: unknown, same: readonly Sent[], other: Sent, without: Sent | undefined]

const EMAIL = 'body:user.email'
const ONE_EMAIL = [create({ email: 'a@b.c' }), create({ email: '  A@B.c ' })]
const OTHER_EMAIL = create({ email: 'b@b.c' })
const HEADERS = ['header:x-a', 'header:x-b']
const named = (name: string): Sent => ({
  line: 'POST /users',
  body: `{"constructor":{"name":"${name}"}}`,
})

// What throttles count by too is tested there.
test.each<KeyRow>([
  [
    undefined,
    [LIST, { line: 'GET /users/1' }],
    list({ 'X-Forwarded-For': '203.0.113.8' }),
    undefined,
  ],
  ['domain', [host('a.b.example.com'), host('example.com')], host('b.com'), undefined],
  ['domain', [host('[::1]'), host('[::1]:80')], host('[::2]'), undefined],
  ['domain', [host('co.uk'), host('co.uk')], host('org.uk'), undefined],
  [
    'header:X-Api-Key',
    [list({ 'x-api-key': 'one' }), list({ 'X-API-KEY': 'one' })],
    list({ 'X-Api-Key': 'ONE' }),
    list({ 'X-Api-Keys': 'one' }),
  ],
  [
    'query:email',
    [{ line: 'GET /users?email=a' }, { line: 'GET /users?per_page=9&%65mail=%61' }],
    { line: 'GET /users?email=b' },
    { line: 'GET /users?name=a' },
  ],
  [
    'path',
    [{ line: 'GET /users/1' }, { line: 'PATCH /users/%31' }],
    { line: 'GET /users/2' },
    undefined,
  ],
  [EMAIL, ONE_EMAIL, OTHER_EMAIL, create({ name: 'Ann' })],
  [EMAIL, ONE_EMAIL, OTHER_EMAIL, create({ email: ['a@b.c'] })],
  [EMAIL, ONE_EMAIL, OTHER_EMAIL, create({ email: ' ' })],
  [EMAIL, ONE_EMAIL, OTHER_EMAIL, { ...create({ email: 'a@b.c' }), line: 'DELETE /users/99' }],
  [
    'body:user.age',
    [create({ age: 7 }), create({ age: '7' })],
    create({ age: 8 }),
    create({ age: null }),
  ],
  ['body:constructor.name', [named('x'), named('X')], named('y'), create({})],
  [HEADERS, [list({ 'X-A': 'a,b', 'X-B': 'c' })], list({ 'X-A': 'a', 'X-B': 'b,c' }), undefined],
  [
    HEADERS,
    [list({ 'X-A': '1', 'X-B': '2' })],
    list({ 'X-A': '2', 'X-B': '1' }),
    list({ 'X-A': '1' }),
  ],
  [['ip', EMAIL], ONE_EMAIL, OTHER_EMAIL, create({})],
])('rateLimits count by %j: %j, not %j', async (by, same, other, without) => {
  await useLimits({ rateLimits: [{ name: 'it', to: 2, within: 60, by }] })
  const [first = LIST] = same
  expect(remainingOf(await send(first))).toEqual({ it: 1 })
  expect(remainingOf(await send(same[1] ?? first))).toEqual({ it: 0 })
  expect((await send(first)).status).toBe(429)
  expect(remainingOf(await send(other))).toEqual({ it: 1 })
  for (const sent of without === undefined ? [] : [without, without, without]) {
    const answer = await send(sent)
    expect([isCounted(answer), answer.status === 429]).toEqual([false, false])
  }
})

describe('rateLimits with an answer of their own', () => {
  test('redirect with the alert as message, and the headers of the limit', async () => {
    const answer = { redirect: '/busy', alert: 'Too many signups on domain!' }
    await useLimits({
      rateLimits: [{ name: 'by domain', to: 1, within: '10 seconds', by: 'domain', with: answer }],
    })
    await send(LIST)
    const refused = await send(LIST)
    expect(refused.status).toBe(302)
    expect(refused.body).toEqual({
      message: 'Too many signups on domain!',
      ...{ resource: 'User', code: 302, status: false, reason: 'rate_limited' },
    })
    expect(refused.headers).toMatchObject({ location: '/busy', 'retry-after': '10' })
    expect(refused.headers.ratelimit).toBe('"by domain"; r=0; t=10')
    expect(policyOf(refused)).toBe('"by domain"; q=1; w=10')
  })

  test.each([
    [{ redirect: '/busy' }, 302, MESSAGE, { location: '/busy' }],
    [{}, 429, MESSAGE, {}],
    [{ status: 503 }, 503, MESSAGE, {}],
    [{ message: 'Slower' }, 429, 'Slower', {}],
    [
      { status: 420, message: 'Calm', headers: { 'X-Why': 'speed', 'Retry-After': '7' } },
      ...[420, 'Calm', { 'x-why': 'speed', 'retry-after': '7' }],
    ],
  ] as const)('%j', async (answer, status, message, headers) => {
    await useLimits({ rateLimits: [{ to: 1, within: 60, with: answer }] })
    await send(LIST)
    const refused = await send(LIST)
    expect(refused.status).toBe(status)
    expect(refused.body).toEqual({
      message,
      ...{ resource: 'User', code: status, status: false, reason: 'rate_limited' },
    })
    expect(refused.headers).toMatchObject(headers)
    expect(isCounted(refused)).toBe(true)
  })

  test.each([
    ['retry-after', '7'],
    ['cache-control', 'max-age=7'],
    ['content-type', 'application/other+json'],
    ['content-length', undefined],
  ])('that names %s in lower case send it once', async (name, value) => {
    const headers = { [name]: value ?? '3' }
    await useLimits({ rateLimits: [{ to: 1, within: 60, with: { headers } }] })
    const request = 'GET /users HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    await sendRaw(app.port, request).ended
    const exchange = sendRaw(app.port, request)
    const received: Buffer[] = []
    exchange.socket.on('data', chunk => received.push(chunk))
    await exchange.ended
    const [head = '', body = ''] = Buffer.concat(received).toString().split('\r\n\r\n')
    const start = `${name}: `
    const lines = head.split('\r\n').filter(line => line.toLowerCase().startsWith(start))
    expect(lines.map(line => line.slice(start.length))).toEqual([
      value ?? String(Buffer.byteLength(body)),
    ])
  })
})

test('rateLimits do not count a safelisted request, and add nothing to its answer', async () => {
  await useLimits({
    safelist: [{ name: 'staff', header: { 'X-Staff': 'yes' } }],
    rateLimits: [
      { to: 1, within: 60 },
      { to: 1, within: 60, by: EMAIL },
    ],
  })
  const ofClient = create({ email: 'a@b.c' })
  const ofStaff = { ...ofClient, headers: { 'X-Staff': 'yes' } }
  for (const _ of [1, 2, 3]) {
    const { status, headers } = await send(ofStaff)
    expect(status).toBe(422)
    expect(Object.keys(headers).join()).not.toContain('ratelimit')
  }
  const first = await send(ofClient)
  expect(first.status).toBe(422)
  expect(remainingOf(first)).toEqual({ 'rateLimits[0]': 0, 'rateLimits[1]': 0 })
  expect(await statusesOf(1, ofClient)).toEqual([429])
  expect(await statusesOf(2, ofStaff)).toEqual([422, 422])
})

/** A server with a limiter on `GET /users`, which counts in `store`. */
async function openLimited(rules: object, store: CounterStore) {
  const { now, advance } = createFakeClock()
  const logLines: Record<string, unknown>[] = []
  const log = pino({ base: null }, { write: line => logLines.push(JSON.parse(line)) })
  const checked = checkLimits(rules)
  if ('mistakes' in checked) throw new Error(checked.mistakes.join())
  const fail = () => {
    throw new Error('the bans of a test failed')
  }
  const bans = await openBanList({
    ...{ store: memoryBans(), now, monotonicNow: now },
    ...{ onStoreFailure: fail, onReadFailure: fail, onForeignChange: fail },
  })
  onTestFinished(() => bans.close())
  const lines = createRuleLines({ log, monotonicNow: now })
  const limiter = createLimiter({ limits: checked.limits, store, bans, now, lines })
  const server = express()
    .use(limiter.filter)
    .get('/users', limiter.beforeBody('list'), (_request, response) => void response.json([]))
    .listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const http = supertest(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return { advance, logLines, http }
}

/** Rules of each kind that counts. */
const COUNTING_RULES = {
  rateLimits: [
    { to: 1, within: 60 },
    { to: 1, within: 60 },
  ],
  throttle: [{ limit: 1, period: 60 }],
  bans: [{ maxretry: 1, findtime: 60, bantime: 60 }],
  track: [{ limit: 1, period: 60 }],
}

test('createLimiter tells its store how long the request has waited for earlier counts', async () => {
  const waited: (number | undefined)[] = []
  const store: CounterStore = {
    increment: async (_key, _windowMs, waitedMs) => {
      waited.push(waitedMs)
      return { count: 1, resetsInMs: 1000, waitedMs: 12 }
    },
    reset: () => {},
  }
  const { bans: _bans, ...rules } = COUNTING_RULES
  const { http } = await openLimited(rules, store)
  await statusesOf(2, LIST, http)
  // A throttle, a track, and two limits on the route, which get the next step of ten.
  expect(waited).toEqual([0, 12, 30, 40, 0, 12, 30, 40])
})

test.each<[string, () => never | Promise<never>]>([
  [
    'at once',
    () => {
      throw new Error('store is gone')
    },
  ],
  ['by a promise', () => Promise.reject(new Error('store is gone'))],
])(
  'createLimiter over a store that fails %s lets requests pass and says so in the log, once a second',
  async (_how, fail) => {
    const store: CounterStore = { increment: fail, reset: fail }
    const { advance, logLines, http } = await openLimited(COUNTING_RULES, store)
    const storeLines = () =>
      logLines.filter(({ msg }) => msg === 'counter store failed, requests allowed')
    expect(await statusesOf(2, LIST, http)).toEqual([200, 200])
    expect(storeLines()).toMatchObject([{ level: 50, err: { message: 'store is gone' } }])
    advance(1000)
    const answer = await send(LIST, http)
    expect([answer.status, isCounted(answer)]).toEqual([200, false])
    expect(storeLines()).toMatchObject([{}, { leftOut: 9 }])
  },
)
