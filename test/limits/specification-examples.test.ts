import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { DAY, type From, HOUR, MINUTE, shareLimitedApp } from '../support/limited-app.ts'

const app = shareLimitedApp()

/** The same status `count` times. */
function times(count: number, status: number): number[] {
  return Array(count).fill(status)
}

/** The statuses of `POST /users`, one after the other. */
async function statusesOfCreates(count: number, from?: From): Promise<number[]> {
  const statuses = []
  for (let index = 0; index < count; index++) {
    statuses.push((await app.ask('POST /users', from).send(newUserBody())).status)
  }
  return statuses
}

test('with 5 in 1 minute the first five are 200 and the following ones 429', async () => {
  await app.startOver({ rateLimits: [{ to: 5, within: '1 minute' }] })
  expect(await app.statuses(8, 'GET /users')).toEqual([...times(5, 200), ...times(3, 429)])
  app.clock.advance(MINUTE - 1)
  expect(await app.statusOf('GET /users')).toBe(429)
  app.clock.advance(1)
  expect(await app.statuses(6, 'GET /users')).toEqual([...times(5, 200), 429])
})

test('a limit may be for create only, count by domain, and redirect with an alert', async () => {
  const alert = 'Too many signups on domain!'
  await app.startOver({
    rateLimits: [
      {
        ...{ name: 'sign-ups', to: 2, within: '1 hour', only: ['create'], by: 'domain' },
        with: { redirect: '/busy', alert },
      },
    ],
  })
  const host = { Host: 'a.example.com' }
  expect(await statusesOfCreates(2, host)).toEqual([201, 201])
  const sibling = { Host: 'b.example.com' }
  const { status, headers, body } = await app.ask('POST /users', sibling).send(newUserBody())
  expect([status, headers.location, body.message]).toEqual([302, '/busy', alert])
  expect(await statusesOfCreates(2, { Host: 'example.org' })).toEqual([201, 201])
  expect(await app.statusOf('GET /users', host)).toBe(200)
  expect(await app.statusOf('GET /users/1', host)).toBe(200)
  expect((await app.ask('PUT /users/1', host).send({ user: {} })).status).toBe(200)
  expect(await app.statusOf('DELETE /users/1', host)).toBe(204)
})

test('safelist, blocklist, throttle and track are asked in this order', async () => {
  await app.startOver({
    safelist: [{ name: 'staff', header: { 'X-Staff': '*' } }],
    blocklist: [{ name: 'robots', userAgent: 'Robot*' }],
    throttle: [{ name: 'all', limit: 3, period: '1 minute' }],
    track: [{ name: 'agent', userAgent: 'SpecialAgent', limit: 2, period: '1 minute' }],
  })
  const robot = { 'User-Agent': 'Robot/1' }
  const special = { 'User-Agent': 'SpecialAgent' }
  const staff = { 'X-Staff': 'yes' }
  const tracked = () => app.notices.filter(({ type }) => type === 'track')

  expect(await app.statuses(5, 'GET /users', { ...robot, ...staff })).toEqual(times(5, 200))
  expect(await app.statuses(5, 'GET /users', robot)).toEqual(times(5, 403))
  expect(await app.statuses(5, 'GET /users', { ...special, ...staff })).toEqual(times(5, 200))
  // The throttle counted none of those, and lets three pass.
  expect(await app.statuses(2, 'GET /users', special)).toEqual([200, 200])
  expect(tracked()).toEqual([])
  expect(await app.statusOf('GET /users', special)).toBe(200)
  expect(tracked()).toMatchObject([{ rule: 'agent', count: 3, limit: 2, period: MINUTE }])
  // The track does not see requests that the throttle refuses.
  expect(await app.statuses(2, 'GET /users', special)).toEqual([429, 429])
  expect(tracked()).toHaveLength(1)
  app.clock.advance(MINUTE)
  expect(await app.statuses(4, 'GET /users', special)).toEqual([200, 200, 200, 429])
  expect(tracked()).toHaveLength(2)
})

