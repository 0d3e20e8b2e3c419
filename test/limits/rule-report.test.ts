import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createFakeClock } from '../support/fake-clock.ts'
import {
  openTestApp,
  type TestApp,
  type TestAppOptions,
  temporaryFolder,
} from '../support/open-test-app.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000

const LOGIN = { name: 'login', path: '/login', maxretry: 3, findtime: 60, bantime: 3600 }
const PROBING = { ...LOGIN, name: 'probing', path: '/probe', mode: 'fail2ban' } as const
const ANSWERED = { ...LOGIN, status: [404] }
const POSTS = { name: 'posts', path: '/posts', limit: 2, period: 60 }
const LISTS = { name: 'lists', to: 2, within: 60, only: ['list'] }
const NONE = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
const NOTHING = { isDryRun: false, ...NONE }

/** Behind a proxy, so that X-Forwarded-For names the client. The clock stands still unless the test moves it. */
async function openWith(limits: object, { env, ...options }: TestAppOptions = {}) {
  const clock = createFakeClock()
  const app = await openTestApp({
    ...{ limits, now: clock.now, ...options },
    env: { TRUST_PROXY: '1', ...env },
  })
  return { ...app, clock }
}

/** The rules of a module, which may have functions. */
function openWithModule(rules: string) {
  const path = join(temporaryFolder(), 'limits.mjs')
  writeFileSync(path, `export default ${rules}`)
  return openWith({}, { env: { LIMITS_FILE: path } })
}

async function statuses(app: TestApp, count: number, path: string, client = ANN) {
  const found = []
  for (let index = 0; index < count; index++) {
    found.push((await app.http.get(path).set({ 'X-Forwarded-For': client })).status)
  }
  return found
}

/** The numbers of a rule, without its type and whether it is in dry run. */
function numbersOf(app: TestApp, name: string) {
  const found = app.limitsReport().rules.find(({ rule }) => rule === name)
  if (found === undefined) throw new Error(`no rule ${name}`)
  const { counted, passed, refused, wouldRefuse } = found
  return { counted, passed, refused, wouldRefuse }
}

test('the report has each rule at zero from the start, in the order in which requests meet them', async () => {
  const app = await openWith({
    rateLimits: [LISTS, { to: 1, within: 60, dryRun: true }],
    track: [{ name: 'seen' }],
    throttle: [POSTS],
    bans: [LOGIN, PROBING],
    blocklist: [{ name: 'bad', path: '/bad' }],
    safelist: [{ name: 'good', path: '/good' }],
  })
  expect(app.limitsReport()).toEqual({
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
    bans: 0,
    store: 'memory',
    isStoreUp: true,
  })
})

