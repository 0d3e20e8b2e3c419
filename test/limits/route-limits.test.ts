import type { Response } from 'supertest'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { BOB, shareLimitedApp } from '../support/limited-app.ts'

const MESSAGE = 'Too many requests, please try again later.'

const TOO_LONG = JSON.stringify({ user: { name: 'x'.repeat(100 * 1024) } })

const app = shareLimitedApp({ users: [newUserBody({ email: 'ann@example.com' })] })

interface Sent {
  readonly line: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object | string
}

interface Row extends Sent {
  readonly status: number
}

async function send({ line, headers = {}, body }: Sent): Promise<Response> {
  const request = app.ask(line, body === undefined ? {} : { 'Content-Type': 'application/json' })
  return request.set(headers).send(typeof body === 'object' ? JSON.stringify(body) : body)
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

/** The items of `RateLimit-Policy`, without the partition of the client. */
function policyOf({ headers }: Response): string {
  return String(headers['ratelimit-policy']).replaceAll(/; pk=:[\w+/]+=*:/g, '')
}

describe('rateLimits with to 5 within 1 minute', () => {
  const limits = { rateLimits: [{ name: 'five', to: 5, within: '1 minute' }] }

  test('let five requests pass, refuse later ones with 429, and say what is left', async () => {
    await app.startOver(limits)
    for (const [r, status, retryAfter] of [
      [4, 200, undefined],
      [3, 200, undefined],
      [2, 200, undefined],
      [1, 200, undefined],
      [0, 200, undefined],
      [0, 429, '60'],
      [0, 429, '60'],
    ] as const) {
      const answer = await app.ask('GET /users')
      expect(answer.status).toBe(status)
      expect(answer.headers.ratelimit).toBe(`"five"; r=${r}; t=60`)
      expect(policyOf(answer)).toBe('"five"; q=5; w=60')
      expect(answer.headers['retry-after']).toBe(retryAfter)
    }
    expect((await app.ask('GET /users', BOB)).headers.ratelimit).toBe('"five"; r=4; t=60')
    app.clock.advance(30_000)
    const { body, headers } = await app.ask('GET /users')
    expect(body).toEqual({
      message: MESSAGE,
      ...{ resource: 'User', code: 429, status: false, reason: 'rate_limited' },
    })
    expect(headers).toMatchObject({
      'retry-after': '30',
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
    })
    app.clock.advance(29_999)
    expect(await app.statusOf('GET /users')).toBe(429)
    app.clock.advance(1)
    expect(await app.statuses(6, 'GET /users')).toEqual([200, 200, 200, 200, 200, 429])
  })
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
  ...[
    'OPTIONS /users',
    'GET /',
    'GET /docs',
    'GET /livez',
    'GET /nowhere',
    'GET /users/',
    'POST /Users',
  ],
  ...['PUT /users', 'POST /users/99', 'GET /password-verifications', 'GET /users/%zz'],
]

test.each<{ choice: object; counted: readonly ActionName[] }>([
  { choice: {}, counted: ALL_ACTIONS },
  ...ALL_ACTIONS.map(action => ({ choice: { only: [action] }, counted: [action] })),
  { choice: { only: ['create', 'delete'] }, counted: ['create', 'delete'] },
  { choice: { except: ['list', 'create', 'update'] }, counted: ['read', 'delete', 'verify'] },
  { choice: { except: ALL_ACTIONS }, counted: [] },
])('rateLimits with $choice count $counted, as one', async ({ choice, counted }) => {
  await app.startOver({ rateLimits: [{ name: 'it', to: 100, within: 60, ...choice }] })
  const countedLines = counted.flatMap(action => LINES_OF_ACTIONS[action])
  let left = 100
  for (const line of [...Object.values(LINES_OF_ACTIONS).flat(), ...LINES_OF_NO_ACTION]) {
    const expected = countedLines.includes(line) ? --left : undefined
    expect([line, remainingOf(await app.ask(line)).it]).toEqual([line, expected])
  }
})

const TEXT = { 'Content-Type': 'text/plain' }
const HTML = { Accept: 'text/html' }
const NO_IDEMPOTENCY_KEY = { 'Idempotency-Key': ' ' }
const OTHER_VERSION = { 'If-Match': '"other"' }

test('rateLimits count requests that fail or succeed later, and show it in the answer', async () => {
  await app.startOver({ rateLimits: [{ name: 'it', to: 12, within: 60 }] })
  let left = 12
  const rows: readonly Row[] = [
    { status: 200, line: 'HEAD /users/1' },
    { status: 201, line: 'POST /users', body: newUserBody() },
    { status: 204, line: 'DELETE /users/2' },
    { status: 304, line: 'GET /users/1', headers: { 'If-None-Match': '*' } },
    { status: 400, line: 'POST /users', body: '{"user":' },
    { status: 412, line: 'PUT /users/1', body: { user: {} }, headers: OTHER_VERSION },
    { status: 413, line: 'POST /users', body: TOO_LONG },
    { status: 422, line: 'POST /users', body: {} },
  ]
  for (const { status, ...sent } of rows) {
    const answer = await send(sent)
    expect([sent, answer.status, remainingOf(answer)]).toEqual([sent, status, { it: --left }])
  }
})

describe('the refusal of a route limit', () => {
  test('is told before the faults of a request, and after those of its path', async () => {
    await app.startOver({ rateLimits: [{ to: 1, within: 60 }] })
    await app.ask('GET /users')
    const rows: readonly Row[] = [
      { status: 404, line: 'GET /users/' },
      { status: 400, line: 'GET /users/%zz' },
      { status: 405, line: 'POST /users/1', body: 'x', headers: TEXT },
      { status: 204, line: 'OPTIONS /users' },
      { status: 429, line: 'GET /users', headers: HTML },
      { status: 429, line: 'POST /users', body: TOO_LONG },
      { status: 429, line: 'POST /users', body: {}, headers: NO_IDEMPOTENCY_KEY },
      { status: 429, line: 'GET /users/1', headers: { 'If-None-Match': '*' } },
    ]
    expect(await answersTo(rows)).toEqual(rows)
  })

  test('is told after the faults of a body that cannot be read, if it counts by the body', async () => {
    await app.startOver({ rateLimits: [{ to: 1, within: 60, by: 'body:user.email' }] })
    const email = 'bob@example.com'
    const right = JSON.stringify(newUserBody({ email }))
    const used = { 'Idempotency-Key': 'used' }
    const partial = { user: { email } }
    const rows: readonly Row[] = [
      { status: 201, line: 'POST /users', body: right, headers: used },
      { status: 406, line: 'POST /users', body: right, headers: HTML },
      { status: 415, line: 'POST /users', body: right, headers: TEXT },
      { status: 413, line: 'POST /users', body: { ...partial, more: TOO_LONG } },
      { status: 400, line: 'POST /users', body: right.slice(0, -1) },
      { status: 429, line: 'POST /users', body: right, headers: used },
      { status: 429, line: 'PUT /users/999', body: partial },
      { status: 429, line: 'PATCH /users/1', body: right, headers: OTHER_VERSION },
    ]
    expect(await answersTo(rows)).toEqual(rows)
  })

  test('names the rule as the violated policy', async () => {
    await app.startOver({
      rateLimits: [
        { name: 'wide', to: 9, within: 60 },
        { name: 'narrow "1"', to: 1, within: 60, only: ['list'] },
      ],
    })
    await app.ask('GET /users')
    const { status, type, body } = await app.ask('GET /users', {
      Accept: 'application/problem+json',
    })
    expect([status, type]).toEqual([429, 'application/problem+json'])
    expect(body).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      ...{ title: 'Too Many Requests', status: 429, detail: MESSAGE, instance: '/users' },
      ...{ reason: 'rate_limited', 'violated-policies': ['narrow "1"'] },
    })
  })
})

