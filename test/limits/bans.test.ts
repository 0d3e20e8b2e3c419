import { describe, expect, test } from 'vitest'
import type { BanRule, LimitsFile } from '../../src/limits/rules/limits-file.ts'
import { byEngine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp, type TestAppOptions } from '../support/open-test-app.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { until } from '../support/until.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

const LOGIN: BanRule = {
  name: 'login',
  method: 'POST',
  path: '/login',
  maxretry: 5,
  findtime: '1 minute',
  bantime: '1 hour',
}

const PROBING: BanRule = {
  name: 'probing',
  path: ['/wp-admin*', '/etc/passwd'],
  maxretry: 3,
  findtime: '10 minutes',
  bantime: '30 minutes',
  mode: 'fail2ban',
}

interface Opened extends TestApp {
  readonly clock: ReturnType<typeof createFakeClock>
}

/** Behind a proxy, so that X-Forwarded-For names the client. */
async function openWith(limits: LimitsFile, { env, now }: TestAppOptions = {}): Promise<Opened> {
  const clock = createFakeClock()
  const app = await openTestApp({
    limits,
    env: { TRUST_PROXY: '1', ...env },
    now: now ?? clock.now,
  })
  return { ...app, clock }
}

function ask(app: TestApp, line: string, client = ANN, headers: Record<string, string> = {}) {
  const [method = '', path = ''] = line.split(' ')
  const request = app.http[method.toLowerCase() as 'get'](path)
  return request.set({ 'X-Forwarded-For': client, ...headers })
}

async function statusOf(...asked: Parameters<typeof ask>): Promise<number> {
  return (await ask(...asked)).status
}

async function statuses(app: TestApp, count: number, line: string, client?: string) {
  const found = []
  for (let index = 0; index < count; index++) found.push(await statusOf(app, line, client))
  return found
}

function linesOf(app: TestApp, message: string) {
  return app.logLines.filter(({ msg }) => msg === message)
}

/** The line of a request, which is written when its response is closed. */
function lineOf(app: TestApp, requestId: string) {
  return until(() => linesOf(app, 'request').find(line => line.requestId === requestId))
}

describe('allow2ban', () => {
  test('lets maxretry matching requests pass, and then none of that client', async () => {
    const app = await openWith({ bans: [LOGIN] })
    expect(await statuses(app, 5, 'POST /login')).toEqual([404, 404, 404, 404, 404])
    for (const line of [
      'POST /login',
      'GET /login',
      'GET /users',
      'HEAD /users',
      'OPTIONS /users',
      'POST /users',
      'DELETE /users/1',
      'PUT /',
      'GET /nowhere',
      'GET /users/%zz',
    ]) {
      const answer = await ask(app, line)
      expect([line, answer.status, answer.headers['retry-after']]).toEqual([line, 403, '3600'])
    }
    expect(await statusOf(app, 'GET /users', BOB)).toBe(200)
    expect(await statusOf(app, 'POST /login', BOB)).toBe(404)
  })

  test('refuses in the format of all errors', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 1 }] })
    await ask(app, 'POST /login')
    const { body, headers } = await ask(app, 'GET /users')
    expect(body).toEqual({
      message: 'Forbidden',
      resource: 'User',
      code: 403,
      status: false,
      reason: 'blocked',
    })
    expect(headers['cache-control']).toBe('no-store')
    const { body: problem, type } = await ask(app, 'GET /nowhere', ANN, {
      Accept: 'application/problem+json',
    })
    expect(type).toBe('application/problem+json')
    expect(problem).toEqual({
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      detail: 'Forbidden',
      instance: '/nowhere',
      reason: 'blocked',
    })
  })

  test('bans exactly for bantime, which requests during the ban do not prolong', async () => {
    const app = await openWith({ bans: [LOGIN] })
    await statuses(app, 5, 'POST /login')
    app.clock.advance(30 * MINUTE)
    expect(await statuses(app, 10, 'POST /login')).toEqual(Array(10).fill(403))
    app.clock.advance(30 * MINUTE - 1)
    const last = await ask(app, 'POST /login')
    expect([last.status, last.headers['retry-after']]).toEqual([403, '1'])
    app.clock.advance(1)
    expect(await statusOf(app, 'GET /users')).toBe(200)
    expect(await statuses(app, 6, 'POST /login')).toEqual([404, 404, 404, 404, 404, 403])
  })

  test('answers with the rest of a ban in whole seconds, rounded up', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 1 }] })
    await ask(app, 'POST /login')
    app.clock.advance(1)
    expect((await ask(app, 'GET /users')).headers['retry-after']).toBe('3600')
    app.clock.advance(999)
    expect((await ask(app, 'GET /users')).headers['retry-after']).toBe('3599')
  })

  test('counts only matching requests', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 2 }] })
    await statuses(app, 3, 'GET /login')
    await statuses(app, 3, 'POST /users')
    expect(await statuses(app, 3, 'POST /login')).toEqual([404, 404, 403])
  })

  test('lets no more than maxretry pass when many come at once', async () => {
    const app = await openWith({ bans: [LOGIN] })
    const found = await Promise.all(Array.from({ length: 20 }, () => statusOf(app, 'POST /login')))
    expect(found.filter(status => status === 404)).toHaveLength(5)
    expect(found.filter(status => status === 403)).toHaveLength(15)
    expect(linesOf(app, 'client banned')).toHaveLength(1)
  })

  test.each([
    ['the last just within findtime', [0, 30_000, 29_999], 403],
    ['the last as findtime ends', [0, 30_000, 30_000], 200],
    ['a window that begins with the first of them', [0, 59_000, 2_000], 200],
    ['all in one window that began late', [0, 60_000, 1, 1], 403],
  ])('counts within findtime: %s', async (_claim, steps, status) => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 3 }] })
    for (const step of steps) {
      app.clock.advance(step)
      expect(await statusOf(app, 'POST /login')).toBe(404)
    }
    expect(await statusOf(app, 'GET /users')).toBe(status)
  })

  test('clears the count with the ban, also within findtime', async () => {
    const rule = { ...LOGIN, maxretry: 3, findtime: '1 day', bantime: '1 minute' }
    const app = await openWith({ bans: [rule] })
    expect(await statuses(app, 4, 'POST /login')).toEqual([404, 404, 404, 403])
    app.clock.advance(MINUTE)
    expect(await statuses(app, 4, 'POST /login')).toEqual([404, 404, 404, 403])
  })
})

