import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import express from 'express'
import pino from 'pino'
import supertest, { type Response } from 'supertest'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import { createLimiter } from '../../src/limits/limiter.ts'
import { createRuleLines } from '../../src/limits/rule-lines.ts'
import { checkLimits } from '../../src/limits/rules/checked-limits.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { memoryBans } from '../support/memory-bans.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const MESSAGE = 'Too many requests, please try again later.'

const TOO_LONG = JSON.stringify({ user: { name: 'x'.repeat(100 * 1024) } })

interface Sent {
  readonly line: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object | string
}

type Verb = 'get' | 'head' | 'post' | 'put' | 'patch' | 'delete' | 'options'

function send(http: TestApp['http'], { line, headers = {}, body }: Sent): Promise<Response> {
  const [method = '', path = ''] = line.split(' ')
  const request = http[method.toLowerCase() as Verb](path).redirects(0)
  if (body !== undefined) request.set('Content-Type', 'application/json')
  request.set(headers)
  return request.send(typeof body === 'object' ? JSON.stringify(body) : body).then(reply => reply)
}

async function statusesOf(http: TestApp['http'], times: number, sent: Sent): Promise<number[]> {
  const statuses: number[] = []
  for (let index = 0; index < times; index++) statuses.push((await send(http, sent)).status)
  return statuses
}

interface Item {
  readonly name: string
  readonly parameters: Readonly<Record<string, string>>
}

const ITEM = /"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"((?:; [a-z]+=(?:\d+|:[\w+/=]*:))*)/y

/** Parses a list of strings with parameters, as in RFC 9651; throws for anything else. */
function itemsOf(header: string | undefined): Item[] {
  const items: Item[] = []
  if (header === undefined) return items
  ITEM.lastIndex = 0
  for (;;) {
    const [all, name = '', parameters = ''] = ITEM.exec(header) ?? []
    if (all === undefined) throw new Error(`not a list of items: ${header}`)
    items.push({
      name: name.replace(/\\(.)/g, '$1'),
      parameters: Object.fromEntries(
        parameters
          .split('; ')
          .slice(1)
          .map(pair => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
      ),
    })
    if (ITEM.lastIndex === header.length) return items
    if (!header.startsWith(', ', ITEM.lastIndex)) throw new Error(`not a list: ${header}`)
    ITEM.lastIndex += 2
  }
}

/** How many requests each rule that counted this one leaves, by name. */
function remainingOf({ headers }: Response): Record<string, number> {
  return Object.fromEntries(
    itemsOf(headers.ratelimit).map(({ name, parameters }) => [name, Number(parameters.r)]),
  )
}

function isCounted({ headers }: Response): boolean {
  return headers.ratelimit !== undefined && headers['ratelimit-policy'] !== undefined
}

/** The path of a module whose default export is this code. */
function moduleFile(code: string): string {
  const path = join(temporaryFolder(), 'limits.mjs')
  writeFileSync(path, `export default ${code}`)
  return path
}

describe('rateLimits with to 5 within 1 minute', () => {
  const limits = { rateLimits: [{ name: 'five', to: 5, within: '1 minute' }] }
  const list = { line: 'GET /users' }

  test('let five requests pass and refuse later ones with 429', async () => {
    const { http } = await openTestApp({ limits, now: createFakeClock().now })
    expect(await statusesOf(http, 7, list)).toEqual([200, 200, 200, 200, 200, 429, 429])
    const { body, headers } = await send(http, list)
    expect(body).toEqual({
      message: MESSAGE,
      resource: 'User',
      code: 429,
      status: false,
      reason: 'rate_limited',
    })
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    expect(headers['cache-control']).toBe('no-store')
  })

  test('send in the headers of every answer what is left and when the window ends', async () => {
    const clock = createFakeClock()
    const { http } = await openTestApp({ limits, now: clock.now })
    const expected = [
      { r: '4', retryAfter: undefined },
      { r: '3', retryAfter: undefined },
      { r: '2', retryAfter: undefined },
      { r: '1', retryAfter: undefined },
      { r: '0', retryAfter: undefined },
      { r: '0', retryAfter: '60' },
    ]
    for (const { r, retryAfter } of expected) {
      const { headers } = await send(http, list)
      expect(itemsOf(headers.ratelimit)).toEqual([{ name: 'five', parameters: { r, t: '60' } }])
      const [policy] = itemsOf(headers['ratelimit-policy'])
      expect(policy).toMatchObject({ name: 'five', parameters: { q: '5', w: '60' } })
      expect(headers['retry-after']).toBe(retryAfter)
    }
    clock.advance(30_000)
    expect((await send(http, list)).headers['retry-after']).toBe('30')
  })

  test('send the same rest of the window whatever happens to the clock of the machine', async () => {
    const { http } = await openTestApp({ limits, now: createFakeClock().now })
    let time = Date.now()
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => {
      time += 50_000
      return time
    })
    onTestFinished(() => clock.mockRestore())
    expect(await statusesOf(http, 5, list)).toEqual([200, 200, 200, 200, 200])
    const { headers } = await send(http, list)
    expect(headers['retry-after']).toBe('60')
    expect(itemsOf(headers.ratelimit)).toMatchObject([{ parameters: { t: '60' } }])
  })

  test('let no more pass when all arrive at the same moment', async () => {
    const { http } = await openTestApp({ limits, now: createFakeClock().now })
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(http, list)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(15)
  })

  test('end their window to the millisecond', async () => {
    const clock = createFakeClock()
    const { http } = await openTestApp({ limits, now: clock.now })
    expect(await statusesOf(http, 6, list)).toEqual([200, 200, 200, 200, 200, 429])
    clock.advance(59_999)
    expect(await statusesOf(http, 1, list)).toEqual([429])
    clock.advance(1)
    expect(await statusesOf(http, 6, list)).toEqual([200, 200, 200, 200, 200, 429])
  })
})

