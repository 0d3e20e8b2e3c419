import { describe, expect, test } from 'vitest'
import type { BanRule, LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { CHANNEL_NAME, type Notice } from '../../src/limits/rule-in-force.ts'
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
    const mark = { type, rule: 'one', dryRun: true }
    expect(published()).toEqual(notices.map(fields => ({ ...mark, ...fields })))
    const line = await app.lineOf('GET /users')
    if (type === 'track') expect(line).not.toHaveProperty('dryRun')
    else expect(line).toMatchObject({ status: 200, ...mark })
    if (type !== 'throttle' && type !== 'rateLimit') return
    const { requestId } = app.linesOf('request').find(({ rule }) => rule === 'one') ?? {}
    expect(app.linesOf('limit exceeded')).toEqual([
      expect.objectContaining({ level: 40, requestId, ...mark }),
    ])
  })
})

test('the channel is user-records.limits, and its notices have the request', async () => {
  expect(CHANNEL_NAME).toBe('user-records.limits')
  await app.startOver({ safelist: [{ name: 'all' }] })
  const line = await app.lineOf('GET /users/1?a=b')
  expect([line.type, line.rule]).toEqual([undefined, undefined])
  expect(published()).toEqual([{ type: 'safelist', rule: 'all' }])
  const { request } = app.notices[0] as Notice
  expect([request.id, request.method, request.path]).toEqual([line.requestId, 'GET', '/users/1'])
})

test.each([
  ['throttle', { throttle: [{ name: 'one', limit: 1, period: 60 }] }],
  ['rateLimit', { rateLimits: [{ name: 'one', to: 1, within: 60 }] }],
])(
  'a count of a %s over its limit is logged at warn, once a key and window',
  async (type, rules) => {
    const clients = () => app.linesOf('limit exceeded').map(({ client }) => client)
    await app.startOver(rules)
    await app.ask('GET /users')
    expect(clients()).toEqual([])
    await app.statuses(4, 'GET /users')
    await app.statuses(3, 'GET /users', BOB)
    const line = { level: 40, type, rule: 'one', limit: 1, period: MINUTE }
    expect(app.linesOf('limit exceeded')).toMatchObject([line, line])
    app.clock.advance(MINUTE)
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 429, 429])
    expect(clients()).toEqual([ANN, BOB, ANN])
  },
)

describe('a line about a track', () => {
  test('is written at info: for each match without a limit, once a window with one', async () => {
    const limited = { name: 'limited', limit: 2, period: 60 }
    await app.startOver({ track: [{ name: 'plain' }, limited] })
    const written = () => app.linesOf('request tracked').map(line => [line.level, line.rule])
    await app.statuses(5, 'GET /users')
    const plain = [30, 'plain']
    expect(written()).toEqual([plain, plain, plain, [30, 'limited'], plain, plain])
    expect(app.linesOf('request tracked')[0]).toMatchObject({ type: 'track', client: ANN })
    app.clock.advance(MINUTE)
    await app.statuses(4, 'GET /users')
    expect(app.trackedRules().filter(rule => rule === 'limited')).toHaveLength(2)
  })

  const leftOutOf = (rule: string) =>
    app.linesOf('request tracked').flatMap(line => (line.rule === rule ? [line.leftOut] : []))

  test('is written ten times a second for one rule; the next says how many were left out', async () => {
    await app.startOver({ track: [{ name: 'often' }, { name: 'rare', path: '/rare' }] })
    const ten = Array(10).fill(undefined)
    await app.statuses(25, 'GET /users')
    await app.ask('GET /rare')
    expect([leftOutOf('often'), leftOutOf('rare')]).toEqual([ten, [undefined]])
    expect(app.notices).toHaveLength(27)
    app.clock.advance(SECOND - 1)
    await app.ask('GET /users')
    expect(leftOutOf('often')).toEqual(ten)
    app.clock.advance(1)
    await app.statuses(12, 'GET /users')
    expect(leftOutOf('often').slice(10)).toEqual([17, ...ten.slice(1)])
  })
})

test('a ban rule writes ten lines a second, whoever bans and lifts; the next says how many were left out', async () => {
  await app.startOver({ bans: [{ ...LOGIN, maxretry: 1 }] })
  const client = (index: number) => `192.0.2.${index}`
  for (let index = 0; index < 6; index++) {
    await app.ask('GET /login', client(index))
    await app.bans().add({ rule: 'login', client: client(100 + index) })
  }
  expect(await app.bans().lift({ rule: 'login' })).toBe(12)
  const lines = () => app.logLines.filter(({ msg, rule }) => rule === 'login' && msg !== 'request')
  expect(lines()).toHaveLength(10)
  app.clock.advance(SECOND)
  await app.ask('GET /login', client(50))
  expect(lines().at(-1)).toMatchObject({ msg: 'client banned', leftOut: 14 })
})

describe('dryRun', () => {
  const TRIAL = { name: 'trial', dryRun: true }

  test('on a blocklist rule or a throttle leaves the request to all rules after it', async () => {
    await app.startOver({
      blocklist: [TRIAL, { name: 'real', path: '/secret' }],
      throttle: [
        { ...TRIAL, limit: 1, period: 60 },
        { name: 'few', limit: 2, period: 60 },
      ],
      track: [{ name: 'all' }],
    })
    expect(await app.lineOf('GET /secret')).toMatchObject({ status: 403, rule: 'real' })
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    const line = await app.lineOf('GET /users')
    expect(line).toMatchObject({ status: 429, type: 'throttle', rule: 'few' })
    expect(line).not.toHaveProperty('dryRun')
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

  test('on a ban leaves nothing in the line of a request that another rule refuses', async () => {
    const throttle = [{ name: 'real', path: '/users', limit: 1, period: HOUR / 1000 }]
    await app.startOver({ bans: [{ ...LOGIN, dryRun: true }], throttle })
    await app.statuses(2, 'GET /login')
    await app.statusOf('GET /users')
    const line = await app.lineOf('GET /users')
    expect(line).toMatchObject({ status: 429, type: 'throttle', rule: 'real' })
    for (const name of ['dryRun', 'banEndsAt']) expect(line).not.toHaveProperty(name)
  })

  test.each(['allow2ban', 'fail2ban'] as const)(
    'on a ban of %s neither prolongs it nor bans once the rule is in force',
    async mode => {
      const trial: BanRule = { ...LOGIN, mode, dryRun: true }
      await app.startOver({ bans: [trial] })
      await app.statuses(2, 'GET /login')
      app.clock.advance(HOUR / 2)
      expect(await app.statuses(4, 'GET /login')).toEqual(Array(4).fill(404))
      await app.change({ bans: [{ ...LOGIN, mode }] })
      expect(await app.statusOf('GET /users')).toBe(200)
      await app.change({ bans: [trial] })
      app.clock.advance(HOUR / 2)
      expect(await app.lineOf('GET /users')).not.toHaveProperty('rule')
    },
  )
})
