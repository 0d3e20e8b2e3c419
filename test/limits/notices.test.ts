import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { writeFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CHANNEL_NAME, type Notice } from '../../src/limits/notices.ts'
import type { BanRule, LimitsFile } from '../../src/limits/rules/limits-file.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp, type TestAppOptions } from '../support/open-test-app.ts'
import { until } from '../support/until.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const HOUR = 3_600_000

const LOGIN: BanRule = {
  name: 'login',
  path: '/login',
  maxretry: 2,
  findtime: '1 minute',
  bantime: '1 hour',
}

type Headers = Readonly<Record<string, string>>

interface Opened extends TestApp {
  readonly clock: ReturnType<typeof createFakeClock>
  /** Everything that was published about requests of this service. */
  readonly notices: Notice[]
  /** Replaces the rules. */
  change(limits: LimitsFile): Promise<void>
}

async function openWith(limits: LimitsFile, env: TestAppOptions['env'] = {}): Promise<Opened> {
  const clock = createFakeClock()
  const app = await openTestApp({ limits, env: { TRUST_PROXY: '1', ...env }, now: clock.now })
  const notices: Notice[] = []
  const listen = (message: unknown) => {
    const notice = message as Notice
    if (notice.request.socket.localPort === app.port) notices.push(notice)
  }
  subscribe(CHANNEL_NAME, listen)
  onTestFinished(() => {
    unsubscribe(CHANNEL_NAME, listen)
  })
  async function change(changed: LimitsFile) {
    writeFileSync(app.limitsPath, JSON.stringify(changed))
    await app.reloadLimits()
  }
  return {
    ...app,
    clock,
    notices,
    change,
  }
}

function ask(app: TestApp, line: string, headers: Headers = {}) {
  const [method = '', path = ''] = line.split(' ')
  const request = app.http[method.toLowerCase() as 'get'](path)
  return request.set({ 'X-Forwarded-For': ANN, ...headers })
}

async function statuses(app: TestApp, count: number, line: string, headers?: Headers) {
  const found = []
  for (let index = 0; index < count; index++) found.push((await ask(app, line, headers)).status)
  return found
}

let serial = 0

/** The line that a request writes when it is over. */
async function lineOf(app: TestApp, line: string, headers: Headers = {}) {
  const requestId = `request-${++serial}`
  await ask(app, line, { ...headers, 'X-Request-Id': requestId })
  return until(() => linesOf(app, 'request').find(found => found.requestId === requestId))
}

function linesOf(app: TestApp, message: string) {
  return app.logLines.filter(({ msg }) => msg === message)
}

/** The published notices without their requests. */
function published({ notices }: Opened) {
  return notices.map(({ request, ...rest }) =>
    Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
  )
}