test('rateLimits begin the window of a key with its first request', async () => {
  const clock = createFakeClock()
  const { http } = await openTestApp({
    limits: { rateLimits: [{ to: 1, within: '1 minute', by: 'header:x-client' }] },
    now: clock.now,
  })
  const ann = { line: 'GET /users', headers: { 'X-Client': 'ann' } }
  const bob = { line: 'GET /users', headers: { 'X-Client': 'bob' } }
  expect(await statusesOf(http, 1, ann)).toEqual([200])
  clock.advance(40_000)
  expect(await statusesOf(http, 1, bob)).toEqual([200])
  clock.advance(20_000)
  expect(await statusesOf(http, 1, bob)).toEqual([429])
  expect(await statusesOf(http, 1, ann)).toEqual([200])
  clock.advance(40_000)
  expect(await statusesOf(http, 1, bob)).toEqual([200])
  expect(await statusesOf(http, 1, ann)).toEqual([429])
})

const LINES_OF_ACTIONS = {
  list: ['GET /users', 'HEAD /users'],
  read: ['GET /users/1', 'HEAD /users/1'],
  create: ['POST /users'],
  update: ['PUT /users/1', 'PATCH /users/1'],
  delete: ['DELETE /users/1'],
  verify: ['POST /password-verifications'],
}

type ActionName = keyof typeof LINES_OF_ACTIONS

const ALL_ACTIONS = Object.keys(LINES_OF_ACTIONS) as ActionName[]

const LINES_OF_NO_ACTION = [
  'OPTIONS /users',
  'OPTIONS /users/1',
  'GET /',
  'GET /livez',
  'GET /readyz',
  'GET /nowhere',
  'GET /users/',
  'POST /Users',
  'DELETE /users',
  'PATCH /users',
  'POST /users/1',
  'GET /password-verifications',
  'GET /users/%zz',
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
    const { http } = await openTestApp({
      limits: { rateLimits: [{ name: 'it', to: 100, within: 60, ...choice }] },
      now: createFakeClock().now,
    })
    const lines = ALL_ACTIONS.flatMap(action => LINES_OF_ACTIONS[action])
    const remaining: (readonly [string, number | undefined])[] = []
    for (const line of [...lines, ...LINES_OF_NO_ACTION]) {
      remaining.push([line, remainingOf(await send(http, { line })).it])
    }
    let left = 100
    const countedLines = counted.flatMap(action => LINES_OF_ACTIONS[action])
    expect(remaining).toEqual(
      [...lines, ...LINES_OF_NO_ACTION].map(line => [
        line,
        countedLines.includes(line) ? --left : undefined,
      ]),
    )
  })
})

const JSON_TYPE = { 'Content-Type': 'application/json' }