test('the client of 5 log-ins in 1 minute is banned for 1 hour', async () => {
  const period = { findtime: '1 minute', bantime: '1 hour' }
  await app.startOver({
    bans: [{ name: 'login', method: 'POST', path: '/login', maxretry: 5, ...period }],
  })
  const [ann, bob] = ['203.0.113.1', '203.0.113.2']
  expect(await app.statuses(5, 'GET /login', ann)).toEqual(times(5, 404))
  expect(await app.statuses(4, 'POST /login', ann)).toEqual(times(4, 404))
  expect(await app.statusOf('GET /users', ann)).toBe(200)
  expect(await app.statuses(3, 'POST /login', ann)).toEqual([404, 403, 403])
  const { status, headers } = await app.ask('GET /users', ann)
  expect([status, headers['retry-after']]).toEqual([403, '3600'])

  expect(await app.statuses(4, 'POST /login', bob)).toEqual(times(4, 404))
  app.clock.advance(MINUTE)
  expect(await app.statuses(4, 'POST /login', bob)).toEqual(times(4, 404))
  expect(await app.statusOf('GET /users', bob)).toBe(200)

  app.clock.advance(HOUR - MINUTE - 1)
  expect(await app.statusOf('GET /users', ann)).toBe(403)
  app.clock.advance(1)
  expect(await app.statusOf('GET /users', ann)).toBe(200)
})

test('the client of 3 probes in 10 minutes is banned for 30 minutes, and no probe is answered', async () => {
  await app.startOver({
    bans: [
      {
        name: 'probing',
        path: ['/wp-admin*', '/etc/passwd'],
        ...{ maxretry: 3, findtime: '10 minutes', bantime: '30 minutes', mode: 'fail2ban' },
      },
    ],
  })
  const [eve, sam] = ['203.0.113.3', '203.0.113.4']
  for (const _ of ['before the ban', 'after the ban']) {
    expect(await app.statuses(2, 'GET /wp-admin/setup.php', eve)).toEqual([403, 403])
    expect(await app.statusOf('GET /users', eve)).toBe(200)
    expect(await app.statusOf('GET //etc/%70asswd', eve)).toBe(403)
    expect(await app.statusOf('GET /users', eve)).toBe(403)
    expect(await app.statusOf('GET /users', sam)).toBe(200)
    app.clock.advance(30 * MINUTE - 1)
    expect(await app.statusOf('GET /users', eve)).toBe(403)
    app.clock.advance(1)
    expect(await app.statusOf('GET /users', eve)).toBe(200)
  }
})

test('a throttle of 10 POST requests in 1 day lets ten pass, whether they succeed or not', async () => {
  const ten = { method: 'POST', limit: 10, period: '1 day' }
  await app.startOver({
    throttle: [
      { ...ten, name: 'posts', path: '/posts' },
      { ...ten, name: 'users', path: '/users' },
    ],
  })
  expect(await app.statuses(12, 'POST /posts')).toEqual([...times(10, 404), 429, 429])
  expect(await statusesOfCreates(12)).toEqual([...times(10, 201), 429, 429])
  const { body, headers } = await app.ask('POST /posts')
  expect(body).toEqual({
    message: 'Too many requests, please try again later.',
    resource: 'Request',
    code: 429,
    status: false,
    reason: 'rate_limited',
  })
  expect(headers).toMatchObject({
    'content-type': expect.stringMatching(/^application\/json/),
    'retry-after': '86400',
    ratelimit: '"posts"; r=0; t=86400',
    'ratelimit-policy': expect.stringMatching(/^"posts"; q=10; w=86400; pk=:[\w+/=]+:$/),
  })
  expect(await app.statusOf('GET /posts')).toBe(404)
  expect(await app.statusOf('GET /users')).toBe(200)
  app.clock.advance(DAY - 1)
  expect(await app.statusOf('POST /posts')).toBe(429)
  app.clock.advance(1)
  expect(await app.statusOf('POST /posts')).toBe(404)
})