describe('fail2ban', () => {
  test('refuses from the first match, and bans after maxretry', async () => {
    const app = await openWith({ bans: [PROBING] })
    expect(await statuses(app, 2, 'GET /wp-admin/setup')).toEqual([403, 403])
    expect(await statusOf(app, 'GET /users')).toBe(200)
    expect(await statusOf(app, 'GET /etc/passwd')).toBe(403)
    const banned = await ask(app, 'GET /users')
    expect([banned.status, banned.headers['retry-after']]).toEqual([403, '1800'])
    expect(await statusOf(app, 'GET /users', BOB)).toBe(200)
    app.clock.advance(30 * MINUTE - 1)
    expect(await statusOf(app, 'GET /users')).toBe(403)
    app.clock.advance(1)
    expect(await statusOf(app, 'GET /users')).toBe(200)
  })

  test('sends no Retry-After while no ban is in force', async () => {
    const app = await openWith({ bans: [PROBING] })
    const first = await ask(app, 'GET /wp-admin')
    expect(first.status).toBe(403)
    expect(first.headers).not.toHaveProperty('retry-after')
  })

  test('forgets its matches when findtime is over', async () => {
    const app = await openWith({ bans: [PROBING] })
    await statuses(app, 2, 'GET /wp-admin')
    app.clock.advance(10 * MINUTE)
    await statuses(app, 2, 'GET /wp-admin')
    expect(await statusOf(app, 'GET /users')).toBe(200)
    await statuses(app, 1, 'GET /wp-admin')
    expect(await statusOf(app, 'GET /users')).toBe(403)
  })

  test('refuses a match without the key, and bans nobody for it', async () => {
    const app = await openWith({ bans: [{ ...PROBING, by: 'header:X-Api-Key' }] })
    expect(await statuses(app, 4, 'GET /wp-admin')).toEqual([403, 403, 403, 403])
    expect(await statusOf(app, 'GET /users')).toBe(200)
  })
})