describe('rateLimits count requests that fail or succeed later, and show it in the answer', () => {
  const { user } = newUserBody({ email: 'counted@example.com' })

  test.each<Sent & { status: number }>([
    { status: 200, line: 'GET /users' },
    { status: 200, line: 'HEAD /users/1' },
    { status: 201, line: 'POST /users', body: newUserBody() },
    { status: 204, line: 'DELETE /users/1' },
    { status: 304, line: 'GET /users/1', headers: { 'If-None-Match': '*' } },
    { status: 400, line: 'GET /users?page=0' },
    { status: 400, line: 'POST /users', body: '{"user":', headers: JSON_TYPE },
    { status: 400, line: 'POST /users', body: newUserBody(), headers: { 'Idempotency-Key': ' ' } },
    { status: 404, line: 'GET /users/999' },
    { status: 404, line: 'DELETE /users/none' },
    { status: 406, line: 'GET /users', headers: { Accept: 'text/html' } },
    { status: 412, line: 'PUT /users/1', body: { user: {} }, headers: { 'If-Match': '"other"' } },
    { status: 413, line: 'POST /users', body: TOO_LONG },
    { status: 415, line: 'POST /users', body: 'x', headers: { 'Content-Type': 'text/plain' } },
    { status: 422, line: 'POST /users', body: {} },
    { status: 422, line: 'POST /users', body: { user } },
  ])('$status of $line $headers', async ({ status, ...sent }) => {
    const { http } = await openTestApp({
      limits: { rateLimits: [{ name: 'it', to: 10, within: 60 }] },
      now: createFakeClock().now,
    })
    await send(http, { line: 'POST /users', body: { user } })
    const answer = await send(http, sent)
    expect({ status: answer.status, left: remainingOf(answer) }).toEqual({
      status,
      left: { it: 8 },
    })
    expect(remainingOf(await send(http, { line: 'GET /users' }))).toEqual({ it: 7 })
  })
})

const WRONG_TYPE = { 'Content-Type': 'text/plain' }

describe('a limit that is used up', () => {
  test.each<Sent & { winner: number }>([
    { winner: 404, line: 'GET /users/' },
    { winner: 400, line: 'GET /users/%zz' },
    { winner: 405, line: 'DELETE /users' },
    { winner: 405, line: 'POST /users/1', body: 'x', headers: WRONG_TYPE },
    { winner: 204, line: 'OPTIONS /users' },
    { winner: 429, line: 'GET /users', headers: { Accept: 'text/html' } },
    { winner: 429, line: 'POST /users', body: 'x', headers: WRONG_TYPE },
    { winner: 429, line: 'POST /users', body: {}, headers: { 'Content-Encoding': 'rot13' } },
    { winner: 429, line: 'POST /users', body: TOO_LONG },
    { winner: 429, line: 'POST /users', body: '{"user":' },
    { winner: 429, line: 'POST /users', body: {}, headers: { 'Idempotency-Key': ' ' } },
    { winner: 429, line: 'GET /users?page=0' },
    { winner: 429, line: 'POST /users', body: {} },
    { winner: 429, line: 'GET /users/999' },
    { winner: 429, line: 'GET /users', headers: { 'If-None-Match': '*' } },
  ])('answers $winner to $line $headers', async ({ winner, ...sent }) => {
    const { http } = await openTestApp({
      limits: { rateLimits: [{ to: 1, within: 60 }] },
      now: createFakeClock().now,
    })
    await send(http, { line: 'GET /users' })
    expect((await send(http, sent)).status).toBe(winner)
  })

  const email = 'ann@example.com'
  const right = JSON.stringify(newUserBody({ email }))

  test.each<Sent & { winner: number }>([
    { winner: 406, line: 'POST /users', body: right, headers: { Accept: 'text/html' } },
    { winner: 415, line: 'POST /users', body: right, headers: WRONG_TYPE },
    { winner: 415, line: 'POST /users', body: right, headers: { 'Content-Encoding': 'rot13' } },
    { winner: 413, line: 'POST /users', body: { ...newUserBody({ email }), more: TOO_LONG } },
    { winner: 400, line: 'POST /users', body: right.slice(0, -1) },
    { winner: 429, line: 'POST /users', body: right, headers: { 'Idempotency-Key': ' ' } },
    { winner: 429, line: 'POST /users', body: { user: { email } } },
    {
      winner: 429,
      line: 'POST /users',
      body: { user: { email } },
      headers: { 'Idempotency-Key': 'used' },
    },
    { winner: 429, line: 'POST /users', body: right, headers: { 'Idempotency-Key': 'used' } },
    { winner: 429, line: 'PUT /users/999', body: right },
    { winner: 429, line: 'PATCH /users/1', body: right, headers: { 'If-Match': '"other"' } },
  ])('keyed by the body answers $winner to $line $headers', async ({ winner, ...sent }) => {
    const { http } = await openTestApp({
      limits: { rateLimits: [{ to: 1, within: 60, by: 'body:user.email' }] },
      now: createFakeClock().now,
    })
    const first = await send(http, {
      line: 'POST /users',
      body: right,
      headers: { 'Idempotency-Key': 'used' },
    })
    expect(first.status).toBe(201)
    expect((await send(http, sent)).status).toBe(winner)
  })
})