describe.each([false, true])('with dryRun %s', isDryRun => {
  const over = (refused: number) =>
    isDryRun ? { refused: 0, wouldRefuse: refused } : { refused, wouldRefuse: 0 }
  const ifDenied = (denied: number, allowed: number) => (isDryRun ? allowed : denied)

  test('a blocklist rule counts each match as refused', async () => {
    const app = await openWith({ blocklist: [{ name: 'bad', path: '/bad', dryRun: isDryRun }] })
    const status = ifDenied(403, 404)
    expect(await statuses(app, 3, '/bad')).toEqual([status, status, status])
    await statuses(app, 2, '/other')
    expect(numbersOf(app, 'bad')).toEqual({ counted: 3, passed: 0, ...over(3) })
  })

  test('a throttle counts what is over its limit as refused, in each window', async () => {
    const app = await openWith({ throttle: [{ ...POSTS, dryRun: isDryRun }] })
    const last = ifDenied(429, 404)
    expect(await statuses(app, 5, '/posts')).toEqual([404, 404, last, last, last])
    await statuses(app, 1, '/posts', BOB)
    await statuses(app, 4, '/other')
    app.clock.advance(MINUTE)
    await statuses(app, 1, '/posts')
    expect(numbersOf(app, 'posts')).toEqual({ counted: 7, passed: 4, ...over(3) })
  })

  test('a route limit counts what is over its limit as refused, and only its own actions', async () => {
    const app = await openWith({ rateLimits: [{ ...LISTS, dryRun: isDryRun }] })
    const last = ifDenied(429, 200)
    expect(await statuses(app, 4, '/users')).toEqual([200, 200, last, last])
    await statuses(app, 2, '/users/1')
    expect(numbersOf(app, 'lists')).toEqual({ counted: 4, passed: 2, ...over(2) })
  })

  test('an allow2ban rule counts strikes as passed, and what the banned client sends as refused only', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, dryRun: isDryRun }] })
    const denied = ifDenied(403, 404)
    expect(await statuses(app, 5, '/login')).toEqual([404, 404, 404, denied, denied])
    await statuses(app, 2, '/other')
    await statuses(app, 1, '/login', BOB)
    expect(numbersOf(app, 'login')).toEqual({ counted: 4, passed: 4, ...over(4) })
    expect(app.limitsReport().bans).toBe(isDryRun ? 0 : 1)
  })

  test('a fail2ban rule counts strikes as refused, and what the banned client sends too', async () => {
    const app = await openWith({ bans: [{ ...PROBING, dryRun: isDryRun }] })
    const denied = ifDenied(403, 404)
    expect(await statuses(app, 4, '/probe')).toEqual([denied, denied, denied, denied])
    await statuses(app, 2, '/other')
    expect(numbersOf(app, 'probing')).toEqual({ counted: 3, passed: 0, ...over(6) })
  })

  test('a ban rule with status counts an answer with that status, and no other', async () => {
    const app = await openWith({ bans: [{ ...ANSWERED, path: '/users*', dryRun: isDryRun }] })
    await statuses(app, 4, '/users')
    const denied = ifDenied(403, 404)
    expect(await statuses(app, 5, '/users/1')).toEqual([404, 404, 404, denied, denied])
    expect(numbersOf(app, 'login')).toEqual({ counted: 3, passed: 3, ...over(2) })
  })

  test('a track counts each match, with a limit those over it too', async () => {
    const app = await openWith({
      track: [
        { name: 'each', path: '/a', dryRun: isDryRun },
        { name: 'many', path: '/a', limit: 1, period: 60, dryRun: isDryRun },
        { name: 'missing', path: '/users*', status: [404], dryRun: isDryRun },
        { name: 'few', path: '/users*', status: [404], limit: 1, period: 60, dryRun: isDryRun },
      ],
    })
    await statuses(app, 3, '/a')
    await statuses(app, 2, '/users/1')
    await statuses(app, 2, '/users')
    for (const [name, count] of Object.entries({ each: 3, many: 3, missing: 2, few: 2 })) {
      const numbers = { counted: count, passed: count, refused: 0, wouldRefuse: 0 }
      expect({ name, ...numbersOf(app, name) }).toEqual({ name, ...numbers })
    }
  })
})

test('a safelisted request is counted by the safelist rule and no other', async () => {
  const app = await openWith({
    safelist: [{ name: 'office', ip: ANN }],
    blocklist: [{ name: 'all' }],
    rateLimits: [LISTS],
  })
  expect(await statuses(app, 3, '/users')).toEqual([200, 200, 200])
  await statuses(app, 1, '/users', BOB)
  expect(numbersOf(app, 'office')).toEqual({ counted: 3, passed: 3, refused: 0, wouldRefuse: 0 })
  expect(numbersOf(app, 'all')).toEqual({ counted: 1, passed: 0, refused: 1, wouldRefuse: 0 })
  expect(numbersOf(app, 'lists').counted).toBe(0)
})

test('rules that come after the one that refuses count nothing', async () => {
  const app = await openWith({
    throttle: [POSTS, { ...POSTS, name: 'later', limit: 9 }],
    track: [{ name: 'seen', path: '/posts' }],
  })
  await statuses(app, 5, '/posts')
  expect(numbersOf(app, 'posts')).toEqual({ counted: 5, passed: 2, refused: 3, wouldRefuse: 0 })
  expect(numbersOf(app, 'later').counted).toBe(2)
  expect(numbersOf(app, 'seen').counted).toBe(2)
})

test('a request without the key of a rule is not counted; fail2ban refuses it all the same', async () => {
  const by = 'header:X-Key'
  const app = await openWith({
    bans: [
      { ...LOGIN, by },
      { ...PROBING, by },
    ],
    throttle: [{ ...POSTS, by }],
    track: [{ name: 'seen', limit: 1, period: 60, by }],
    rateLimits: [{ ...LISTS, by }],
  })
  for (const path of ['/login', '/posts', '/users']) await statuses(app, 4, path)
  expect(await statuses(app, 2, '/probe')).toEqual([403, 403])
  for (const name of ['login', 'posts', 'seen', 'lists']) {
    expect(numbersOf(app, name)).toEqual({ counted: 0, passed: 0, refused: 0, wouldRefuse: 0 })
  }
  expect(numbersOf(app, 'probing')).toEqual({ counted: 0, passed: 0, refused: 2, wouldRefuse: 0 })
})

