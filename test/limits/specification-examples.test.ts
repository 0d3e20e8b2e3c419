import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

type Http = TestApp['http']

type Sender = (http: Http) => PromiseLike<{ readonly status: number }>

async function statusesOf(http: Http, times: number, send: Sender): Promise<number[]> {
  const statuses: number[] = []
  for (let index = 0; index < times; index++) statuses.push((await send(http)).status)
  return statuses
}

const list: Sender = http => http.get('/users')

const create: Sender = http => http.post('/users').send(newUserBody())

/** The same status `count` times. */
function times(count: number, status: number): number[] {
  return Array.from({ length: count }, () => status)
}

/** The notices of a type about requests to this service, from now on. */
function noticesOf(type: string, port: number): Record<string, unknown>[] {
  const notices: Record<string, unknown>[] = []
  const listener = (message: unknown) => {
    const notice = message as { type: string; request: { socket: { localPort?: number } } }
    if (notice.type === type && notice.request.socket.localPort === port) {
      notices.push({ ...notice, request: undefined })
    }
  }
  subscribe('user-records.limits', listener)
  onTestFinished(() => {
    unsubscribe('user-records.limits', listener)
  })
  return notices
}

test('a limit has a count and a window, and counts by the address of the client', async () => {
  const { http } = await openTestApp({
    limits: { rateLimits: [{ to: 2, within: '1 minute' }] },
    now: createFakeClock().now,
    env: { TRUST_PROXY: '1' },
  })
  const from =
    (address: string): Sender =>
    agent =>
      agent.get('/users').set('X-Forwarded-For', address)
  expect(await statusesOf(http, 3, from('203.0.113.7'))).toEqual([200, 200, 429])
  expect(await statusesOf(http, 3, from('203.0.113.8'))).toEqual([200, 200, 429])
  expect(await statusesOf(http, 3, from('2001:db8::1'))).toEqual([200, 200, 429])
})

test('with 5 in 1 minute the first five are 200 and the following ones 429', async () => {
  const clock = createFakeClock()
  const { http } = await openTestApp({
    limits: { rateLimits: [{ to: 5, within: '1 minute' }] },
    now: clock.now,
  })
  expect(await statusesOf(http, 8, list)).toEqual([...times(5, 200), ...times(3, 429)])
  clock.advance(MINUTE_MS - 1)
  expect(await statusesOf(http, 1, list)).toEqual([429])
  clock.advance(1)
  expect(await statusesOf(http, 6, list)).toEqual([...times(5, 200), 429])
})

test('a limit may be for create only, count by domain, and redirect with an alert', async () => {
  const { http } = await openTestApp({
    limits: {
      rateLimits: [
        {
          name: 'sign-ups',
          to: 2,
          within: '1 hour',
          only: ['create'],
          by: 'domain',
          with: { redirect: '/busy', alert: 'Too many signups on domain!' },
        },
      ],
    },
    now: createFakeClock().now,
  })
  const createAt =
    (host: string): Sender =>
    agent =>
      agent.post('/users').redirects(0).set('Host', host).send(newUserBody())
  expect(await statusesOf(http, 2, createAt('a.example.com'))).toEqual([201, 201])
  const refused = await http
    .post('/users')
    .redirects(0)
    .set('Host', 'b.example.com')
    .send(newUserBody())
  expect({ status: refused.status, location: refused.headers.location }).toEqual({
    status: 302,
    location: '/busy',
  })
  expect(refused.body.message).toBe('Too many signups on domain!')
  expect(await statusesOf(http, 2, createAt('example.org'))).toEqual([201, 201])
  const others: readonly Sender[] = [
    agent => agent.get('/users').set('Host', 'a.example.com'),
    agent => agent.get('/users/1').set('Host', 'a.example.com'),
    agent => agent.put('/users/1').set('Host', 'a.example.com').send({ user: {} }),
    agent => agent.delete('/users/4').set('Host', 'a.example.com'),
  ]
  const statuses: number[] = []
  for (const send of others) statuses.push(...(await statusesOf(http, 1, send)))
  expect(statuses).toEqual([200, 200, 200, 204])
})