describe('several rateLimits', () => {
  test('count separately, in the order of the file, until one refuses', async () => {
    const clock = createFakeClock()
    const { http } = await openTestApp({
      limits: {
        rateLimits: [
          { name: 'short', to: 2, within: '10 seconds' },
          { name: 'long', to: 3, within: '1 minute' },
          { name: 'reads', to: 9, within: '1 minute', only: ['read'] },
        ],
      },
      now: clock.now,
    })
    const seen: [number, Record<string, number>][] = []
    const list = async (times: number) => {
      for (let index = 0; index < times; index++) {
        const answer = await send(http, { line: 'GET /users' })
        seen.push([answer.status, remainingOf(answer)])
      }
    }
    await list(4)
    clock.advance(10_000)
    await list(2)
    expect(seen).toEqual([
      [200, { short: 1, long: 2 }],
      [200, { short: 0, long: 1 }],
      [429, { short: 0 }],
      [429, { short: 0 }],
      [200, { short: 1, long: 0 }],
      [429, { short: 0, long: 0 }],
    ])
  })

  test('name the one that refuses as violated-policies', async () => {
    const { http } = await openTestApp({
      limits: {
        rateLimits: [
          { name: 'wide', to: 9, within: 60 },
          { name: 'narrow "1"', to: 1, within: 60 },
        ],
      },
    })
    const sent = { line: 'GET /users', headers: { Accept: 'application/problem+json' } }
    await send(http, sent)
    const { status, headers, body } = await send(http, sent)
    expect({ status, type: headers['content-type'], body }).toEqual({
      status: 429,
      type: expect.stringContaining('application/problem+json'),
      body: {
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Too Many Requests',
        status: 429,
        detail: MESSAGE,
        instance: '/users',
        reason: 'rate_limited',
        'violated-policies': ['narrow "1"'],
      },
    })
  })

  test.each([
    { name: 'plain', shown: 'plain' },
    { name: 'a "quoted" name', shown: 'a "quoted" name' },
    { name: 'back\\slash\\', shown: 'back\\slash\\' },
    { name: 'a", b; r=9; q="', shown: 'a", b; r=9; q="' },
    { name: 'Grüße für 10 €', shown: 'Gr??e f?r 10 ?' },
    { name: '限制 🚦', shown: '?? ?' },
    { name: 'tab\tline\r\nX-Other: 1', shown: 'tab?line??X-Other: 1' },
    { name: undefined, shown: 'rateLimits[1]' },
  ])('whose name is $name are valid items of both headers', async ({ name, shown }) => {
    const { http } = await openTestApp({
      limits: {
        rateLimits: [
          { name: 'first', to: 7, within: 60 },
          { name, to: 8, within: 120 },
        ],
      },
      now: createFakeClock().now,
    })
    const { status, headers } = await send(http, { line: 'GET /users' })
    expect({ status, other: headers['x-other'] }).toEqual({ status: 200, other: undefined })
    expect(itemsOf(headers.ratelimit)).toEqual([
      { name: 'first', parameters: { r: '6', t: '60' } },
      { name: shown, parameters: { r: '7', t: '120' } },
    ])
    expect(itemsOf(headers['ratelimit-policy'])).toMatchObject([
      { name: 'first', parameters: { q: '7', w: '60' } },
      { name: shown, parameters: { q: '8', w: '120' } },
    ])
  })
})

interface KeyRow {
  readonly by: unknown
  /** These count as one client. */
  readonly same: readonly [Sent, ...Sent[]]
  readonly other: Sent
  readonly without?: Sent
}

const list = (headers: Record<string, string>): Sent => ({ line: 'GET /users', headers })
const from = (address: string) => list({ 'X-Forwarded-For': address })
const host = (name: string) => list({ Host: name })
const create = (user: unknown): Sent => ({ line: 'POST /users', body: { user } })