describe('several rateLimits', () => {
  test('count separately, in the order of the file, until one refuses', async () => {
    await app.startOver({
      rateLimits: [
        { name: 'short', to: 2, within: '10 seconds' },
        { name: 'long', to: 3, within: '1 minute' },
      ],
    })
    for (const [waitMs, status, left] of [
      [0, 200, { short: 1, long: 2 }],
      [0, 200, { short: 0, long: 1 }],
      [0, 429, { short: 0 }],
      [10_000, 200, { short: 1, long: 0 }],
      [0, 429, { short: 0, long: 0 }],
    ] as const) {
      app.clock.advance(waitMs)
      const answer = await app.ask('GET /users')
      expect([answer.status, remainingOf(answer)]).toEqual([status, left])
    }
  })

  test.each([
    ['back\\slash\\', 'back\\\\slash\\\\'],
    ['a", b; r=9; q="', 'a\\", b; r=9; q=\\"'],
    ['für 10 € 🚦', 'f?r 10 ? ?'],
    ['tab\tline\r\nX-Other: 1', 'tab?line??X-Other: 1'],
    [undefined, 'rateLimits[1]'],
  ])('whose name is %j are valid items of both headers', async (name, shown) => {
    await app.startOver({
      rateLimits: [
        { name: 'first', to: 7, within: 60 },
        { name, to: 8, within: 120 },
      ],
    })
    const answer = await app.ask('GET /users')
    expect([answer.status, answer.headers['x-other']]).toEqual([200, undefined])
    expect(answer.headers.ratelimit).toBe(`"first"; r=6; t=60, "${shown}"; r=7; t=120`)
    expect(policyOf(answer)).toBe(`"first"; q=7; w=60, "${shown}"; q=8; w=120`)
  })
})

