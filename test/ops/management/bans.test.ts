import type { Response } from 'supertest'
import { afterEach, describe, expect, test } from 'vitest'
import { createFakeClock } from '../../support/fake-clock.ts'
import { linksOf, walk } from '../../support/list-pages.ts'
import {
  type ManagedApp,
  openManagedApp,
  shareManagedApp,
} from '../../support/management-requests.ts'

const LIMITS = {
  throttle: [{ name: 'posts', path: '/posts', limit: 1, period: 60 }],
  bans: [
    { name: 'login', path: '/login', maxretry: 5, findtime: '1 minute', bantime: '1 hour' },
    { name: 'probing', path: '/wp*', maxretry: 3, findtime: '1 minute', bantime: '30 minutes' },
    { name: 'agents', path: '/x', by: 'header:User-Agent', maxretry: 3, findtime: 60, bantime: 60 },
  ],
}

const A = '192.0.2.1'

const clock = createFakeClock(Date.UTC(2020, 0, 31, 12))

const app = shareManagedApp({
  limits: LIMITS,
  env: { TRUST_PROXY: '1', BODY_LIMIT: '1kb' },
  now: clock.now,
})

interface Ban {
  readonly rule: string
  readonly client: string
  readonly ends_at: string
}

async function add(ban: object, { ops }: Pick<ManagedApp, 'ops'> = app): Promise<Ban> {
  const { status, body } = await ops.post('/bans').send({ ban })
  expect([status, body]).toEqual([201, expect.anything()])
  return body
}

async function listed(query = ''): Promise<readonly Ban[]> {
  return (await app.ops.get(`/bans${query}`).expect(200)).body
}

/** Expects an error in the format of the service. */
function expectError({ status, body }: Response, code: number, reason: string): void {
  expect([status, body]).toMatchObject([code, { code, status: false, reason }])
}

afterEach(async () => {
  await app.ops.delete('/bans?all=true').expect(200)
})

describe('POST /bans', () => {
  test('bans for the bantime of the rule, from the next request on, until the ban is lifted', async () => {
    const get = (client: string) => app.http.get('/users').set('X-Forwarded-For', client)
    await get(A).expect(200)
    app.logLines.length = 0
    // Of the lines about one rule, ten are written in a second.
    clock.advance(1000)
    const ban = await add({ rule: 'login', client: A })
    const end = new Date(clock.now() + 3_600_000).toISOString()
    expect(ban).toEqual({ rule: 'login', client: A, ends_at: end })
    expect(await listed()).toEqual([ban])
    await get(A).expect(403).expect('Retry-After', '3600')
    await get('192.0.2.2').expect(200)
    await app.ops.get('/bans').set('X-Forwarded-For', A).expect(200)
    const lifting = app.ops.delete(`/bans?client=${A}`).set('X-Request-Id', 'lifting')
    await lifting.expect(200, { lifted: 1 })
    await get(A).expect(200)
    const lines = app.logLines.filter(({ msg }) => String(msg).includes(' by a'))
    expect(lines).toMatchObject([
      { msg: 'client banned by an operator', requestId: expect.any(String) },
      { msg: 'ban lifted by an operator', requestId: 'lifting' },
    ])
  })

  test.each([
    ['2 hours', 120],
    ['300', 5],
    [90.5, 90.5 / 60],
  ])('bans for %j, and replaces an earlier ban of the client', async (time, minutes) => {
    await add({ rule: 'login', client: A })
    const ban = await add({ rule: 'login', client: A, for: time })
    expect(Date.parse(ban.ends_at) - clock.now()).toBe(minutes * 60_000)
    expect(await listed()).toEqual([ban])
  })

  const REQUIRED = { ban: ['is required'] }
  const BLANK = ["can't be blank"]
  const NO_TEXT = ['must be a string']
  const NO_TIME = ['must be a time such as "1 hour", more than 0 and at most a year']
  const NO_RULE = ['must be a ban rule of the limits: "login", "probing", "agents"']
  const NO_ADDRESS = ['must be what the rule counts by: ip']
  const login = { rule: 'login', client: A }

  test.each<[string, unknown, Record<string, unknown>]>([
    ['no body', undefined, REQUIRED],
    ['null', null, REQUIRED],
    ['a list', [], REQUIRED],
    ['a ban of another kind', { ban: 'login' }, { ban: ['must be an object'] }],
    ['an empty ban', { ban: {} }, { rule: BLANK, client: BLANK }],
    ['other kinds', { ban: { rule: 5, client: ['a'] } }, { rule: NO_TEXT, client: NO_TEXT }],
    ['a time of 0', { ban: { ...login, for: 0 } }, { for: NO_TIME }],
    ['a rule of another kind', { ban: { rule: 'posts', client: A } }, { rule: NO_RULE }],
    ['no address', { ban: { rule: 'login', client: 'ann' } }, { client: NO_ADDRESS }],
    ['all wrong', { ban: { rule: 'x', for: 'x' } }, { rule: NO_RULE, client: BLANK, for: NO_TIME }],
  ])('answers 422 to %s and names every wrong field', async (_what, body, errors) => {
    const request = app.ops.post('/bans')
    const answer = await (body === undefined
      ? request
      : request.set('Content-Type', 'application/json').send(JSON.stringify(body)))
    expect([answer.status, answer.body]).toEqual([
      422,
      {
        ...{ message: 'Validation failed', resource: 'Request', code: 422, status: false },
        ...{ reason: 'validation_failed', errors },
      },
    ])
    expect(await listed()).toEqual([])
  })

  test('takes application/json only, and ignores other members', async () => {
    const body = JSON.stringify({ ban: { ...login, endsAt: 5 }, more: true })
    const post = (type: string, text = body) =>
      app.ops.post('/bans').set('Content-Type', type).send(text)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'x']) {
      expectError(await post(type), 415, 'media_type_unsupported')
    }
    const long = body + ' '.repeat(1024)
    expectError(await post('application/json', long), 413, 'body_too_large')
    expectError(await post('application/json', '{"ban":'), 400, 'body_malformed')
    expect(await listed()).toEqual([])
    await post('application/json').expect(201)
  })
})