describe('rateLimits count by', () => {
  test.each<KeyRow>([
    { by: undefined, same: [from('203.0.113.7'), from('203.0.113.7')], other: from('203.0.113.8') },
    {
      by: 'ip',
      same: [from('2001:db8:0:aa00::1'), from('2001:db8:0:aaff:1::2')],
      other: from('2001:db8:0:ab00::1'),
    },
    {
      by: 'domain',
      same: [host('a.example.co.uk'), host('b.example.co.uk:8080'), host('EXAMPLE.co.uk.')],
      other: host('example2.co.uk'),
    },
    { by: 'domain', same: [host('a.b.example.com'), host('example.com')], other: host('b.com') },
    { by: 'domain', same: [host('intranet'), host('Intranet:3000')], other: host('localhost') },
    { by: 'domain', same: [host('10.1.2.3'), host('10.1.2.3:80')], other: host('11.1.2.3') },
    { by: 'domain', same: [host('[::1]'), host('[::1]:80')], other: host('[::2]') },
    { by: 'domain', same: [host('co.uk'), host('co.uk')], other: host('org.uk') },
    {
      by: 'host',
      same: [host('a.example.com'), host('A.Example.com:8080'), host('a.example.com.')],
      other: host('b.example.com'),
    },
    {
      by: 'header:X-Api-Key',
      same: [list({ 'x-api-key': 'one' }), list({ 'X-API-KEY': 'one' })],
      other: list({ 'X-Api-Key': 'ONE' }),
      without: list({ 'X-Api-Keys': 'one' }),
    },
    {
      by: 'query:email',
      same: [{ line: 'GET /users?email=a' }, { line: 'GET /users?per_page=9&%65mail=%61' }],
      other: { line: 'GET /users?email=b' },
      without: { line: 'GET /users?name=a' },
    },
    {
      by: 'path',
      same: [{ line: 'GET /users/1' }, { line: 'GET /users/%31?a=b' }, { line: 'DELETE /users/1' }],
      other: { line: 'GET /users/2' },
    },
    {
      by: 'body:user.email',
      same: [create({ email: 'a@b.c' }), create({ email: '  A@B.c ' })],
      other: create({ email: 'a@b.d' }),
      without: create({ name: 'Ann' }),
    },
    {
      by: 'body:user.age',
      same: [create({ age: 7 }), create({ age: '7' })],
      other: create({ age: 8 }),
      without: create({ age: null }),
    },
    {
      by: 'body:user.email',
      same: [create({ email: 'a@b.c' }), create({ email: 'a@b.c' })],
      other: create({ email: 'b@b.c' }),
      without: create({ email: ['a@b.c'] }),
    },
    {
      by: 'body:user.email',
      same: [create({ email: 'a@b.c' }), create({ email: 'a@b.c' })],
      other: create({ email: 'b@b.c' }),
      without: create({ email: ' ' }),
    },
    {
      by: 'body:constructor.name',
      same: [
        { line: 'POST /users', body: '{"constructor":{"name":"x"}}' },
        { line: 'POST /users', body: '{"constructor":{"name":"X"}}' },
      ],
      other: { line: 'POST /users', body: '{"constructor":{"name":"y"}}' },
      without: { line: 'POST /users', body: '{}' },
    },
    {
      by: 'body:user.email',
      same: [create({ email: 'a@b.c' }), create({ email: 'a@b.c' })],
      other: create({ email: 'b@b.c' }),
      without: { line: 'DELETE /users/1', body: { user: { email: 'a@b.c' } } },
    },
    {
      by: ['header:x-a', 'header:x-b'],
      same: [list({ 'X-A': '1', 'X-B': '2' }), list({ 'X-B': '2', 'X-A': '1' })],
      other: list({ 'X-A': '2', 'X-B': '1' }),
      without: list({ 'X-A': '1' }),
    },
    {
      by: ['header:x-a', 'header:x-b'],
      same: [list({ 'X-A': 'a,b', 'X-B': 'c' }), list({ 'X-A': 'a,b', 'X-B': 'c' })],
      other: list({ 'X-A': 'a', 'X-B': 'b,c' }),
    },
    {
      by: ['ip', 'body:user.email'],
      same: [create({ email: 'a@b.c' }), create({ email: 'A@b.c' })],
      other: create({ email: 'b@b.c' }),
      without: create({}),
    },
  ])('$by: $same, not $other', async ({ by, same, other, without }) => {
    const { http } = await openTestApp({
      limits: { rateLimits: [{ to: 1, within: 60, by }] },
      now: createFakeClock().now,
      env: { TRUST_PROXY: '1' },
    })
    const [first, ...repeats] = same
    const answer = await send(http, first)
    expect({ isCounted: isCounted(answer), is429: answer.status === 429 }).toEqual({
      isCounted: true,
      is429: false,
    })
    for (const repeat of repeats) expect((await send(http, repeat)).status).toBe(429)
    expect(remainingOf(await send(http, other))).toEqual({ 'rateLimits[0]': 0 })
    if (without === undefined) return
    for (const _ of [1, 2]) {
      const passed = await send(http, without)
      expect({ isCounted: isCounted(passed), is429: passed.status === 429 }).toEqual({
        isCounted: false,
        is429: false,
      })
    }
  })
})