const EMAIL = 'body:user.email'
const create = (user: unknown): Sent => ({ line: 'POST /users', body: { user } })
const ofConstructor = (name: string): Sent => ({
  line: 'POST /users',
  body: `{"constructor":{"name":"${name}"}}`,
})
const ONE = [create({ email: 'a@b.c' }), create({ email: '  A@B.c ' })] as const
const OTHER = create({ email: 'b@b.c' })

// What throttles count by too is tested in filter.test.ts.
test.each<[by: string | string[], same: readonly [Sent, Sent], other: Sent, without: Sent]>([
  [EMAIL, ONE, OTHER, create({ name: 'Ann' })],
  [EMAIL, ONE, OTHER, create({ email: ['a@b.c'] })],
  [EMAIL, ONE, OTHER, create({ email: ' ' })],
  [EMAIL, ONE, OTHER, { ...create({ email: 'a@b.c' }), line: 'DELETE /users/99' }],
  [['ip', EMAIL], ONE, OTHER, create({})],
  ['body:user.age', [create({ age: 7 }), create({ age: '7' })], create({ age: 8 }), create({})],
  [
    'body:constructor.name',
    [ofConstructor('x'), ofConstructor('X')],
    ofConstructor('y'),
    create({}),
  ],
])('rateLimits by %j count %j as one, %j apart, and %j not', async (by, same, other, without) => {
  await app.startOver({ rateLimits: [{ name: 'it', to: 2, within: 60, by }] })
  expect(remainingOf(await send(same[0]))).toEqual({ it: 1 })
  expect(remainingOf(await send(same[1]))).toEqual({ it: 0 })
  expect((await send(same[0])).status).toBe(429)
  expect(remainingOf(await send(other))).toEqual({ it: 1 })
  for (let index = 0; index < 3; index++) {
    const { status, headers } = await send(without)
    expect(status).not.toBe(429)
    expect(headers).not.toHaveProperty('ratelimit-policy')
  }
})