describe('who is banned', () => {
  test('every client with the header, from any address', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 2, by: 'header:X-Api-Key' }] })
    await ask(app, 'POST /login', ANN, { 'X-Api-Key': 'one' })
    await ask(app, 'POST /login', BOB, { 'X-Api-Key': 'one' })
    expect(await statusOf(app, 'GET /users', ANN, { 'X-Api-Key': 'one' })).toBe(403)
    expect(await statusOf(app, 'GET /users', '192.0.2.1', { 'x-api-key': 'one' })).toBe(403)
    expect(await statusOf(app, 'GET /users', ANN, { 'X-Api-Key': 'two' })).toBe(200)
    expect(await statusOf(app, 'GET /users', ANN)).toBe(200)
    expect(await statuses(app, 3, 'POST /login')).toEqual([404, 404, 404])
  })

  test('all of an IPv6 /56, and nobody in the next one', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 2 }] })
    await ask(app, 'POST /login', '2001:db8:0:100::1')
    await ask(app, 'POST /login', '2001:db8:0:1ff::2')
    expect(await statusOf(app, 'GET /users', '2001:db8:0:1ab::3')).toBe(403)
    expect(await statusOf(app, 'GET /users', '2001:db8:0:200::1')).toBe(200)
    expect(await statusOf(app, 'GET /users', '2001:db8::1')).toBe(200)
  })

  test('a compound key only as a whole', async () => {
    const app = await openWith({
      bans: [{ ...LOGIN, maxretry: 1, by: ['ip', 'header:X-Api-Key'] }],
    })
    await ask(app, 'POST /login', ANN, { 'X-Api-Key': 'one' })
    expect(await statusOf(app, 'GET /users', ANN, { 'X-Api-Key': 'one' })).toBe(403)
    expect(await statusOf(app, 'GET /users', ANN, { 'X-Api-Key': 'two' })).toBe(200)
    expect(await statusOf(app, 'GET /users', BOB, { 'X-Api-Key': 'one' })).toBe(200)
    expect(await statusOf(app, 'GET /users', ANN)).toBe(200)
  })

  test('not a client that is on the safelist, whose requests are no strikes', async () => {
    const app = await openWith({ safelist: [{ ip: ANN }], bans: [LOGIN] })
    expect(await statuses(app, 7, 'POST /login')).toEqual(Array(7).fill(404))
  })

  test('not on /livez and /readyz, where bans do not apply', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, path: '*', maxretry: 1, method: '*' }] })
    expect(await statuses(app, 3, 'GET /livez')).toEqual([200, 200, 200])
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 403])
    expect(await statusOf(app, 'GET /livez')).toBe(200)
    expect(await statusOf(app, 'GET /readyz')).toBe(200)
  })
})

describe('several rules', () => {
  test('count separately, each with its own maxretry and bantime', async () => {
    const app = await openWith({
      bans: [LOGIN, { ...LOGIN, name: 'strict', maxretry: 2, bantime: 60 }],
    })
    expect(await statuses(app, 3, 'POST /login')).toEqual([404, 404, 403])
    app.clock.advance(59_999)
    expect(await statusOf(app, 'GET /users')).toBe(403)
    app.clock.advance(1)
    expect(await statuses(app, 3, 'POST /login')).toEqual([404, 404, 403])
  })

  test('the same request may be a strike for several, and the last one still counts it', async () => {
    const second = { ...LOGIN, name: 'second', maxretry: 1, bantime: '2 hours' }
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 1 }, second] })
    await ask(app, 'POST /login')
    app.clock.advance(HOUR)
    const answer = await ask(app, 'GET /users')
    expect([answer.status, answer.headers['retry-after']]).toEqual([403, '3600'])
  })

  test('a fail2ban rule that refuses ends the strikes: later rules do not count', async () => {
    const after = { ...LOGIN, name: 'after', path: '/wp-admin', method: '*', maxretry: 1 }
    const app = await openWith({ bans: [PROBING, after] })
    await ask(app, 'GET /wp-admin')
    expect(await statusOf(app, 'GET /users')).toBe(200)
  })

  test('a blocklisted request is no strike', async () => {
    const app = await openWith({
      blocklist: [{ header: { 'X-Bad': '*' } }],
      bans: [{ ...LOGIN, maxretry: 1 }],
    })
    expect(await statusOf(app, 'POST /login', ANN, { 'X-Bad': '1' })).toBe(403)
    expect(await statusOf(app, 'GET /users')).toBe(200)
  })

  test('a banned request is counted by no throttle', async () => {
    const app = await openWith({
      bans: [{ ...LOGIN, maxretry: 1, bantime: 30 }],
      throttle: [{ path: '/users', limit: 1, period: '1 hour' }],
    })
    await ask(app, 'POST /login')
    expect(await statuses(app, 3, 'GET /users')).toEqual([403, 403, 403])
    app.clock.advance(30 * SECOND)
    expect(await statuses(app, 2, 'GET /users')).toEqual([200, 429])
  })
})