describe('rateLimits with functions', () => {
  test('take count, window and key from each request', async () => {
    const clock = createFakeClock()
    const path = moduleFile(`{ rateLimits: [{
      name: 'by plan',
      to: request => request.get('x-plan') === 'gold' ? 3 : 1,
      within: request => request.get('x-plan') === 'gold' ? '10 seconds' : 60,
      by: request => request.get('x-client'),
    }] }`)
    const { http } = await openTestApp({ env: { LIMITS_FILE: path }, now: clock.now })
    const gold = list({ 'X-Plan': 'gold', 'X-Client': 'ann' })
    const plain = list({ 'X-Client': 'bob' })
    expect(await statusesOf(http, 4, gold)).toEqual([200, 200, 200, 429])
    expect(await statusesOf(http, 2, plain)).toEqual([200, 429])
    const policies = [gold, plain].map(async sent =>
      itemsOf((await send(http, sent)).headers['ratelimit-policy']),
    )
    expect(await Promise.all(policies)).toMatchObject([
      [{ name: 'by plan', parameters: { q: '3', w: '10' } }],
      [{ name: 'by plan', parameters: { q: '1', w: '60' } }],
    ])
    clock.advance(10_000)
    expect(await statusesOf(http, 1, gold)).toEqual([200])
    expect(await statusesOf(http, 1, plain)).toEqual([429])
    const { status, headers } = await send(http, list({}))
    expect({ status, header: headers.ratelimit }).toEqual({ status: 200, header: undefined })
  })

  test.each([
    { what: 'to that throws', keys: `to: () => { throw new Error('boom') }` },
    { what: 'to that gives a promise', keys: 'to: async () => 1' },
    { what: 'to that gives text', keys: `to: () => '1'` },
    { what: 'to that gives NaN', keys: 'to: () => NaN' },
    { what: 'to that gives nothing', keys: 'to: () => {}' },
    { what: 'to that gives less than none', keys: 'to: () => -1' },
    { what: 'to that gives zero', keys: 'to: () => 0' },
    { what: 'to that gives a fraction', keys: 'to: () => 1.5' },
    { what: 'to that gives no end', keys: 'to: () => Infinity' },
    { what: 'within that throws', keys: `within: () => { throw new Error('boom') }` },
    { what: 'within that gives a promise', keys: 'within: async () => 60' },
    { what: 'within that gives no time', keys: `within: () => 'soon'` },
    { what: 'within that gives zero', keys: 'within: () => 0' },
    { what: 'within that gives nothing', keys: 'within: () => {}' },
    { what: 'by that throws', keys: `by: () => { throw new Error('boom') }` },
    { what: 'by that gives a promise', keys: `by: async () => 'ann'` },
    { what: 'by that gives an object', keys: 'by: () => ({})' },
    { what: 'by with one part that throws', keys: `by: ['ip', () => { throw new Error('boom') }]` },
    { what: 'by that throws undefined', keys: 'by: () => { throw undefined }' },
  ])('let requests pass and log an error: $what', async ({ keys }) => {
    const path = moduleFile(
      `{ rateLimits: [{ name: 'faulty', to: 1, within: 60, only: ['list'], ${keys} }] }`,
    )
    const { http, logLines } = await openTestApp({ env: { LIMITS_FILE: path } })
    expect(await statusesOf(http, 3, list({}))).toEqual([200, 200, 200])
    expect(isCounted(await send(http, list({})))).toBe(false)
    expect(logLines.filter(({ level }) => Number(level) >= 50)).toContainEqual(
      expect.objectContaining({
        type: 'rateLimit',
        rule: 'faulty',
        msg: 'rule function failed, request allowed',
      }),
    )
  })

  test('let a request pass whose with throws, and log it', async () => {
    const path = moduleFile(
      `{ rateLimits: [{ name: 'faulty', to: 1, within: 60, with: () => { throw new Error('boom') } }] }`,
    )
    const { http, logLines } = await openTestApp({ env: { LIMITS_FILE: path } })
    expect(await statusesOf(http, 2, list({}))).toEqual([200, 200])
    const { status, headers } = await send(http, list({}))
    expect({ status, retryAfter: headers['retry-after'] }).toEqual({
      status: 200,
      retryAfter: undefined,
    })
    expect(logLines).toContainEqual(
      expect.objectContaining({
        level: 50,
        rule: 'faulty',
        msg: 'rule function failed, request allowed',
      }),
    )
  })

  test.each([
    { key: 'to', others: 'within: 60' },
    { key: 'within', others: 'to: 1' },
    { key: 'by', others: 'to: 1, within: 60' },
    { key: 'with', others: 'to: 1, within: 60' },
  ])('do not end the service if $key returns a promise that rejects', async ({ key, others }) => {
    const path = moduleFile(
      `{ rateLimits: [{ name: 'faulty', ${others}, ${key}: async () => { throw new Error('boom') } }] }`,
    )
    const cwd = temporaryFolder()
    const service = await spawnService({ cwd, env: { LIMITS_FILE: path } })
    const statuses = [1, 2, 3].map(async () => (await fetch(`${service.url}/users`)).status)
    const settled = await Promise.allSettled(statuses)
    service.process.kill('SIGTERM')
    const { code, stdout } = await service.exited
    expect(stdout).not.toContain('crashed')
    expect(code).toBe(0)
    expect(settled).toEqual([1, 2, 3].map(() => ({ status: 'fulfilled', value: 200 })))
    expect(stdout).toContain('"rule":"faulty"')
  })
})