test('without a store that counts, no limit has any effect', async () => {
  const { http } = await openTestApp({
    limits: {
      rateLimits: [{ to: 1, within: '1 minute' }],
      throttle: [{ limit: 1, period: '1 minute' }],
      bans: [{ maxretry: 1, findtime: '1 minute', bantime: '1 hour' }],
    },
    now: createFakeClock().now,
    env: { CACHE_STORE: 'none' },
  })
  expect(await statusesOf(http, 10, list)).toEqual(times(10, 200))
})

test('safelist, blocklist, throttle and track are asked in this order', async () => {
  const clock = createFakeClock()
  const { http, port } = await openTestApp({
    limits: {
      safelist: [{ name: 'staff', header: { 'X-Staff': '*' } }],
      blocklist: [{ name: 'robots', userAgent: 'Robot*' }],
      throttle: [{ name: 'all', limit: 3, period: '1 minute' }],
      track: [{ name: 'agent', userAgent: 'SpecialAgent', limit: 2, period: '1 minute' }],
    },
    now: clock.now,
  })
  const notices = noticesOf('track', port)
  const robot: Sender = agent => agent.get('/users').set('User-Agent', 'Robot/1')
  const staffRobot: Sender = agent =>
    agent.get('/users').set({ 'User-Agent': 'Robot/1', 'X-Staff': 'yes' })
  const special: Sender = agent => agent.get('/users').set('User-Agent', 'SpecialAgent')
  const staffSpecial: Sender = agent =>
    agent.get('/users').set({ 'User-Agent': 'SpecialAgent', 'X-Staff': 'yes' })

  expect(await statusesOf(http, 5, staffRobot)).toEqual(times(5, 200))
  expect(await statusesOf(http, 5, robot)).toEqual(times(5, 403))
  expect(await statusesOf(http, 5, staffSpecial)).toEqual(times(5, 200))
  // The throttle counted none of those, and lets three pass.
  expect(await statusesOf(http, 2, special)).toEqual([200, 200])
  expect(notices).toEqual([])
  expect(await statusesOf(http, 1, special)).toEqual([200])
  expect(notices).toMatchObject([
    { type: 'track', rule: 'agent', count: 3, limit: 2, period: MINUTE_MS },
  ])
  // The track does not see requests that the throttle refuses.
  expect(await statusesOf(http, 2, special)).toEqual([429, 429])
  expect(notices).toHaveLength(1)
  clock.advance(MINUTE_MS)
  expect(await statusesOf(http, 4, special)).toEqual([200, 200, 200, 429])
  expect(notices).toHaveLength(2)
})