describe('the channel', () => {
  test('is user-records.limits, and its notices have the request', async () => {
    expect(CHANNEL_NAME).toBe('user-records.limits')
    const app = await openWith({ blocklist: [{ name: 'all' }] })
    await ask(app, 'GET /users/1?a=b', { 'X-Request-Id': 'the-one' })
    expect(app.notices).toHaveLength(1)
    const { request } = app.notices[0] as Notice
    expect([request.id, request.method, request.path]).toEqual(['the-one', 'GET', '/users/1'])
  })

  test.each<[string, LimitsFile, number, object[]]>([
    ['safelist', { safelist: [{ name: 'one' }] }, 2, [{}, {}]],
    ['blocklist', { blocklist: [{ name: 'one' }] }, 2, [{}, {}]],
    [
      'throttle',
      { throttle: [{ name: 'one', limit: 2, period: '1 minute' }] },
      4,
      [3, 4].map(count => ({ key: ANN, count, limit: 2, period: 60_000 })),
    ],
    [
      'rateLimit',
      { rateLimits: [{ name: 'one', to: 2, within: 30 }] },
      4,
      [3, 4].map(count => ({ key: ANN, count, limit: 2, period: 30_000 })),
    ],
    ['track', { track: [{ name: 'one' }] }, 2, [{}, {}]],
    [
      'track',
      { track: [{ name: 'one', limit: 2, period: '1 day' }] },
      4,
      [3, 4].map(count => ({ key: ANN, count, limit: 2, period: 86_400_000 })),
    ],
    [
      'ban',
      { bans: [{ ...LOGIN, name: 'one', path: '*', mode: 'fail2ban' }] },
      2,
      [1, 2].map(count => ({ key: ANN, count, limit: 2, period: 60_000 })),
    ],
  ])('gets each decision of a %s rule', async (type, limits, requests, expected) => {
    const app = await openWith(limits)
    await statuses(app, requests, 'GET /users')
    expect(published(app)).toEqual(expected.map(fields => ({ type, rule: 'one', ...fields })))
  })

  test('gets a ban when it begins, and each request that it refuses', async () => {
    const app = await openWith({ bans: [LOGIN] })
    await statuses(app, 1, 'GET /login')
    expect(published(app)).toEqual([])
    await statuses(app, 1, 'GET /login')
    const ban = { type: 'ban', rule: 'login', key: ANN, limit: 2, period: 60_000 }
    expect(published(app)).toEqual([{ ...ban, count: 2 }])
    await statuses(app, 2, 'GET /users')
    expect(published(app)).toEqual([{ ...ban, count: 2 }, ban, ban])
  })

  test.each<[string, LimitsFile]>([
    ['safelist', { safelist: [{ path: '/x' }] }],
    ['blocklist', { blocklist: [{ path: '/x' }] }],
    ['bans', { bans: [{ ...LOGIN, path: '/x' }] }],
    ['throttle', { throttle: [{ limit: 2, period: 60 }] }],
    ['track', { track: [{ limit: 2, period: 60 }] }],
    ['rateLimits', { rateLimits: [{ to: 2, within: 60 }] }],
  ])('gets nothing about requests that %s does not decide', async (_kind, limits) => {
    const app = await openWith(limits)
    await statuses(app, 2, 'GET /users')
    expect(published(app)).toEqual([])
  })

  test('has the key that the rule counts by', async () => {
    const app = await openWith({
      throttle: [{ name: 'one', limit: 1, period: 60, by: ['header:X-Key', 'path'] }],
    })
    await statuses(app, 2, 'GET /users', { 'X-Key': 'mine' })
    expect(published(app)).toMatchObject([{ key: '["mine","/users"]' }])
  })
})

describe('the line of a request', () => {
  test.each<[string, LimitsFile, number]>([
    ['blocklist', { blocklist: [{ name: 'one' }] }, 403],
    ['ban', { bans: [{ ...LOGIN, name: 'one', path: '/users', mode: 'fail2ban' }] }, 403],
    ['throttle', { throttle: [{ name: 'one', limit: 1, period: 60 }] }, 429],
    ['rateLimit', { rateLimits: [{ name: 'one', to: 1, within: 60 }] }, 429],
  ])('has type %s and the rule that refused it', async (type, limits, status) => {
    const app = await openWith(limits)
    await ask(app, 'GET /users')
    const line = await lineOf(app, 'GET /users')
    expect(line).toMatchObject({ level: 30, status, type, rule: 'one', client: ANN })
    expect(line).not.toHaveProperty('dryRun')
  })

  test.each<[string, LimitsFile]>([
    ['a throttle lets pass', { throttle: [{ limit: 9, period: 60 }] }],
    ['a safelist lets pass', { safelist: [{}] }],
    ['a route limit lets pass', { rateLimits: [{ to: 9, within: 60 }] }],
    ['is a strike', { bans: [{ ...LOGIN, path: '/users', maxretry: 9 }] }],
  ])('has neither if it %s', async (_claim, limits) => {
    const line = await lineOf(await openWith(limits), 'GET /users')
    expect(line).toMatchObject({ status: 200 })
    expect(line).not.toHaveProperty('rule')
    expect(line).not.toHaveProperty('type')
  })

  test('has no header or query that the rule counts by', async () => {
    const app = await openWith({
      throttle: [{ limit: 1, period: 60, by: ['header:Authorization', 'query:email'] }],
    })
    await statuses(app, 2, 'GET /nowhere?email=ann@example.com', { Authorization: 'Bearer s3cret' })
    await until(() => linesOf(app, 'request').length === 2)
    const text = JSON.stringify(app.logLines)
    expect(text).toContain('limit exceeded')
    expect(text).not.toContain('s3cret')
    expect(text).not.toContain('ann@')
  })
})

