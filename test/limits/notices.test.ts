import { describe, expect, test } from 'vitest'
import { CHANNEL_NAME, type Notice } from '../../src/limits/notices.ts'
import type { BanRule, LimitsFile } from '../../src/limits/rules/limits-file.ts'
import { ANN, BOB, DAY, HOUR, MINUTE, SECOND, shareLimitedApp } from '../support/limited-app.ts'

const LOGIN: BanRule = {
  name: 'login',
  path: '/login',
  maxretry: 2,
  findtime: '1 minute',
  bantime: '1 hour',
}

const app = shareLimitedApp()

/** The published notices without their requests. */
function published() {
  return app.notices.map(({ request, ...rest }) =>
    Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
  )
}

/** The notices of counted requests; a request of a banned client has no count. */
function counted(period: number, ...counts: (number | undefined)[]) {
  return counts.map(count => ({ key: ANN, ...(count && { count }), limit: 2, period }))
}

type Kind = [
  type: string,
  key: keyof LimitsFile,
  rule: object,
  /** Of four requests of one client. */
  statuses: readonly number[],
  notices: readonly object[],
]

const EACH = [{}, {}, {}, {}]
const OVER_TWO = [200, 200, 429, 429]
const PROBING = { ...LOGIN, path: '*', mode: 'fail2ban' }

describe.each<Kind>([
  ['blocklist', 'blocklist', {}, [403, 403, 403, 403], EACH],
  ['ban', 'bans', PROBING, [403, 403, 403, 403], counted(MINUTE, 1, 2, undefined, undefined)],
  ['throttle', 'throttle', { limit: 2, period: '1 minute' }, OVER_TWO, counted(MINUTE, 3, 4)],
  ['rateLimit', 'rateLimits', { to: 2, within: 30 }, OVER_TWO, counted(30 * SECOND, 3, 4)],
  ['track', 'track', {}, [200, 200, 200, 200], EACH],
  ['track', 'track', { limit: 2, period: '1 day' }, [200, 200, 200, 200], counted(DAY, 3, 4)],
])('a %s rule: %s %j', (type, key, rule, statuses, notices) => {
  const refuses = type !== 'track'

  test('publishes each decision, and marks the line of each request that it refuses', async () => {
    await app.startOver({ [key]: [{ ...rule, name: 'one' }] })
    for (const status of statuses) {
      const line = await app.lineOf('GET /users')
      expect(line).toMatchObject({ level: 30, status, client: ANN })
      expect(line).not.toHaveProperty('dryRun')
      const [markedType, markedRule] = status === 200 ? [] : [type, 'one']
      expect([line.type, line.rule]).toEqual([markedType, markedRule])
    }
    expect(published()).toEqual(notices.map(fields => ({ type, rule: 'one', ...fields })))
  })

  test('in dry run lets requests pass, and publishes and logs what it would have done', async () => {
    await app.startOver({ [key]: [{ ...rule, name: 'one', dryRun: true }] })
    for (const _ of statuses) {
      const { status, headers } = await app.ask('GET /users')
      const ofLimits = Object.keys(headers).filter(name => /^(ratelimit|retry)/.test(name))
      expect([status, ofLimits]).toEqual([200, []])
    }
    expect(published()).toEqual(
      notices.map(fields => ({ type, rule: 'one', ...fields, dryRun: true })),
    )
    const line = await app.lineOf('GET /users')
    const mark = { type, rule: 'one', dryRun: true }
    if (refuses) expect(line).toMatchObject({ status: 200, ...mark })
    else expect(line).not.toHaveProperty('dryRun')
    if (type !== 'throttle' && type !== 'rateLimit') return
    expect(app.linesOf('limit exceeded')).toEqual([expect.objectContaining({ level: 40, ...mark })])
  })
})