test('the client of 5 log-ins in 1 minute is banned for 1 hour, and that of 3 probes in 10 minutes for 30 minutes', async () => {
  const clock = createFakeClock()
  const { http } = await openTestApp({
    limits: {
      bans: [
        {
          name: 'login',
          method: 'POST',
          path: '/login',
          maxretry: 5,
          findtime: '1 minute',
          bantime: '1 hour',
        },
        {
          name: 'probing',
          path: ['/wp-admin*', '/etc/passwd'],
          maxretry: 3,
          findtime: '10 minutes',
          bantime: '30 minutes',
          mode: 'fail2ban',
        },
      ],
    },
    now: clock.now,
    env: { TRUST_PROXY: '1' },
  })
  const client = (address: string) => {
    const headers = { 'X-Forwarded-For': address }
    return {
      logIn: (agent: Http) => agent.post('/login').set(headers),
      seeLogIn: (agent: Http) => agent.get('/login').set(headers),
      probe: (agent: Http) => agent.get('/wp-admin/setup.php').set(headers),
      probeOther: (agent: Http) => agent.get('//etc/%70asswd').set(headers),
      list: (agent: Http) => agent.get('/users').set(headers),
    }
  }
  const [ann, bob, eve, sam] = ['203.0.113.1', '203.0.113.2', '203.0.113.3', '203.0.113.4'].map(
    client,
  )
  if (!ann || !bob || !eve || !sam) throw new Error('too few clients')

  expect(await statusesOf(http, 5, ann.seeLogIn)).toEqual(times(5, 404))
  expect(await statusesOf(http, 4, ann.logIn)).toEqual(times(4, 404))
  expect(await statusesOf(http, 1, ann.list)).toEqual([200])
  expect(await statusesOf(http, 1, ann.logIn)).toEqual([404])
  expect(await statusesOf(http, 2, ann.logIn)).toEqual([403, 403])
  const banned = await ann.list(http)
  expect({ status: banned.status, retryAfter: banned.headers['retry-after'] }).toEqual({
    status: 403,
    retryAfter: '3600',
  })

  expect(await statusesOf(http, 4, bob.logIn)).toEqual(times(4, 404))
  clock.advance(MINUTE_MS)
  expect(await statusesOf(http, 4, bob.logIn)).toEqual(times(4, 404))
  expect(await statusesOf(http, 1, bob.list)).toEqual([200])

  expect(await statusesOf(http, 2, eve.probe)).toEqual([403, 403])
  expect(await statusesOf(http, 1, eve.list)).toEqual([200])
  expect(await statusesOf(http, 1, eve.probeOther)).toEqual([403])
  expect(await statusesOf(http, 1, eve.list)).toEqual([403])
  expect(await statusesOf(http, 1, sam.list)).toEqual([200])

  clock.advance(30 * MINUTE_MS - 1)
  expect(await statusesOf(http, 1, eve.list)).toEqual([403])
  clock.advance(1)
  expect(await statusesOf(http, 1, eve.list)).toEqual([200])
  expect(await statusesOf(http, 2, eve.probe)).toEqual([403, 403])
  expect(await statusesOf(http, 1, eve.list)).toEqual([200])

  clock.advance(29 * MINUTE_MS - 1)
  expect(await statusesOf(http, 1, ann.list)).toEqual([403])
  clock.advance(1)
  expect(await statusesOf(http, 1, ann.list)).toEqual([200])
})

test('a throttle of 10 POST requests in 1 day lets ten pass, whether they succeed or not', async () => {
  const clock = createFakeClock()
  const { http } = await openTestApp({
    limits: {
      throttle: [
        { name: 'posts', method: 'POST', path: '/posts', limit: 10, period: '1 day' },
        { name: 'users', method: 'POST', path: '/users', limit: 10, period: '1 day' },
      ],
    },
    now: clock.now,
  })
  const post: Sender = agent => agent.post('/posts').send({})
  expect(await statusesOf(http, 12, post)).toEqual([...times(10, 404), 429, 429])
  expect(await statusesOf(http, 12, create)).toEqual([...times(10, 201), 429, 429])
  const { body, headers } = await http.post('/posts').send({})
  expect(body).toEqual({
    message: 'Too many requests, please try again later.',
    resource: 'Request',
    code: 429,
    status: false,
    reason: 'rate_limited',
  })
  expect(headers).toMatchObject({
    'retry-after': '86400',
    ratelimit: '"posts"; r=0; t=86400',
    'ratelimit-policy': expect.stringMatching(/^"posts"; q=10; w=86400; pk=:[\w+/=]+:$/),
  })
  expect(await statusesOf(http, 1, agent => agent.get('/posts'))).toEqual([404])
  expect(await statusesOf(http, 1, list)).toEqual([200])
  clock.advance(DAY_MS - 1)
  expect(await statusesOf(http, 1, post)).toEqual([429])
  clock.advance(1)
  expect(await statusesOf(http, 1, post)).toEqual([404])
})