describe('the log', () => {
  test('has a line at warn when a ban begins, and its rule and end in the line of each refused request', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 2 }] })
    const banEndsAt = new Date(app.clock.now() + HOUR).toISOString()
    await statuses(app, 1, 'POST /login')
    expect(linesOf(app, 'client banned')).toEqual([])
    await statuses(app, 1, 'POST /login')
    app.clock.advance(MINUTE)
    await ask(app, 'GET /users', ANN, { 'X-Request-Id': 'refused' })
    await ask(app, 'GET /users', BOB, { 'X-Request-Id': 'passed' })
    expect(linesOf(app, 'client banned')).toEqual([
      expect.objectContaining({ level: 40, type: 'ban', rule: 'login', client: ANN, banEndsAt }),
    ])
    expect(await lineOf(app, 'refused')).toMatchObject({
      status: 403,
      type: 'ban',
      rule: 'login',
      banEndsAt,
    })
    expect(await lineOf(app, 'passed')).not.toHaveProperty('rule')
  })

  test('names the rule of a match that fail2ban refuses', async () => {
    const app = await openWith({ bans: [PROBING] })
    await ask(app, 'GET /wp-admin', ANN, { 'X-Request-Id': 'probe' })
    expect(await lineOf(app, 'probe')).toMatchObject({ status: 403, type: 'ban', rule: 'probing' })
  })
})

async function storedBans({ databaseUrl }: TestApp): Promise<number> {
  return (await selectRows(databaseUrl, 'SELECT rule FROM bans')).length
}

describe('restart', () => {
  async function restarted(app: Opened, limits: LimitsFile, env = {}): Promise<Opened> {
    const { databaseUrl, clock } = app
    await app.stop()
    const options = { env: { DATABASE_URL: databaseUrl, ...env }, now: clock.now }
    return { ...(await openWith(limits, options)), clock, databaseUrl }
  }

  test('leaves bans in force until their end', async () => {
    const app = await openWith({ bans: [LOGIN] })
    await statuses(app, 5, 'POST /login')
    app.clock.advance(20 * MINUTE)
    const next = await restarted(app, { bans: [LOGIN] })
    const answer = await ask(next, 'GET /users')
    expect([answer.status, answer.headers['retry-after']]).toEqual([403, '2400'])
    expect(await statusOf(next, 'GET /users', BOB)).toBe(200)
    const afterNext = await restarted(next, { bans: [LOGIN] })
    app.clock.advance(40 * MINUTE - 1)
    expect(await statusOf(afterNext, 'GET /users')).toBe(403)
    app.clock.advance(1)
    expect(await statusOf(afterNext, 'GET /users')).toBe(200)
  })

  test('does not bring back a ban that ended meanwhile', async () => {
    const app = await openWith({ bans: [LOGIN] })
    await statuses(app, 5, 'POST /login')
    app.clock.advance(HOUR)
    expect(await statusOf(await restarted(app, { bans: [LOGIN] }), 'GET /users')).toBe(200)
  })

  test.each<[string, LimitsFile, Record<string, string>, number]>([
    ['the rule is gone', { bans: [] }, {}, 200],
    ['the rule has another name', { bans: [{ ...LOGIN, name: 'other' }] }, {}, 200],
    ['the rule has another bantime', { bans: [{ ...LOGIN, bantime: 1 }] }, {}, 403],
    ['the rule is on trial', { bans: [{ ...LOGIN, dryRun: true }] }, {}, 200],
    ['nothing is counted', { bans: [LOGIN] }, { CACHE_STORE: 'none' }, 200],
  ])('where %s', async (_claim, limits, env, status) => {
    const app = await openWith({ bans: [LOGIN] })
    await statuses(app, 5, 'POST /login')
    expect(await statusOf(await restarted(app, limits, env), 'GET /users')).toBe(status)
  })
})

test('a ban that cannot be saved is still in force, and the log says so', async () => {
  const app = await openWith({ bans: [{ ...LOGIN, maxretry: 1 }] })
  const tables = byEngine({ sqlite: 'bans', postgres: 'bans, ban_changes' })
  await executeSql(app.databaseUrl, `DROP TABLE ${tables}`)
  expect(await statuses(app, 2, 'POST /login')).toEqual([404, 403])
  const message = 'cannot persist a ban'
  const [line] = await until(() => {
    const lines = linesOf(app, message)
    return lines.length > 0 ? lines : undefined
  })
  expect(line).toMatchObject({ level: 50 })
  expect(await statusOf(app, 'GET /users', BOB)).toBe(200)
})

test('bans that cannot be refreshed stay as they were, and the log says so', async () => {
  const app = await openWith({ bans: [{ ...LOGIN, maxretry: 1 }] })
  await statuses(app, 1, 'POST /login')
  await until(async () => (await storedBans(app)) === 1)
  const tables = byEngine({ sqlite: 'bans', postgres: 'bans, ban_changes' })
  await executeSql(app.databaseUrl, `DROP TABLE ${tables}`)
  const message = 'cannot refresh bans, keeping those already loaded'
  await until(() => linesOf(app, message).length > 0)
  expect(linesOf(app, message)).toEqual([expect.objectContaining({ level: 50 })])
  expect(await statusOf(app, 'GET /users')).toBe(403)
})