describe('the channel', () => {
  test('is user-records.limits, and its notices have the request', async () => {
    expect(CHANNEL_NAME).toBe('user-records.limits')
    await app.startOver({ safelist: [{ name: 'all' }] })
    const line = await app.lineOf('GET /users/1?a=b')
    expect([line.type, line.rule]).toEqual([undefined, undefined])
    expect(published()).toEqual([{ type: 'safelist', rule: 'all' }])
    const { request } = app.notices[0] as Notice
    expect([request.id, request.method, request.path]).toEqual([line.requestId, 'GET', '/users/1'])
  })

  test('gets a ban when it begins, and each request that it refuses, but no strike before', async () => {
    await app.startOver({ bans: [LOGIN] })
    const strike = await app.lineOf('GET /login')
    expect([strike.type, strike.rule]).toEqual([undefined, undefined])
    expect(published()).toEqual([])
    await app.ask('GET /login')
    const ban = { type: 'ban', rule: 'login', key: ANN, limit: 2, period: MINUTE }
    expect(published()).toEqual([{ ...ban, count: 2 }])
    await app.statuses(2, 'GET /users')
    expect(published()).toEqual([{ ...ban, count: 2 }, ban, ban])
  })

  test('gets nothing about requests that no rule decides, and neither does the log', async () => {
    await app.startOver({
      safelist: [{ path: '/x' }],
      blocklist: [{ path: '/x' }],
      bans: [{ ...LOGIN, path: '/x' }],
      throttle: [{ limit: 2, period: 60 }],
      track: [{ limit: 2, period: 60 }],
      rateLimits: [{ to: 2, within: 60 }],
    })
    for (const _ of [1, 2]) {
      const { status, type, rule } = await app.lineOf('GET /users')
      expect([status, type, rule]).toEqual([200, undefined, undefined])
    }
    expect(published()).toEqual([])
  })

  test('has the key that the rule counts by, which the log has not', async () => {
    const by = ['header:Authorization', 'query:email', 'path'] as const
    await app.startOver({ throttle: [{ limit: 1, period: 60, by }] })
    for (const _ of [1, 2]) {
      await app.lineOf('GET /nowhere?email=ann@example.com', { Authorization: 'Bearer s3cret' })
    }
    expect(published()).toMatchObject([{ key: expect.stringContaining('"ann@example.com","/n') }])
    const text = JSON.stringify(app.logLines)
    expect(text).toContain('limit exceeded')
    expect(text).not.toContain('s3cret')
    expect(text).not.toContain('ann@')
  })
})

const COUNTING: readonly [type: string, rules: (limit: number, fields?: object) => LimitsFile][] = [
  ['throttle', (limit, fields) => ({ throttle: [{ name: 'one', limit, period: 60, ...fields }] })],
  ['rateLimit', (to, fields) => ({ rateLimits: [{ name: 'one', to, within: 60, ...fields }] })],
]

describe.each(COUNTING)('the count of a %s', (type, rules) => {
  const exceeded = () => app.linesOf('limit exceeded')

  test('is logged at warn when it exceeds the limit, once a key and window', async () => {
    await app.startOver(rules(1))
    await app.ask('GET /users')
    expect(exceeded()).toEqual([])
    await app.statuses(4, 'GET /users')
    const line = { level: 40, type, rule: 'one', limit: 1, period: MINUTE }
    expect(exceeded()).toEqual([expect.objectContaining({ ...line, client: ANN })])
    await app.statuses(3, 'GET /users', BOB)
    expect(exceeded()).toHaveLength(2)
    expect(exceeded()[1]).toMatchObject({ ...line, client: BOB })
    app.clock.advance(MINUTE)
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 429, 429])
    expect(exceeded()).toHaveLength(3)
  })

  test('is logged once too if the limit was lowered below it', async () => {
    await app.startOver(rules(9))
    await app.statuses(5, 'GET /users')
    await app.change(rules(2))
    await app.statuses(3, 'GET /users')
    expect(exceeded()).toHaveLength(1)
  })

  test('in dry run goes on when the rule comes into force', async () => {
    await app.startOver(rules(2, { dryRun: true }))
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 200])
    await app.change(rules(2))
    expect(await app.statusOf('GET /users')).toBe(429)
  })
})

