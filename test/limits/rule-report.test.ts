import { describe, expect, test } from 'vitest'
import { shareAppWithRules } from '../support/app-with-rules.ts'
import { openTestApp } from '../support/open-test-app.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000

const LOGIN = { name: 'login', path: '/login', maxretry: 3, findtime: 60, bantime: 3600 }
const PROBING = { ...LOGIN, name: 'probing', path: '/probe', mode: 'fail2ban' }
const POSTS = { name: 'posts', path: '/posts', limit: 2, period: 60 }
const LISTS = { name: 'lists', to: 2, within: 60, only: ['list'] }
const MANY = { limit: 1, period: 60 }
const NOTHING = { isDryRun: false, counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }

const { app, clock, changeLimits, useLimits } = shareAppWithRules()

async function statusesOf(count: number, path: string, client = ANN, http = app.http) {
  const found = []
  for (let index = 0; index < count; index++) {
    found.push((await http.get(path).set({ 'X-Forwarded-For': client })).status)
  }
  return found
}

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

test('the report has each rule at zero from the start, in the order in which requests meet them', async () => {
  const { limitsReport } = await openTestApp({
    limits: {
      rateLimits: [LISTS, { to: 1, within: 60, dryRun: true }],
      track: [{ name: 'seen' }],
      throttle: [POSTS],
      bans: [LOGIN, PROBING],
      blocklist: [{ name: 'bad', path: '/bad' }],
      safelist: [{ name: 'good', path: '/good' }],
    },
  })
  expect(limitsReport()).toEqual({
    rules: [
      { type: 'safelist', rule: 'good', ...NOTHING },
      { type: 'blocklist', rule: 'bad', ...NOTHING },
      { type: 'ban', rule: 'login', ...NOTHING },
      { type: 'ban', rule: 'probing', ...NOTHING },
      { type: 'throttle', rule: 'posts', ...NOTHING },
      { type: 'track', rule: 'seen', ...NOTHING },
      { type: 'rateLimit', rule: 'lists', ...NOTHING },
      { type: 'rateLimit', rule: 'rateLimits[1]', ...NOTHING, isDryRun: true },
    ],
    ...{ bans: 0, store: 'memory', isStoreUp: true },
  })
})

/** Requests of a client, after a time. Dry run turns each 403 and 429 into what an allowed request gets. */
const get = (path: string, statuses: readonly number[], { client = ANN, afterMs = 0 } = {}) => ({
  ...{ path, statuses, client, afterMs },
})

interface Row {
  readonly claim: string
  readonly kind: string
  readonly rules: readonly object[]
  readonly asked: readonly ReturnType<typeof get>[]
  /** By rule; `over` is refused, or would be in dry run. */
  readonly numbers: Readonly<
    Record<string, readonly [counted: number, passed: number, over: number]>
  >
  readonly bans?: number
}

const COUNTED: readonly Row[] = [
  {
    claim: 'a blocklist rule counts each match as refused',
    kind: 'blocklist',
    rules: [{ name: 'bad', path: '/bad' }],
    asked: [get('/bad', [403, 403, 403]), get('/other', [404, 404])],
    numbers: { bad: [3, 0, 3] },
  },
  {
    claim: 'a throttle counts what is over its limit as refused, in each window',
    kind: 'throttle',
    rules: [POSTS],
    asked: [
      get('/posts', [404, 404, 429, 429, 429]),
      get('/posts', [404], { client: BOB }),
      get('/other', [404, 404, 404, 404]),
      get('/posts', [404], { afterMs: MINUTE }),
    ],
    numbers: { posts: [7, 4, 3] },
  },
  {
    claim: 'a route limit counts what is over its limit as refused, and only its own actions',
    kind: 'rateLimits',
    rules: [LISTS],
    asked: [get('/users', [200, 200, 429, 429]), get('/users/1', [404, 404])],
    numbers: { lists: [4, 2, 2] },
  },
  {
    claim:
      'an allow2ban rule counts strikes as passed, and what the banned client sends as refused',
    kind: 'bans',
    rules: [LOGIN],
    asked: [
      get('/login', [404, 404, 404, 403, 403]),
      get('/other', [403, 403]),
      get('/login', [404], { client: BOB }),
    ],
    numbers: { login: [4, 4, 4] },
    bans: 1,
  },
  {
    claim: 'a fail2ban rule counts strikes as refused, and what the banned client sends too',
    kind: 'bans',
    rules: [PROBING],
    asked: [get('/probe', [403, 403, 403, 403]), get('/other', [403, 403])],
    numbers: { probing: [3, 0, 6] },
    bans: 1,
  },
  {
    claim: 'a ban rule with status counts an answer with that status, and no other',
    kind: 'bans',
    rules: [{ ...LOGIN, path: '/users*', status: [404] }],
    asked: [get('/users', [200, 200, 200, 200]), get('/users/1', [404, 404, 404, 403, 403])],
    numbers: { login: [3, 3, 2] },
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
    asked: [get('/a', [404, 404, 404]), get('/users/1', [404, 404]), get('/users', [200, 200])],
    numbers: { each: [3, 3, 0], many: [3, 3, 0], missing: [2, 2, 0], few: [2, 2, 0] },
  },
]