test('with CACHE_STORE=none only what still acts has numbers', async () => {
  const app = await openWith(
    {
      safelist: [{ name: 'good', path: '/good' }],
      blocklist: [{ name: 'bad', path: '/bad' }],
      bans: [LOGIN, PROBING],
      throttle: [POSTS],
      track: [
        { name: 'seen', path: '/a' },
        { name: 'many', path: '/a', limit: 1, period: 60 },
      ],
      rateLimits: [LISTS],
    },
    { env: { CACHE_STORE: 'none' } },
  )
  for (const path of ['/good', '/bad', '/login', '/probe', '/posts', '/a', '/users'])
    await statuses(app, 4, path)
  const { rules, ...rest } = app.limitsReport()
  expect(rest).toEqual({ bans: 0, store: 'none', isStoreUp: true })
  expect(rules).toEqual([
    { type: 'safelist', rule: 'good', ...NOTHING, counted: 4, passed: 4 },
    { type: 'blocklist', rule: 'bad', ...NOTHING, counted: 4, refused: 4 },
    { type: 'ban', rule: 'login', ...NOTHING },
    { type: 'ban', rule: 'probing', ...NOTHING, refused: 4 },
    { type: 'throttle', rule: 'posts', ...NOTHING },
    { type: 'track', rule: 'seen', ...NOTHING, counted: 4, passed: 4 },
    { type: 'track', rule: 'many', ...NOTHING },
    { type: 'rateLimit', rule: 'lists', ...NOTHING },
  ])
})

describe.each(['throttle', 'rateLimits'])('a %s with a function as its answer', kind => {
  const limit = kind === 'throttle' ? `path: '/users', limit: 1, period: 60` : 'to: 1, within: 60'
  const openAnswering = (code: string) =>
    openWithModule(`{ ${kind}: [{ name: 'own', ${limit}, with: ${code} }] }`)

  test.each([
    { does: 'answers', code: '(request, response) => { response.status(418).end() }' },
    {
      does: 'answers later',
      code: '(request, response) => { setTimeout(() => response.status(418).end(), 1) }',
    },
    { does: 'hands an error on', code: '(request, response, next) => next(new Error("no"))' },
    {
      does: 'answers and hands the request on',
      code: '(request, response, next) => { response.status(418).end(); next() }',
    },
  ])('counts a request as refused if it $does', async ({ code }) => {
    const app = await openAnswering(code)
    const [first, ...later] = await statuses(app, 4, '/users')
    expect(first).toBe(200)
    expect(later).not.toContain(200)
    expect(numbersOf(app, 'own')).toEqual({ counted: 4, passed: 1, refused: 3, wouldRefuse: 0 })
  })

  test.each([
    { does: 'hands it on', code: '(request, response, next) => next()' },
    { does: 'hands it on later', code: '(request, response, next) => { setTimeout(next, 1) }' },
    { does: 'throws', code: '() => { throw new Error("no") }' },
    { does: 'rejects', code: 'async () => { throw new Error("no") }' },
  ])('counts a request as passed if it $does', async ({ code }) => {
    const app = await openAnswering(code)
    expect(await statuses(app, 4, '/users')).toEqual([200, 200, 200, 200])
    expect(numbersOf(app, 'own')).toEqual({ counted: 4, passed: 4, refused: 0, wouldRefuse: 0 })
  })
})

test('a rule whose function throws counts nothing', async () => {
  const boom = '() => { throw new Error("boom") }'
  const app = await openWithModule(`{
    blocklist: [{ name: 'matching', match: ${boom} }],
    throttle: [{ name: 'keyed', limit: 1, period: 60, by: ${boom} }],
    rateLimits: [{ name: 'sized', to: ${boom}, within: 60 }],
  }`)
  expect(await statuses(app, 3, '/users')).toEqual([200, 200, 200])
  for (const name of ['matching', 'keyed', 'sized'])
    expect(numbersOf(app, name)).toEqual({ counted: 0, passed: 0, refused: 0, wouldRefuse: 0 })
})