describe('a line of its own', () => {
  test.each<[string, LimitsFile]>([
    ['throttle', { throttle: [{ name: 'one', limit: 1, period: 60 }] }],
    ['rateLimit', { rateLimits: [{ name: 'one', to: 1, within: 60 }] }],
  ])('says at warn that a %s is exceeded, once a key and window', async (type, limits) => {
    const app = await openWith(limits)
    const lines = async () => {
      return linesOf(app, 'limit exceeded')
    }
    await statuses(app, 1, 'GET /users')
    expect(await lines()).toEqual([])
    await statuses(app, 4, 'GET /users')
    const line = { level: 40, type, rule: 'one', limit: 1, period: 60_000 }
    expect(await lines()).toEqual([expect.objectContaining({ ...line, client: ANN })])
    await statuses(app, 3, 'GET /users', { 'X-Forwarded-For': BOB })
    expect(await lines()).toHaveLength(2)
    expect((await lines())[1]).toMatchObject({ ...line, client: BOB })
    app.clock.advance(60_000)
    expect(await statuses(app, 3, 'GET /users')).toEqual([200, 429, 429])
    expect(await lines()).toHaveLength(3)
  })

  test.each<[string, LimitsFile, LimitsFile, string]>([
    [
      'throttle',
      { throttle: [{ name: 'one', limit: 9, period: 60 }] },
      { throttle: [{ name: 'one', limit: 2, period: 60 }] },
      'limit exceeded',
    ],
    [
      'rateLimit',
      { rateLimits: [{ name: 'one', to: 9, within: 60 }] },
      { rateLimits: [{ name: 'one', to: 2, within: 60 }] },
      'limit exceeded',
    ],
    [
      'track',
      { track: [{ name: 'one', limit: 9, period: 60 }] },
      { track: [{ name: 'one', limit: 2, period: 60 }] },
      'request tracked',
    ],
  ])(
    'says so about a %s whose limit was lowered below the count',
    async (_type, before, after, message) => {
      const app = await openWith(before)
      await statuses(app, 5, 'GET /users')
      await app.change(after)
      await statuses(app, 3, 'GET /users')
      expect(linesOf(app, message)).toHaveLength(1)
    },
  )

  test('says at info that a track notifies: each match without a limit, once a window with one', async () => {
    const app = await openWith({
      track: [{ name: 'plain' }, { name: 'limited', limit: 2, period: 60 }],
    })
    await statuses(app, 5, 'GET /users')
    const rules = linesOf(app, 'request tracked').map(({ level, type, rule }) => [
      level,
      type,
      rule,
    ])
    const plain = [30, 'track', 'plain']
    expect(rules).toEqual([plain, plain, plain, [30, 'track', 'limited'], plain, plain])
    app.clock.advance(60_000)
    await statuses(app, 2, 'GET /users')
    expect(linesOf(app, 'request tracked').filter(({ rule }) => rule === 'limited')).toHaveLength(1)
    await statuses(app, 2, 'GET /users')
    expect(linesOf(app, 'request tracked').filter(({ rule }) => rule === 'limited')).toHaveLength(2)
  })

  test('is written ten times a second for one rule; the next says how many were left out', async () => {
    const app = await openWith({ track: [{ name: 'one' }, { name: 'rare', path: '/rare' }] })
    const lines = async () => {
      return linesOf(app, 'request tracked').filter(({ rule }) => rule === 'one')
    }
    await statuses(app, 25, 'GET /users')
    expect(await lines()).toHaveLength(10)
    for (const line of await lines()) expect(line).not.toHaveProperty('leftOut')
    expect(app.notices).toHaveLength(25)
    await statuses(app, 1, 'GET /rare')
    expect(linesOf(app, 'request tracked').filter(({ rule }) => rule === 'rare')).toHaveLength(1)
    app.clock.advance(999)
    await statuses(app, 1, 'GET /users')
    expect(await lines()).toHaveLength(10)
    app.clock.advance(1)
    await statuses(app, 2, 'GET /users')
    expect(await lines()).toHaveLength(12)
    expect((await lines())[10]).toMatchObject({ leftOut: 17 })
    expect((await lines())[11]).not.toHaveProperty('leftOut')
  })

  test('is written ten times in any second, and not ten times before and after its end', async () => {
    const app = await openWith({ track: [{ name: 'one' }] })
    await statuses(app, 1, 'GET /users')
    app.clock.advance(900)
    await statuses(app, 12, 'GET /users')
    const written = async () => {
      return linesOf(app, 'request tracked').map(({ leftOut }) => leftOut)
    }
    expect(await written()).toHaveLength(10)
    app.clock.advance(100)
    await statuses(app, 12, 'GET /users')
    expect(await written()).toEqual([...Array(10).fill(undefined), 3])
    app.clock.advance(900)
    await statuses(app, 12, 'GET /users')
    expect((await written()).slice(11)).toEqual([11, ...Array(8).fill(undefined)])
  })

  test('has the number of lines left out over several silent seconds', async () => {
    const app = await openWith({ track: [{ name: 'one' }] })
    await statuses(app, 15, 'GET /users')
    app.clock.advance(60_000)
    await statuses(app, 12, 'GET /users')
    app.clock.advance(1_000)
    await statuses(app, 1, 'GET /users')
    const leftOut = linesOf(app, 'request tracked').map(line => line.leftOut)
    expect(leftOut.filter(count => count !== undefined)).toEqual([5, 2])
  })

  test('is not written ten times for bans of ten clients and more', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, maxretry: 1 }] })
    for (let index = 1; index <= 14; index++) {
      await ask(app, 'GET /login', { 'X-Forwarded-For': `192.0.2.${index}` })
    }
    expect(linesOf(app, 'client banned')).toHaveLength(10)
    app.clock.advance(1_000)
    await ask(app, 'GET /login')
    expect(linesOf(app, 'client banned')[10]).toMatchObject({ client: ANN, leftOut: 4 })
  })
})