describe('a line about a track', () => {
  test('is written at info: for each match without a limit, once a window with one', async () => {
    const limited = { name: 'limited', limit: 2, period: 60 }
    await app.startOver({ track: [{ name: 'plain' }, limited] })
    const written = () => app.linesOf('request tracked').map(line => [line.level, line.rule])
    await app.statuses(5, 'GET /users')
    const plain = [30, 'plain']
    expect(written()).toEqual([plain, plain, plain, [30, 'limited'], plain, plain])
    expect(app.linesOf('request tracked')[0]).toMatchObject({ type: 'track', client: ANN })
    const timesLimited = () => app.trackedRules().filter(rule => rule === 'limited').length
    app.clock.advance(MINUTE)
    await app.statuses(2, 'GET /users')
    expect(timesLimited()).toBe(1)
    await app.statuses(2, 'GET /users')
    expect(timesLimited()).toBe(2)
    await app.change({ track: [{ ...limited, limit: 9 }] })
    app.clock.advance(MINUTE)
    await app.statuses(5, 'GET /users')
    await app.change({ track: [limited] })
    await app.statuses(3, 'GET /users')
    expect(timesLimited()).toBe(3)
  })

  const leftOutOf = (rule: string) =>
    app.linesOf('request tracked').flatMap(line => (line.rule === rule ? [line.leftOut] : []))

  test('is written ten times a second for one rule; the next says how many were left out', async () => {
    await app.startOver({ track: [{ name: 'often' }, { name: 'rare', path: '/rare' }] })
    const ten = Array(10).fill(undefined)
    await app.statuses(25, 'GET /users')
    expect(leftOutOf('often')).toEqual(ten)
    expect(app.notices).toHaveLength(25)
    await app.ask('GET /rare')
    expect(leftOutOf('rare')).toEqual([undefined])
    app.clock.advance(SECOND - 1)
    await app.ask('GET /users')
    expect(leftOutOf('often')).toEqual(ten)
    app.clock.advance(1)
    await app.statuses(12, 'GET /users')
    expect(leftOutOf('often').slice(10)).toEqual([17, ...ten.slice(1)])
    app.clock.advance(MINUTE)
    await app.ask('GET /users')
    expect(leftOutOf('often').slice(20)).toEqual([2])
  })

  test('is written ten times in any second, and not ten times before and after its end', async () => {
    await app.startOver({ track: [{ name: 'always' }] })
    await app.ask('GET /users')
    app.clock.advance(900)
    await app.statuses(12, 'GET /users')
    expect(leftOutOf('always')).toHaveLength(10)
    app.clock.advance(100)
    await app.statuses(12, 'GET /users')
    expect(leftOutOf('always')).toEqual([...Array(10).fill(undefined), 3])
    app.clock.advance(900)
    await app.statuses(12, 'GET /users')
    expect(leftOutOf('always').slice(11)).toEqual([11, ...Array(8).fill(undefined)])
  })
})

test('a line about a ban is not written ten times for bans of ten clients and more', async () => {
  await app.startOver({ bans: [{ ...LOGIN, name: 'many', maxretry: 1 }] })
  for (let index = 1; index <= 14; index++) await app.ask('GET /login', `192.0.2.${index}`)
  expect(app.linesOf('client banned')).toHaveLength(10)
  app.clock.advance(SECOND)
  await app.ask('GET /login')
  expect(app.linesOf('client banned')[10]).toMatchObject({ client: ANN, leftOut: 4 })
})

