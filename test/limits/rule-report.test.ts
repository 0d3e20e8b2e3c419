import { describe, expect, test } from 'vitest'
import { ANN, BOB, openLimitedApp, shareLimitedApp } from '../support/limited-app.ts'

const LOGIN = { name: 'login', path: '/login', maxretry: 3, findtime: 60, bantime: 3600 }
const PROBING = { ...LOGIN, name: 'probing', path: '/probe', mode: 'fail2ban' }
const POSTS = { name: 'posts', path: '/posts', limit: 2, period: 60 }
const LISTS = { name: 'lists', to: 2, within: 60, only: ['list'] }
const MANY = { limit: 1, period: 60 }
const NOTHING = { isDryRun: false, counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }

const app = shareLimitedApp()

/** The numbers of a rule, without its type and whether it is in dry run. */
function numbersOf(name: string) {
  const found = app.limitsReport().rules.find(({ rule }) => rule === name)
  if (found === undefined) throw new Error(`no rule ${name}`)
  const { counted, passed, refused, wouldRefuse } = found
  return { counted, passed, refused, wouldRefuse }
}

/** The numbers of a rule that is not in dry run. */
function numbers(counted: number, passed: number, refused: number) {
  return { counted, passed, refused, wouldRefuse: 0 }
}

/** Requests of a client with their statuses. Dry run turns each 403 and 429 into what an allowed request gets. */
const getOf = (client: string, path: string, ...statuses: number[]) => ({ client, path, statuses })
const get = (path: string, ...statuses: number[]) => getOf(ANN, path, ...statuses)

interface Row {
  readonly claim: string
  readonly kind: string
  readonly rules: readonly object[]
  readonly asked: readonly ReturnType<typeof get>[]
  /** By rule; `over` is refused, or would be in dry run. */
  readonly numbers: Readonly<Record<string, readonly [number, passed: number, over: number]>>
  readonly bans?: number
}

const COUNTED: readonly Row[] = [
  {
    claim: 'a blocklist rule counts each match as refused',
    kind: 'blocklist',
    rules: [{ name: 'bad', path: '/bad' }],
    asked: [get('/bad', 403, 403, 403), get('/other', 404, 404)],
    numbers: { bad: [3, 0, 3] },
  },
  {
    claim: 'a throttle counts what is over its limit as refused, for each client',
    kind: 'throttle',
    rules: [POSTS],
    asked: [get('/posts', 404, 404, 429, 429, 429), get('/other', 404), getOf(BOB, '/posts', 404)],
    numbers: { posts: [6, 3, 3] },
  },
  {
    claim: 'a route limit counts what is over its limit as refused, and only its own actions',
    kind: 'rateLimits',
    rules: [LISTS],
    asked: [get('/users', 200, 200, 429, 429), get('/users/1', 404, 404)],
    numbers: { lists: [4, 2, 2] },
  },
  {
    claim: 'an allow2ban rule counts strikes as passed, and all of a banned client as refused',
    kind: 'bans',
    rules: [LOGIN],
    asked: [
      get('/login', 404, 404, 404, 403, 403),
      get('/other', 403, 403),
      getOf(BOB, '/login', 404),
    ],
    numbers: { login: [4, 4, 4] },
    bans: 1,
  },
  {
    claim: 'a fail2ban rule counts strikes as refused, and all of a banned client too',
    kind: 'bans',
    rules: [PROBING],
    asked: [get('/probe', 403, 403, 403, 403), get('/other', 403, 403)],
    numbers: { probing: [3, 0, 6] },
    bans: 1,
  },
  {
    claim: 'a track counts each match, with a limit those over it too',
    kind: 'track',
    rules: [
      { name: 'each', path: '/a' },
      { name: 'many', path: '/a', ...MANY },
      { name: 'missing', path: '/users*', status: [404] },
      { name: 'few', path: '/users*', status: [404], ...MANY },
    ],
    asked: [get('/a', 404, 404, 404), get('/users/1', 404, 404), get('/users', 200, 200)],
    numbers: { each: [3, 3, 0], many: [3, 3, 0], missing: [2, 2, 0], few: [2, 2, 0] },
  },
]