test('a reload keeps the numbers of a rule with the same type and name, and drops the others', async () => {
  const app = await openWith({ throttle: [POSTS], track: [{ name: 'seen', path: '/posts' }] })
  await statuses(app, 3, '/posts')
  const changed = { throttle: [{ ...POSTS, limit: 9, dryRun: true }], track: [{ name: 'other' }] }
  writeFileSync(app.limitsPath, JSON.stringify(changed))
  await app.reloadLimits()
  await statuses(app, 1, '/posts')
  expect(app.limitsReport().rules).toEqual([
    {
      type: 'throttle',
      rule: 'posts',
      isDryRun: true,
      counted: 4,
      passed: 3,
      refused: 1,
      wouldRefuse: 0,
    },
    { type: 'track', rule: 'other', ...NOTHING, counted: 1, passed: 1 },
  ])
  // The same name, but another type.
  writeFileSync(app.limitsPath, JSON.stringify({ track: [{ name: 'posts' }, { name: 'seen' }] }))
  await app.reloadLimits()
  expect(app.limitsReport().rules).toEqual([
    { type: 'track', rule: 'posts', ...NOTHING },
    { type: 'track', rule: 'seen', ...NOTHING },
  ])
})

test('bans that have ended are not in the number of bans, those of rules that went are', async () => {
  const app = await openWith({ bans: [LOGIN, { ...LOGIN, name: 'long', bantime: 7200 }] })
  await statuses(app, 3, '/login')
  await statuses(app, 3, '/login', BOB)
  expect(app.limitsReport().bans).toBe(4)
  app.clock.advance(60 * MINUTE)
  expect(app.limitsReport().bans).toBe(2)
  writeFileSync(app.limitsPath, JSON.stringify({ bans: [LOGIN] }))
  await app.reloadLimits()
  expect(app.limitsReport().bans).toBe(2)
  app.clock.advance(60 * MINUTE)
  expect(app.limitsReport().bans).toBe(0)
})

describe('requests at the same time', () => {
  async function askAtOnce(app: TestApp, path: string) {
    const asked = Array.from({ length: 40 }, () => statuses(app, 1, path))
    return (await Promise.all(asked)).flat()
  }

  test('are counted exactly', async () => {
    const app = await openWith({
      bans: [PROBING],
      throttle: [POSTS, { ...POSTS, name: 'trial', path: '/trial', dryRun: true }],
      rateLimits: [LISTS],
      track: [{ name: 'seen', path: '/posts', status: [404], limit: 1, period: 60 }],
    })
    await askAtOnce(app, '/posts')
    await askAtOnce(app, '/trial')
    await askAtOnce(app, '/users')
    expect(numbersOf(app, 'posts')).toEqual({ ...NONE, counted: 40, passed: 2, refused: 38 })
    expect(numbersOf(app, 'seen')).toEqual({ ...NONE, counted: 2, passed: 2 })
    expect(numbersOf(app, 'trial')).toEqual({ ...NONE, counted: 40, passed: 2, wouldRefuse: 38 })
    expect(numbersOf(app, 'lists')).toEqual({ ...NONE, counted: 40, passed: 2, refused: 38 })
    expect(await askAtOnce(app, '/probe')).toEqual(Array.from({ length: 40 }, () => 403))
    expect(numbersOf(app, 'probing')).toMatchObject({ passed: 0, refused: 40, wouldRefuse: 0 })
  })

  test('are strikes until one of them bans the client', async () => {
    const app = await openWith({ bans: [LOGIN] })
    const found = await askAtOnce(app, '/login')
    const refused = found.filter(status => status === 403).length
    const counted = 40 - refused
    expect(numbersOf(app, 'login')).toEqual({ ...NONE, counted, passed: counted, refused })
  })
})

test('the bans of rules in dry run are in no number of bans', async () => {
  const trial = { ...LOGIN, name: 'trial', path: '/trial', dryRun: true }
  const app = await openWith({ bans: [LOGIN, trial] })
  await statuses(app, 3, '/trial')
  await statuses(app, 3, '/login', BOB)
  expect(app.limitsReport().bans).toBe(1)
  expect(await statuses(app, 1, '/trial')).toEqual([404])
  expect(numbersOf(app, 'trial').wouldRefuse).toBe(1)
})