describe('dryRun', () => {
  const TRIAL = { name: 'trial', dryRun: true }

  test('on a blocklist rule leaves the request to all rules after it', async () => {
    await app.startOver({
      blocklist: [TRIAL, { name: 'real', path: '/secret' }],
      throttle: [{ name: 'few', limit: 1, period: 60 }],
    })
    expect(await app.lineOf('GET /secret')).toMatchObject({ status: 403, rule: 'real' })
    expect(await app.statusOf('GET /users')).toBe(200)
    const line = await app.lineOf('GET /users')
    expect(line).toMatchObject({ status: 429, type: 'throttle', rule: 'few' })
    expect(line).not.toHaveProperty('dryRun')
  })

  test('on a throttle leaves the request to throttles and tracks after it', async () => {
    await app.startOver({
      throttle: [
        { ...TRIAL, limit: 1, period: 60 },
        { name: 'real', limit: 2, period: 60 },
      ],
      track: [{ name: 'all' }],
    })
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 429])
    expect(app.trackedRules()).toEqual(['all', 'all'])
  })

  test('on a route limit leaves no item in the headers, beside those of other rules', async () => {
    await app.startOver({
      rateLimits: [
        { ...TRIAL, to: 1, within: 60 },
        { name: 'real', to: 5, within: 60 },
      ],
    })
    await app.ask('GET /users')
    const { status, headers } = await app.ask('GET /users')
    expect([status, headers.ratelimit]).toEqual([200, '"real"; r=3; t=60'])
    expect(headers['ratelimit-policy']).toMatch(/^"real"; q=5; w=60; pk=[^,]+$/)
    expect(headers).not.toHaveProperty('retry-after')
  })

  test('on a ban warns when it would begin, and adds its end to the line of each request that it would refuse', async () => {
    await app.startOver({ bans: [{ ...LOGIN, dryRun: true }] })
    const banEndsAt = new Date(app.clock.now() + HOUR).toISOString()
    expect(await app.statuses(2, 'GET /login')).toEqual([404, 404])
    expect(app.linesOf('client banned')).toEqual([
      expect.objectContaining({ level: 40, type: 'ban', rule: 'login', dryRun: true, banEndsAt }),
    ])
    const line = await app.lineOf('GET /users')
    expect(line).toMatchObject({ status: 200, dryRun: true, banEndsAt })
    expect(await app.lineOf('GET /users', BOB)).not.toHaveProperty('rule')
    app.clock.advance(HOUR)
    expect(await app.lineOf('GET /users')).not.toHaveProperty('rule')
  })

  test.each(['allow2ban', 'fail2ban'] as const)(
    'on a ban of %s neither prolongs it nor bans once the rule is in force',
    async mode => {
      const rule: BanRule = { ...LOGIN, mode }
      await app.startOver({ bans: [{ ...rule, dryRun: true }] })
      await app.statuses(2, 'GET /login')
      app.clock.advance(HOUR / 2)
      expect(await app.statuses(4, 'GET /login')).toEqual(Array(4).fill(404))
      expect(app.linesOf('client banned')).toHaveLength(1)
      await app.change({ bans: [rule] })
      expect(await app.statusOf('GET /users')).toBe(200)
      await app.change({ bans: [{ ...rule, dryRun: true }] })
      app.clock.advance(HOUR / 2)
      expect(await app.lineOf('GET /users')).not.toHaveProperty('rule')
    },
  )

  test('on a ban leaves the bans of other rules in force', async () => {
    await app.startOver({
      bans: [
        { ...LOGIN, ...TRIAL, maxretry: 1, mode: 'fail2ban' },
        { ...LOGIN, name: 'real', maxretry: 2 },
      ],
    })
    expect(await app.statuses(3, 'GET /login')).toEqual([404, 404, 403])
    expect(await app.lineOf('GET /users')).toMatchObject({ status: 403, rule: 'real' })
  })

  test('on a rule in force lets a client pass that was banned before', async () => {
    await app.startOver({ bans: [LOGIN] })
    expect(await app.statuses(3, 'GET /login')).toEqual([404, 404, 403])
    await app.change({ bans: [{ ...LOGIN, dryRun: true }] })
    expect(await app.statusOf('GET /users')).toBe(200)
    await app.change({ bans: [LOGIN] })
    expect(await app.statusOf('GET /users')).toBe(403)
  })
})