test.each([
  ['without limits', { env: {} }, /^is unknown: LIMITS_FILE is not set/],
  ['with CACHE_STORE=none', { limits: LIMITS, env: { CACHE_STORE: 'none' } }, /^has no effect/],
])('%s bans are listed and lifted, but not added', async (_what, { env, ...options }, mistake) => {
  const ban = { rule: 'login', client: A }
  const kept = await add(ban)
  const settings = { ...env, DATABASE_URL: app.databaseUrl }
  const { ops } = await openManagedApp({ ...options, env: settings, now: clock.now })
  const { body } = await ops.post('/bans').send({ ban }).expect(422)
  expect(body.errors).toEqual({ rule: [expect.stringMatching(mistake)] })
  await ops.get('/bans').expect(200, [kept])
  await ops.delete('/bans?rule=login').expect(200, { lifted: 1 })
})

const CLIENTS = ['192.0.2.10', '192.0.2.3', '2001:db8::/56']

const ALL = [
  ['agents', 'ann@example.com'],
  ...['login', 'probing'].flatMap(rule => CLIENTS.map(client => [rule, client])),
]

/** Bans of three clients by two rules, and of one by another. */
async function addAll(): Promise<void> {
  for (const [rule, client] of ALL.toReversed()) {
    await add({ rule, client: client?.replace('/56', '1') })
  }
}

const pairsOf = (bans: readonly Ban[]) => bans.map(({ rule, client }) => [rule, client])

test('GET /bans lists the bans in force by rule and client, and only those that match', async () => {
  await addAll()
  const { body, headers } = await app.ops.get('/bans').expect(200)
  expect([pairsOf(body), headers.link]).toEqual([ALL, undefined])
  expect(headers['cache-control']).toBe('no-store')
  await app.ops.head('/bans').expect(200).expect('Content-Length', `${headers['content-length']}`)
  for (const [query, pairs] of [
    ['rule=login', ALL.slice(1, 4)],
    ['rule=nobody', []],
    ['client=2001:DB8:0:0:ff::9', [ALL[3], ALL[6]]],
    ['client=2001:db8::%2F56', [ALL[3], ALL[6]]],
    ['client=%22ann%40example.com%22', [ALL[0]]],
    ['client=192.0.2', []],
    ['rule=probing&client=192.0.2.10', [ALL[4]]],
    ['contains=192.0.2&rule=login', [ALL[1], ALL[2]]],
    ['contains=EXAMPLE', [ALL[0]]],
    ['contains=2001:DB8:0:0:ff::9', [ALL[3], ALL[6]]],
    ['contains=nobody', []],
  ]) {
    expect([query, pairsOf(await listed(`?${query}`))]).toEqual([query, pairs])
  }
})

test('GET /bans walks through all by next, which keeps its place when bans are lifted', async () => {
  await addAll()
  const pages = await walk<Ban>({ http: app.ops }, '/bans?per_page=3')
  expect(pairsOf(pages.flat())).toEqual(ALL)
  expect(pages.map(page => page.length)).toEqual([3, 3, 1])
  const first = await app.ops.get('/bans?rule=login&per_page=2').expect(200)
  const { next = '' } = linksOf(first.headers.link)
  expect(next).toMatch(/^\/bans\?rule=login&per_page=2&after=[\w-]+$/)
  await app.ops.delete('/bans?rule=login&client=192.0.2.3').expect(200, { lifted: 1 })
  const { body, headers } = await app.ops.get(next)
  expect([pairsOf(body), headers.link]).toEqual([[ALL[3]], undefined])
  const cursor = next.replace(/.*after=/, '')
  for (const wrong of [cursor.slice(1), cursor.slice(0, -1), cursor.toLowerCase(), 'x', 'bnVsbA']) {
    const answer = await app.ops.get(`/bans?after=${wrong}`)
    const errors = { after: ['is not a cursor of this list'] }
    expect([wrong, answer.status, answer.body.errors]).toEqual([wrong, 400, errors])
  }
})

const WRONG_PER_PAGE = ['must be a whole number from 1 to 1000']
const NOT_BOTH = ['cannot be given together with rule or client']