describe.each([false, true])('with dryRun %s', dryRun => {
  test.each(COUNTED)('$claim', async ({ kind, rules, asked, numbers: expected, bans = 0 }) => {
    await app.startOver({ [kind]: rules.map(rule => ({ ...rule, dryRun })) })
    for (const { client, path, statuses } of asked) {
      const allowed = path === '/users' ? 200 : 404
      expect(await app.statuses(statuses.length, `GET ${path}`, client)).toEqual(
        statuses.map(status => (dryRun ? allowed : status)),
      )
    }
    for (const [name, [counted, passed, over]] of Object.entries(expected)) {
      const overs = dryRun ? { refused: 0, wouldRefuse: over } : { refused: over, wouldRefuse: 0 }
      expect([name, numbersOf(name)]).toEqual([name, { counted, passed, ...overs }])
    }
    expect(app.limitsReport().bans).toBe(dryRun ? 0 : bans)
  })
})

test('the report has the rules in the order of requests; with CACHE_STORE=none only those that do not count act and have numbers', async () => {
  const rules = {
    rateLimits: [LISTS, { to: 1, within: 60, dryRun: true }],
    track: [
      { name: 'seen', path: '/a' },
      { name: 'missing', path: '/a', status: [404] },
    ],
    throttle: [POSTS],
    bans: [LOGIN, PROBING, { ...LOGIN, name: 'lost', path: '/a', status: [404] }],
    blocklist: [{ name: 'bad', path: '/bad' }],
    safelist: [{ name: 'good', path: '/good' }],
  }
  const uncounted = await openLimitedApp(rules, { env: { CACHE_STORE: 'none' } })
  const expected = { good: 404, bad: 403, login: 404, probe: 403, posts: 404, a: 404, users: 200 }
  for (const [path, status] of Object.entries(expected)) {
    const found = await uncounted.statuses(4, `GET /${path}`)
    expect([path, ...found]).toEqual([path, ...Array(4).fill(status)])
  }
  expect((await uncounted.ask('GET /users')).headers).not.toHaveProperty('ratelimit')
  expect(uncounted.limitsReport()).toMatchObject({
    rules: [
      { type: 'safelist', rule: 'good', ...NOTHING, counted: 4, passed: 4 },
      { type: 'blocklist', rule: 'bad', ...NOTHING, counted: 4, refused: 4 },
      { type: 'ban', rule: 'login', ...NOTHING },
      { type: 'ban', rule: 'probing', ...NOTHING, refused: 4 },
      { type: 'ban', rule: 'lost', ...NOTHING },
      { type: 'throttle', rule: 'posts', ...NOTHING },
      { type: 'track', rule: 'seen', ...NOTHING, counted: 4, passed: 4 },
      { type: 'track', rule: 'missing', ...NOTHING, counted: 4, passed: 4 },
      { type: 'rateLimit', rule: 'lists', ...NOTHING },
      { type: 'rateLimit', rule: 'rateLimits[1]', ...NOTHING, isDryRun: true },
    ],
    ...{ bans: 0, store: 'none', isStoreUp: true },
  })
  await uncounted.change({ blocklist: [{ path: '/users' }] })
  expect(await uncounted.statusOf('GET /users')).toBe(403)
})

test('requests at the same time are counted exactly, and are strikes until one of them bans', async () => {
  const atOnce = (path: string, client = ANN) =>
    Promise.all(Array.from({ length: 40 }, () => app.statusOf(`GET ${path}`, client)))
  await app.startOver({
    bans: [LOGIN, PROBING],
    throttle: [POSTS, { ...POSTS, name: 'trial', path: '/trial', dryRun: true }],
    rateLimits: [LISTS],
    track: [{ name: 'seen', path: '/posts', status: [404], ...MANY }],
  })
  for (const path of ['/posts', '/trial', '/users']) await atOnce(path)
  expect(numbersOf('posts')).toEqual(numbers(40, 2, 38))
  expect(numbersOf('seen')).toEqual(numbers(2, 2, 0))
  expect(numbersOf('trial')).toEqual({ ...numbers(40, 2, 0), wouldRefuse: 38 })
  expect(numbersOf('lists')).toEqual(numbers(40, 2, 38))
  expect(await atOnce('/probe')).toEqual(Array(40).fill(403))
  expect(numbersOf('probing')).toMatchObject({ passed: 0, refused: 40, wouldRefuse: 0 })
  const refused = (await atOnce('/login', BOB)).filter(status => status === 403).length
  expect(numbersOf('login')).toEqual(numbers(40 - refused, 40 - refused, refused))
})