describe.each([false, true])('with dryRun %s', dryRun => {
  test.each(COUNTED)('$claim', async ({ kind, rules, asked, numbers: expected, bans = 0 }) => {
    await useLimits({ [kind]: rules.map(rule => ({ ...rule, dryRun })) })
    for (const { path, statuses, client, afterMs } of asked) {
      clock.advance(afterMs)
      const allowed = path === '/users' ? 200 : 404
      expect(await statusesOf(statuses.length, path, client)).toEqual(
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

test('a safelisted request is counted by the safelist rule and no other', async () => {
  await useLimits({
    safelist: [{ name: 'office', ip: ANN }],
    blocklist: [{ name: 'all' }],
    rateLimits: [LISTS],
  })
  expect(await statusesOf(3, '/users')).toEqual([200, 200, 200])
  await statusesOf(1, '/users', BOB)
  expect(numbersOf('office')).toEqual(numbers(3, 3, 0))
  expect(numbersOf('all')).toEqual(numbers(1, 0, 1))
  expect(numbersOf('lists')).toEqual(numbers(0, 0, 0))
})

test('rules that come after the one that refuses count nothing', async () => {
  await useLimits({
    throttle: [POSTS, { ...POSTS, name: 'later', limit: 9 }],
    track: [{ name: 'seen', path: '/posts' }],
  })
  await statusesOf(5, '/posts')
  expect(numbersOf('posts')).toEqual(numbers(5, 2, 3))
  expect(numbersOf('later').counted).toBe(2)
  expect(numbersOf('seen').counted).toBe(2)
})

test('a request without the key of a rule is not counted; fail2ban refuses it all the same', async () => {
  const by = 'header:X-Key'
  await useLimits({
    bans: [LOGIN, PROBING].map(rule => ({ ...rule, by })),
    throttle: [{ ...POSTS, by }],
    track: [{ name: 'seen', ...MANY, by }],
    rateLimits: [{ ...LISTS, by }],
  })
  for (const path of ['/login', '/posts', '/users']) await statusesOf(4, path)
  expect(await statusesOf(2, '/probe')).toEqual([403, 403])
  for (const name of ['login', 'posts', 'seen', 'lists']) {
    expect([name, numbersOf(name)]).toEqual([name, numbers(0, 0, 0)])
  }
  expect(numbersOf('probing')).toEqual(numbers(0, 0, 2))
})

test('with CACHE_STORE=none only what still acts has numbers', async () => {
  const { http, limitsReport } = await openTestApp({
    limits: {
      safelist: [{ name: 'good', path: '/good' }],
      blocklist: [{ name: 'bad', path: '/bad' }],
      bans: [LOGIN, PROBING],
      throttle: [POSTS],
      track: [
        { name: 'seen', path: '/a' },
        { name: 'many', path: '/a', ...MANY },
      ],
      rateLimits: [LISTS],
    },
    env: { CACHE_STORE: 'none' },
  })
  for (const path of ['/good', '/bad', '/login', '/probe', '/posts', '/a', '/users']) {
    await statusesOf(4, path, ANN, http)
  }
  expect(limitsReport()).toEqual({
    rules: [
      { type: 'safelist', rule: 'good', ...NOTHING, counted: 4, passed: 4 },
      { type: 'blocklist', rule: 'bad', ...NOTHING, counted: 4, refused: 4 },
      { type: 'ban', rule: 'login', ...NOTHING },
      { type: 'ban', rule: 'probing', ...NOTHING, refused: 4 },
      { type: 'throttle', rule: 'posts', ...NOTHING },
      { type: 'track', rule: 'seen', ...NOTHING, counted: 4, passed: 4 },
      { type: 'track', rule: 'many', ...NOTHING },
      { type: 'rateLimit', rule: 'lists', ...NOTHING },
    ],
    ...{ bans: 0, store: 'none', isStoreUp: true },
  })
})

test('a reload keeps the numbers of a rule with the same type and name, and drops the others', async () => {
  await useLimits({ throttle: [POSTS], track: [{ name: 'seen', path: '/posts' }] })
  await statusesOf(3, '/posts')
  await changeLimits({
    throttle: [{ ...POSTS, limit: 9, dryRun: true }],
    track: [{ name: 'other' }],
  })
  await statusesOf(1, '/posts')
  expect(app.limitsReport().rules).toEqual([
    { type: 'throttle', rule: 'posts', isDryRun: true, ...numbers(4, 3, 1) },
    { type: 'track', rule: 'other', isDryRun: false, ...numbers(1, 1, 0) },
  ])
  // The same name, but another type.
  await changeLimits({ track: [{ name: 'posts' }, { name: 'seen' }] })
  expect(app.limitsReport().rules).toEqual([
    { type: 'track', rule: 'posts', ...NOTHING },
    { type: 'track', rule: 'seen', ...NOTHING },
  ])
})

test('bans that have ended are not in the number of bans, those of rules that went are', async () => {
  await useLimits({ bans: [LOGIN, { ...LOGIN, name: 'long', bantime: 7200 }] })
  await statusesOf(3, '/login')
  await statusesOf(3, '/login', BOB)
  expect(app.limitsReport().bans).toBe(4)
  clock.advance(60 * MINUTE)
  expect(app.limitsReport().bans).toBe(2)
  await changeLimits({ bans: [LOGIN] })
  expect(app.limitsReport().bans).toBe(2)
  clock.advance(60 * MINUTE)
  expect(app.limitsReport().bans).toBe(0)
})

describe('requests at the same time', () => {
  async function askAtOnce(path: string) {
    return (await Promise.all(Array.from({ length: 40 }, () => statusesOf(1, path)))).flat()
  }

  test('are counted exactly', async () => {
    await useLimits({
      bans: [PROBING],
      throttle: [POSTS, { ...POSTS, name: 'trial', path: '/trial', dryRun: true }],
      rateLimits: [LISTS],
      track: [{ name: 'seen', path: '/posts', status: [404], ...MANY }],
    })
    for (const path of ['/posts', '/trial', '/users']) await askAtOnce(path)
    expect(numbersOf('posts')).toEqual(numbers(40, 2, 38))
    expect(numbersOf('seen')).toEqual(numbers(2, 2, 0))
    expect(numbersOf('trial')).toEqual({ ...numbers(40, 2, 0), wouldRefuse: 38 })
    expect(numbersOf('lists')).toEqual(numbers(40, 2, 38))
    expect(await askAtOnce('/probe')).toEqual(Array(40).fill(403))
    expect(numbersOf('probing')).toMatchObject({ passed: 0, refused: 40, wouldRefuse: 0 })
  })

  test('are strikes until one of them bans the client', async () => {
    await useLimits({ bans: [LOGIN] })
    const refused = (await askAtOnce('/login')).filter(status => status === 403).length
    expect(numbersOf('login')).toEqual(numbers(40 - refused, 40 - refused, refused))
  })
})