test.each([
  ['ahead', 24 * HOUR],
  ['back', -24 * HOUR],
])('a clock that is set %s removes no ban from the database', async (_where, byMs) => {
  const [wall, steady] = [createFakeClock(), createFakeClock(5000)]
  const limits = { bans: [{ ...LOGIN, maxretry: 1 }] }
  const env = { TRUST_PROXY: '1' }
  const app = await openTestApp({ limits, env, now: wall.now, monotonicNow: steady.now })
  await ask(app, 'POST /login', ANN)
  await until(async () => (await storedBans(app)) === 1)
  wall.advance(byMs)
  steady.advance(byMs < 0 ? 2 * HOUR : 0)
  await ask(app, 'POST /login', BOB)
  await until(async () => (await storedBans(app)) === 2)
  expect(await statusOf(app, 'GET /users', BOB)).toBe(403)
})

test.each([
  ['of a rule', { bantime: 20 }, 20],
  ['of a rule that got another bantime since', { bantime: '1 minute' }, 20],
])(
  'a ban %s is not prolonged by a restart with the clock an hour back',
  async (_what, now, length) => {
    const clock = createFakeClock()
    const rule = { ...LOGIN, maxretry: 1, bantime: 20 }
    const first = await openWith({ bans: [rule] }, { now: clock.now })
    expect(await statuses(first, 2, 'POST /login')).toEqual([404, 403])
    await first.stop()
    clock.advance(-HOUR + 2 * SECOND)
    const env = { DATABASE_URL: first.databaseUrl }
    const second = await openWith({ bans: [{ ...rule, ...now }] }, { env, now: clock.now })
    const { status, headers } = await ask(second, 'GET /users')
    expect([status, headers['retry-after']]).toEqual([403, String(length)])
    clock.advance(length * SECOND)
    expect(await statusOf(second, 'GET /users')).toBe(200)
  },
)

describe('CACHE_STORE=none', () => {
  test.each<[string, LimitsFile, string, number[]]>([
    ['rateLimits', { rateLimits: [{ to: 1, within: 60 }] }, 'GET /users', [200, 200, 200]],
    ['throttle', { throttle: [{ limit: 1, period: 60 }] }, 'GET /users', [200, 200, 200]],
    ['allow2ban', { bans: [{ ...LOGIN, maxretry: 1 }] }, 'POST /login', [404, 404, 404]],
  ])('leaves %s without effect', async (_kind, limits, line, expected) => {
    const app = await openWith(limits, { env: { CACHE_STORE: 'none' } })
    expect(await statuses(app, 3, line)).toEqual(expected)
    const { headers } = await ask(app, 'GET /users')
    expect(Object.keys(headers).filter(name => name.startsWith('ratelimit'))).toEqual([])
  })

  test('leaves a fail2ban rule its 403 for matching requests, but no ban', async () => {
    const app = await openWith({ bans: [PROBING] }, { env: { CACHE_STORE: 'none' } })
    expect(await statuses(app, 5, 'GET /wp-admin')).toEqual(Array(5).fill(403))
    expect(await statusOf(app, 'GET /users')).toBe(200)
    expect(linesOf(app, 'client banned')).toEqual([])
  })

  test('leaves safelist, blocklist and plain tracks as they are, and limited tracks silent', async () => {
    const app = await openWith(
      {
        safelist: [{ ip: BOB }],
        blocklist: [{ path: '/secret' }],
        track: [
          { name: 'plain', path: '/users' },
          { name: 'limited', path: '/users', limit: 1, period: 60 },
        ],
      },
      { env: { CACHE_STORE: 'none' } },
    )
    expect(await statusOf(app, 'GET /secret', ANN)).toBe(403)
    expect(await statusOf(app, 'GET /secret', BOB)).toBe(404)
    await statuses(app, 3, 'GET /users')
    const tracked = linesOf(app, 'request tracked').map(({ rule }) => rule)
    expect(tracked).toEqual(['plain', 'plain', 'plain'])
  })
})

describe('reload', () => {
  test('keeps bans in force, and strikes counted, while their rule stays', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 2 }] })
    await statuses(app, 1, 'POST /login', BOB)
    await statuses(app, 2, 'POST /login', ANN)
    await app.reloadLimits()
    expect(await statusOf(app, 'GET /users', ANN)).toBe(403)
    expect(await statuses(app, 2, 'POST /login', BOB)).toEqual([404, 403])
  })
})