describe('rateLimits with an answer of their own', () => {
  test('redirect with the alert as message, and the headers of the limit', async () => {
    const { http } = await openTestApp({
      limits: {
        rateLimits: [
          {
            name: 'by domain',
            to: 1,
            within: '10 seconds',
            by: 'domain',
            with: { redirect: '/busy', alert: 'Too many signups on domain!' },
          },
        ],
      },
      now: createFakeClock().now,
    })
    await send(http, list({}))
    const { status, headers, body } = await send(http, list({}))
    expect({ status, body }).toEqual({
      status: 302,
      body: {
        message: 'Too many signups on domain!',
        resource: 'User',
        code: 302,
        status: false,
        reason: 'rate_limited',
      },
    })
    expect(headers).toMatchObject({ location: '/busy', 'retry-after': '10' })
    expect(itemsOf(headers.ratelimit)).toEqual([
      { name: 'by domain', parameters: { r: '0', t: '10' } },
    ])
    expect(itemsOf(headers['ratelimit-policy'])).toMatchObject([{ name: 'by domain' }])
  })

  test.each([
    { answer: { redirect: '/busy' }, status: 302, message: MESSAGE, header: ['location', '/busy'] },
    { answer: {}, status: 429, message: MESSAGE, header: ['x-why', undefined] },
    { answer: { status: 503 }, status: 503, message: MESSAGE, header: ['x-why', undefined] },
    { answer: { message: 'Slower' }, status: 429, message: 'Slower', header: ['x-why', undefined] },
    {
      answer: { status: 420, message: 'Calm', headers: { 'X-Why': 'speed', 'Retry-After': '7' } },
      status: 420,
      message: 'Calm',
      header: ['x-why', 'speed'],
    },
  ])('$answer', async ({ answer, status, message, header: [name = '', value] }) => {
    const { http } = await openTestApp({
      limits: { rateLimits: [{ to: 1, within: 60, with: answer }] },
      now: createFakeClock().now,
    })
    await send(http, list({}))
    const refused = await send(http, list({}))
    expect(refused.status).toBe(status)
    expect(refused.body).toEqual({
      message,
      resource: 'User',
      code: status,
      status: false,
      reason: 'rate_limited',
    })
    expect(refused.headers[name]).toBe(value)
    expect(isCounted(refused)).toBe(true)
  })

  test.each([
    { name: 'retry-after', value: '7' },
    { name: 'cache-control', value: 'max-age=7' },
    { name: 'content-type', value: 'application/other+json' },
    { name: 'content-length', value: undefined },
  ])('that names $name in lower case send it once', async ({ name, value }) => {
    const { http, port } = await openTestApp({
      limits: {
        rateLimits: [{ to: 1, within: 60, with: { headers: { [name]: value ?? '3' } } }],
      },
    })
    await send(http, list({}))
    const exchange = sendRaw(port, 'GET /users HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
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

  test.each([
    { how: 'answers', code: `(request, response) => response.status(418).json({ tea: true })` },
    {
      how: 'answers later',
      code: `async (request, response) => {
        await new Promise(setImmediate)
        response.status(418).json({ tea: true })
      }`,
    },
  ])('a function that $how', async ({ code }) => {
    const path = moduleFile(`{ rateLimits: [{ to: 1, within: 60, with: ${code} }] }`)
    const { http, logLines } = await openTestApp({ env: { LIMITS_FILE: path } })
    await send(http, list({}))
    const refused = await send(http, list({}))
    expect({ status: refused.status, body: refused.body }).toEqual({
      status: 418,
      body: { tea: true },
    })
    const line = await until(() => logLines.find(({ status }) => status === 418))
    expect(line).toMatchObject({ type: 'rateLimit', reason: 'rate_limited' })
    expect(isCounted(refused)).toBe(true)
  })

  test('a function that passes the request to the next rule', async () => {
    const path = moduleFile(`{ rateLimits: [
      { name: 'soft', to: 1, within: 60, with: (request, response, next) => next() },
      { name: 'hard', to: 2, within: 60 },
    ] }`)
    const { http, logLines } = await openTestApp({ env: { LIMITS_FILE: path } })
    expect(await statusesOf(http, 3, list({}))).toEqual([200, 200, 429])
    const lines = await until(async () => {
      const written = logLines.filter(({ msg }) => msg === 'request')
      return written.length === 3 && written
    })
    expect(lines.map(({ reason }) => reason)).toEqual([undefined, undefined, 'rate_limited'])
  })
})

test('rateLimits do not count a safelisted request, and add nothing to its answer', async () => {
  const { http } = await openTestApp({
    limits: {
      safelist: [{ name: 'staff', header: { 'X-Staff': 'yes' } }],
      rateLimits: [
        { to: 1, within: 60 },
        { to: 1, within: 60, by: 'body:user.email' },
      ],
    },
    now: createFakeClock().now,
  })
  const staff = { ...create({ email: 'a@b.c' }), headers: { 'X-Staff': 'yes' } }
  for (const _ of [1, 2, 3]) {
    const { status, headers } = await send(http, staff)
    expect({ status, limit: headers.ratelimit, policy: headers['ratelimit-policy'] }).toEqual({
      status: 422,
      limit: undefined,
      policy: undefined,
    })
  }
  const first = await send(http, create({ email: 'a@b.c' }))
  expect({ status: first.status, left: remainingOf(first) }).toEqual({
    status: 422,
    left: { 'rateLimits[0]': 0, 'rateLimits[1]': 0 },
  })
  expect(await statusesOf(http, 1, create({ email: 'a@b.c' }))).toEqual([429])
  expect(await statusesOf(http, 2, staff)).toEqual([422, 422])
})

test('rateLimits have no effect and no headers with CACHE_STORE=none', async () => {
  const { http } = await openTestApp({
    limits: { rateLimits: [{ to: 1, within: 60 }] },
    env: { CACHE_STORE: 'none' },
  })
  expect(await statusesOf(http, 4, list({}))).toEqual([200, 200, 200, 200])
  const { headers } = await send(http, list({}))
  expect([headers.ratelimit, headers['ratelimit-policy']]).toEqual([undefined, undefined])
})

test('rateLimits in dry run count, log and have no item in the headers', async () => {
  const { http, logLines } = await openTestApp({
    limits: {
      rateLimits: [
        { name: 'trial', to: 1, within: 60, dryRun: true },
        { name: 'real', to: 2, within: 60 },
      ],
    },
    now: createFakeClock().now,
  })
  const answers = [await send(http, list({})), await send(http, list({}))]
  expect(answers.map(answer => [answer.status, remainingOf(answer)])).toEqual([
    [200, { real: 1 }],
    [200, { real: 0 }],
  ])
  expect(answers.map(({ headers }) => headers['retry-after'])).toEqual([undefined, undefined])
  expect(logLines).toContainEqual(
    expect.objectContaining({ rule: 'trial', dryRun: true, msg: 'limit exceeded' }),
  )
  expect(await statusesOf(http, 1, list({}))).toEqual([429])
})

/** A server with a limiter on `GET /users`, which counts in `store`. */
async function openLimited(rules: object, store: CounterStore) {
  const clock = createFakeClock()
  const logLines: Record<string, unknown>[] = []
  const log = pino({ base: null }, { write: line => logLines.push(JSON.parse(line)) })
  const checked = checkLimits(rules)
  if ('mistakes' in checked) throw new Error(checked.mistakes.join())
  const fail = () => {
    throw new Error('the bans of a test failed')
  }
  const bans = await openBanList({
    store: memoryBans(),
    ...{ now: clock.now, monotonicNow: clock.now },
    ...{ onStoreFailure: fail, onReadFailure: fail, onForeignChange: fail },
  })
  onTestFinished(() => bans.close())
  const limiter = createLimiter({
    limits: checked.limits,
    ...{ store, bans, now: clock.now },
    lines: createRuleLines({ log, monotonicNow: clock.now }),
  })
  const app = express()
  app.use(limiter.filter)
  app.get('/users', limiter.beforeBody('list'), (_request, response) => {
    response.json([])
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  const http = supertest(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return { clock, logLines, http }
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
  await send(http, list({}))
  // A throttle, a track, and two limits on the route, which get the next step of ten.
  expect(waited).toEqual([0, 12, 30, 40])
  await send(http, list({}))
  expect(waited.slice(4)).toEqual([0, 12, 30, 40])
})

describe('createLimiter over a store that fails', () => {
  test.each<{ how: string; fail: () => never | Promise<never> }>([
    {
      how: 'at once',
      fail: () => {
        throw new Error('store is gone')
      },
    },
    { how: 'by a promise', fail: () => Promise.reject(new Error('store is gone')) },
  ])('$how lets requests pass and says so in the log, once a second', async ({ fail }) => {
    const store: CounterStore = { increment: fail, reset: fail }
    const { clock, logLines, http } = await openLimited(COUNTING_RULES, store)
    const storeLines = () =>
      logLines.filter(({ msg }) => msg === 'counter store failed, requests allowed')

    expect(await statusesOf(http, 2, list({}))).toEqual([200, 200])
    expect(storeLines()).toMatchObject([{ level: 50, err: { message: 'store is gone' } }])
    clock.advance(1000)
    const answer = await send(http, list({}))
    expect({ status: answer.status, isCounted: isCounted(answer) }).toEqual({
      status: 200,
      isCounted: false,
    })
    expect(storeLines()).toMatchObject([{}, { leftOut: 9 }])
  })
})