describe('dryRun', () => {
  test.each<[string, LimitsFile, object[]]>([
    ['blocklist', { blocklist: [{ name: 'one', dryRun: true }] }, [{}, {}, {}]],
    [
      'ban',
      {
        bans: [
          { ...LOGIN, name: 'one', path: '/users', maxretry: 3, mode: 'fail2ban', dryRun: true },
        ],
      },
      [1, 2, 3].map(count => ({ key: ANN, count, limit: 3, period: 60_000 })),
    ],
    [
      'throttle',
      { throttle: [{ name: 'one', limit: 1, period: 60, dryRun: true }] },
      [2, 3].map(count => ({ key: ANN, count, limit: 1, period: 60_000 })),
    ],
    ['track', { track: [{ name: 'one', dryRun: true }] }, [{}, {}, {}]],
    [
      'track',
      { track: [{ name: 'one', limit: 2, period: 60, dryRun: true }] },
      [{ key: ANN, count: 3, limit: 2, period: 60_000 }],
    ],
    [
      'rateLimit',
      { rateLimits: [{ name: 'one', to: 1, within: 60, dryRun: true }] },
      [2, 3].map(count => ({ key: ANN, count, limit: 1, period: 60_000 })),
    ],
  ])(
    'on a %s rule lets requests pass and publishes what it would have done',
    async (type, limits, expected) => {
      const app = await openWith(limits)
      for (let index = 0; index < 3; index++) {
        const { status, headers } = await ask(app, 'GET /users')
        const ofLimits = Object.keys(headers).filter(name => /^(ratelimit|retry)/.test(name))
        expect([status, ofLimits]).toEqual([200, []])
      }
      expect(published(app)).toEqual(
        expected.map(fields => ({ type, rule: 'one', ...fields, dryRun: true })),
      )
    },
  )

  test.each<[string, LimitsFile]>([
    ['blocklist', { blocklist: [{ name: 'one', dryRun: true }] }],
    ['ban', { bans: [{ ...LOGIN, name: 'one', path: '/users', maxretry: 1, dryRun: true }] }],
    ['throttle', { throttle: [{ name: 'one', limit: 1, period: 60, dryRun: true }] }],
    ['rateLimit', { rateLimits: [{ name: 'one', to: 1, within: 60, dryRun: true }] }],
  ])('on a %s rule marks the line of each request that would be refused', async (type, limits) => {
    const app = await openWith(limits)
    await ask(app, 'GET /users')
    const line = await lineOf(app, 'GET /users')
    expect(line).toMatchObject({ status: 200, type, rule: 'one', dryRun: true })
  })

  test.each<[string, LimitsFile]>([
    ['throttle', { throttle: [{ name: 'one', limit: 1, period: 60, dryRun: true }] }],
    ['rateLimit', { rateLimits: [{ name: 'one', to: 1, within: 60, dryRun: true }] }],
  ])('on a %s rule warns as a rule in force would', async (type, limits) => {
    const app = await openWith(limits)
    await statuses(app, 4, 'GET /users')
    expect(linesOf(app, 'limit exceeded')).toEqual([
      expect.objectContaining({ level: 40, type, rule: 'one', dryRun: true }),
    ])
  })

  test('on a blocklist rule leaves the request to all rules after it', async () => {
    const app = await openWith({
      blocklist: [
        { name: 'trial', dryRun: true },
        { name: 'real', path: '/secret' },
      ],
      throttle: [{ name: 'few', limit: 1, period: 60 }],
    })
    expect(await lineOf(app, 'GET /secret')).toMatchObject({ status: 403, rule: 'real' })
    expect(await statuses(app, 1, 'GET /users')).toEqual([200])
    const line = await lineOf(app, 'GET /users')
    expect(line).toMatchObject({ status: 429, type: 'throttle', rule: 'few' })
    expect(line).not.toHaveProperty('dryRun')
  })

  test('on a throttle leaves the request to throttles and tracks after it', async () => {
    const app = await openWith({
      throttle: [
        { name: 'trial', limit: 1, period: 60, dryRun: true },
        { name: 'real', limit: 2, period: 60 },
      ],
      track: [{ name: 'all' }],
    })
    expect(await statuses(app, 3, 'GET /users')).toEqual([200, 200, 429])
    expect(linesOf(app, 'request tracked')).toHaveLength(2)
  })

  test('on a route limit leaves no item in the headers, beside those of other rules', async () => {
    const app = await openWith({
      rateLimits: [
        { name: 'trial', to: 1, within: 60, dryRun: true },
        { name: 'real', to: 5, within: 60 },
      ],
    })
    await ask(app, 'GET /users')
    const { status, headers } = await ask(app, 'GET /users')
    expect(status).toBe(200)
    expect(headers.ratelimit).toMatch(/^"real"; r=3; t=\d+$/)
    expect(headers['ratelimit-policy']).toMatch(/^"real"; q=5; w=60; pk=[^,]+$/)
    expect(headers).not.toHaveProperty('retry-after')
  })

  test('on a ban warns when it would begin, and adds its end to the line of each request that it would refuse', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, dryRun: true }] })
    const banEndsAt = new Date(app.clock.now() + HOUR).toISOString()
    expect(await statuses(app, 2, 'GET /login')).toEqual([404, 404])
    expect(linesOf(app, 'client banned')).toEqual([
      expect.objectContaining({ level: 40, type: 'ban', rule: 'login', dryRun: true, banEndsAt }),
    ])
    expect(await lineOf(app, 'GET /users')).toMatchObject({ status: 200, dryRun: true, banEndsAt })
    expect(await lineOf(app, 'GET /users', { 'X-Forwarded-For': BOB })).not.toHaveProperty('rule')
    app.clock.advance(HOUR)
    expect(await lineOf(app, 'GET /users')).not.toHaveProperty('rule')
  })

  test.each(['allow2ban', 'fail2ban'] as const)(
    'on a ban of %s does not prolong it by requests that a rule in force would have refused',
    async mode => {
      const app = await openWith({ bans: [{ ...LOGIN, mode, dryRun: true }] })
      await statuses(app, 2, 'GET /login')
      app.clock.advance(HOUR / 2)
      await statuses(app, 4, 'GET /login')
      expect(linesOf(app, 'client banned')).toHaveLength(1)
      app.clock.advance(HOUR / 2)
      expect(await lineOf(app, 'GET /users')).not.toHaveProperty('rule')
    },
  )

  test('on a ban publishes one notice for a request that a rule in force would have refused once', async () => {
    const app = await openWith({ bans: [{ ...LOGIN, mode: 'fail2ban', dryRun: true }] })
    await statuses(app, 3, 'GET /login')
    expect(published(app)).toHaveLength(3)
  })

  test('on a ban leaves the bans of other rules in force', async () => {
    const app = await openWith({
      bans: [
        { ...LOGIN, name: 'trial', maxretry: 1, mode: 'fail2ban', dryRun: true },
        { ...LOGIN, name: 'real', maxretry: 2 },
      ],
    })
    expect(await statuses(app, 3, 'GET /login')).toEqual([404, 404, 403])
    expect(await lineOf(app, 'GET /users')).toMatchObject({ status: 403, rule: 'real' })
  })

  test.each(['allow2ban', 'fail2ban'] as const)(
    'on a ban of %s never becomes a ban once the rule is in force',
    async mode => {
      const rule: BanRule = { ...LOGIN, mode }
      const app = await openWith({ bans: [{ ...rule, dryRun: true }] })
      expect(await statuses(app, 5, 'GET /login')).toEqual(Array(5).fill(404))
      await app.change({ bans: [rule] })
      expect(await statuses(app, 1, 'GET /users')).toEqual([200])
    },
  )

  test('on a rule in force lets a client pass that was banned before', async () => {
    const app = await openWith({ bans: [LOGIN] })
    expect(await statuses(app, 3, 'GET /login')).toEqual([404, 404, 403])
    await app.change({ bans: [{ ...LOGIN, dryRun: true }] })
    expect(await statuses(app, 1, 'GET /users')).toEqual([200])
    await app.change({ bans: [LOGIN] })
    expect(await statuses(app, 1, 'GET /users')).toEqual([403])
  })

  test.each<[string, LimitsFile, LimitsFile]>([
    [
      'throttle',
      { throttle: [{ name: 'one', limit: 2, period: 60, dryRun: true }] },
      { throttle: [{ name: 'one', limit: 2, period: 60 }] },
    ],
    [
      'rateLimit',
      { rateLimits: [{ name: 'one', to: 2, within: 60, dryRun: true }] },
      { rateLimits: [{ name: 'one', to: 2, within: 60 }] },
    ],
  ])(
    'on a %s rule counts, so that the rule in force continues the count',
    async (_type, before, after) => {
      const app = await openWith(before)
      expect(await statuses(app, 3, 'GET /users')).toEqual([200, 200, 200])
      await app.change(after)
      expect(await statuses(app, 1, 'GET /users')).toEqual([429])
    },
  )
})