test.each([
  ['GET', 'page=1', { page: ['is unknown'] }],
  ['GET', '__proto__=x', { ['__proto__']: ['is unknown'] }],
  ['GET', 'rule=a&rule=a', { rule: ['is given more than once'] }],
  ['GET', 'client=%ff', { client: ['cannot be decoded'] }],
  ['GET', 'client=a&contains=b', { contains: ['cannot be given together with client'] }],
  ['GET', 'per_page=1001&rule=', { per_page: WRONG_PER_PAGE, rule: ['is empty'] }],
  ['DELETE', '', { all: ['must be true if neither rule nor client is given'] }],
  ['DELETE', 'all=TRUE', { all: ['must be true'] }],
  ['DELETE', 'all=true&rule=login', { all: NOT_BOTH }],
  ['DELETE', 'rule=login&contains=1', { contains: ['is unknown'] }],
  ['DELETE', 'rules=login', { all: expect.anything(), rules: ['is unknown'] }],
])('%s /bans?%s is 400, names what is wrong, and lifts nothing', async (method, query, errors) => {
  await add({ rule: 'login', client: A })
  const answer = await app.ops[method === 'GET' ? 'get' : 'delete'](`/bans?${query}`)
  expectError(answer, 400, 'query_invalid')
  // A member may be named __proto__.
  expect(new Map(Object.entries(answer.body.errors))).toEqual(new Map(Object.entries(errors)))
  expect(await listed()).toHaveLength(1)
})

test.each([
  ['rule=login', 3],
  ['client=2001:db8::7', 2],
  ['rule=login&client=192.0.2.3', 1],
  ['rule=login&client=ann%40example.com', 0],
  ['all=true', 7],
])('DELETE /bans?%s lifts those and no others, whatever the body', async (query, lifted) => {
  await addAll()
  await app.ops.delete(`/bans?${query}`).send({ all: true }).expect(200, { lifted })
  expect(await listed()).toHaveLength(7 - lifted)
  await app.ops.delete(`/bans?${query}`).expect(200, { lifted: 0 })
})

test('a client that the port has banned is lifted by the same name', async () => {
  const bans = (['host', 'domain', 'ip'] as const).map(by => {
    return { name: by, by, path: '/x', maxretry: 3, findtime: 60, bantime: 60 }
  })
  const { ops } = await openManagedApp({ limits: { bans } })
  for (const [rule, client] of [
    ['host', 'WWW.Shop.Example.'],
    ['domain', 'Shop.Example'],
    ['ip', '2001:DB8::1'],
  ]) {
    await add({ rule, client }, { ops })
    await ops.delete('/bans').query({ client }).expect(200, { lifted: 1 })
    const ban = { rule, client: '.' }
    await ops.post('/bans').send({ ban }).expect(422)
  }
})

test('the end of a ban is by the wall clock, also after that was set', async () => {
  const [wall, monotonic] = [createFakeClock(), createFakeClock()]
  const clocks = { now: wall.now, monotonicNow: monotonic.now }
  const { ops, logLines } = await openManagedApp({ limits: LIMITS, ...clocks })
  await add({ rule: 'login', client: A }, { ops })
  wall.advance(7_200_000)
  const { body } = await ops.get('/bans').expect(200)
  const end = new Date(wall.now() + 3_600_000).toISOString()
  expect(body).toEqual([{ rule: 'login', client: A, ends_at: end }])
  logLines.length = 0
  expect((await add({ rule: 'login', client: A }, { ops })).ends_at).toBe(end)
  expect(logLines).toContainEqual(expect.objectContaining({ banEndsAt: end }))
})

test('a ban is listed as soon as a client has earned it, and until it ends', async () => {
  for (let strike = 0; strike < 3; strike++) {
    await app.http.get('/wp-login').set('X-Forwarded-For', A)
  }
  expect(await listed(`?client=${A}`)).toMatchObject([{ rule: 'probing', client: A }])
  clock.advance(30 * 60_000 - 1)
  expect(await listed()).toHaveLength(1)
  clock.advance(1)
  expect(await listed()).toEqual([])
  await app.ops.delete('/bans?all=true').expect(200, { lifted: 0 })
})

test('/bans and /limits know their methods and types', async () => {
  const { ops } = app
  const allowed = { '/bans': 'GET, HEAD, POST, DELETE, OPTIONS', '/limits': 'GET, HEAD, OPTIONS' }
  for (const [path, allow] of Object.entries(allowed)) {
    expectError(await ops.put(path).expect('Allow', allow), 405, 'method_not_allowed')
    await ops.options(path).expect(204).expect('Allow', allow)
    expectError(await ops.get(path).set('Accept', 'text/html'), 406, 'not_acceptable')
    expectError(await ops.get(`${path}/`), 404, 'path_not_found')
    expectError(await ops.get(path.toUpperCase()), 404, 'path_not_found')
  }
  const reload = await ops.get('/limits/reload').expect('Allow', 'POST, OPTIONS')
  expectError(reload, 405, 'method_not_allowed')
  expectError(await ops.get('/%zz'), 400, 'path_malformed')
})
