import { describe, expect, test } from 'vitest'
import { openLimitedApp, shareLimitedApp } from '../support/limited-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const app = shareLimitedApp()

const failures = () => app.linesOf('rule function failed, request allowed')

/** How many requests each rule has counted, let pass and refused. */
const numbers = () =>
  app
    .limitsReport()
    .rules.map(({ counted, passed, refused }) => `${counted}, ${passed}, ${refused}`)

test('functions of a route limit take count, window and key from each request', async () => {
  await app.startOver(`{ rateLimits: [{
    name: 'by plan',
    to: request => request.get('x-plan') === 'gold' ? 3 : 1,
    within: request => request.get('x-plan') === 'gold' ? '10 seconds' : 60,
    by: request => request.get('x-client'),
  }] }`)
  const gold = { 'X-Plan': 'gold', 'X-Client': 'ann' }
  const plain = { 'X-Client': 'bob' }
  expect(await app.statuses(4, 'GET /users', gold)).toEqual([200, 200, 200, 429])
  expect(await app.statuses(2, 'GET /users', plain)).toEqual([200, 429])
  for (const [from, policy] of [
    [gold, /^"by plan"; q=3; w=10;/],
    [plain, /^"by plan"; q=1; w=60;/],
  ] as const) {
    expect((await app.ask('GET /users', from)).headers['ratelimit-policy']).toMatch(policy)
  }
  app.clock.advance(10_000)
  expect(await app.statusOf('GET /users', gold)).toBe(200)
  expect(await app.statusOf('GET /users', plain)).toBe(429)
  const { status, headers } = await app.ask('GET /users')
  expect([status, headers.ratelimit]).toEqual([200, undefined])
})

const BOOM = `throw new Error('boom')`

// A promise that rejects must be handled too: otherwise it would end the process.
test.each([
  ...[`to: () => { ${BOOM} }`, 'to: async () => 1', `to: async () => { ${BOOM} }`],
  ...[`to: () => '1'`, 'to: () => NaN', 'to: () => {}', 'to: () => 0', 'to: () => 1.5'],
  ...[`within: () => 'soon'`, `within: async () => { ${BOOM} }`, 'within: () => 0'],
  ...['by: () => { throw undefined }', `by: async () => { ${BOOM} }`, 'by: () => ({})'],
  `by: ['ip', () => { ${BOOM} }]`,
])('a route limit with %s lets requests pass, counts nothing and logs an error', async code => {
  await app.startOver(`{ rateLimits: [{ name: 'faulty', to: 1, within: 60, ${code} }] }`)
  for (let index = 0; index < 3; index++) {
    const { status, headers } = await app.ask('GET /users')
    expect([status, Object.keys(headers).join()]).toEqual([200, expect.not.stringMatching('rate')])
  }
  const line = { level: 50, type: 'rateLimit', rule: 'faulty' }
  expect(failures()).toMatchObject([line, line, line])
  expect(numbers()).toEqual(['0, 0, 0'])
})

test('a filter rule whose function throws counts nothing', async () => {
  await app.startOver(`{
    blocklist: [{ name: 'matching', match: () => { ${BOOM} } }],
    throttle: [{ name: 'keyed', limit: 1, period: 60, by: () => { ${BOOM} } }],
  }`)
  expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 200])
  expect(numbers()).toEqual(['0, 0, 0', '0, 0, 0'])
})

test.each(['allow2ban', 'fail2ban'])(
  'a %s rule whose key throws lets requests pass',
  async mode => {
    await app.startOver(`{
    bans: [{ name: 'keyed', mode: '${mode}', maxretry: 1, findtime: 60, bantime: 60, by: () => { ${BOOM} } }],
  }`)
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    expect(failures()).toMatchObject([{ type: 'ban', rule: 'keyed' }, { rule: 'keyed' }])
    expect(numbers()).toEqual(['0, 0, 0'])
  },
)

describe.each([
  ['throttle', 'throttle', 'limit', 'period'],
  ['rateLimits', 'rateLimit', 'to', 'within'],
])('with on %s', (kind, type, limit, period) => {
  /** A rule that allows one request, and answers others by this code; and one that allows two. */
  function useAnswer(code: string): Promise<void> {
    return app.startOver(`{ ${kind}: [
      { name: 'first', ${limit}: 1, ${period}: 60, with: ${code} },
      { name: 'second', ${limit}: 2, ${period}: 60 },
    ] }`)
  }

  const TEA = 'response.status(418).json({ tea: true })'

  test.each([
    [418, `async (request, response) => { await new Promise(setImmediate); ${TEA} }`],
    [418, `(request, response, next) => { ${TEA}; next() }`],
    [418, `(request, response) => { ${TEA}; ${BOOM} }`],
    [418, `(request, response) => { ${TEA}; response.setHeader('X-Own', '1') }`],
    [418, `(request, response) => { ${TEA}; response.write('more') }`],
    [500, '(request, response, next) => next(new Error("no"))'],
  ])('that answers %i denies the request: %s', async (denied, code) => {
    await useAnswer(code)
    expect(await app.statuses(2, 'GET /users')).toEqual([200, denied])
    const { status, body, headers } = await app.ask('GET /users')
    expect(status).toBe(denied)
    if (denied === 418) expect(body).toEqual({ tea: true })
    expect(headers.ratelimit).toBe('"first"; r=0; t=60')
    expect(numbers()).toEqual(['3, 1, 2', '1, 1, 0'])
    expect(await app.lineOf('GET /users')).toMatchObject({ status: denied, type, rule: 'first' })
  })

  test.each([
    ['(request, response, next) => next()', 0],
    [`(request, response, next) => next('router')`, 0],
    ['(request, response, next) => { setTimeout(next, 1) }', 0],
    ['(request, response, next) => { next(); next() }', 0],
    [`() => { ${BOOM} }`, 2],
    [`async () => { ${BOOM} }`, 2],
    ['(request, response) => { response.end({}) }', 2],
    ['(request, response) => { response.statusCode = 9999; response.end() }', 2],
  ])('of %s lets the request pass to the next rule', async (code, failed) => {
    await useAnswer(code)
    await app.ask('GET /users')
    const passed = await app.ask('GET /users')
    expect(passed).toMatchObject({ status: 200, body: [] })
    expect(passed.headers).not.toHaveProperty('retry-after')
    if (kind === 'throttle') expect(passed.headers).not.toHaveProperty('ratelimit')
    const line = { status: 429, rule: 'second', reason: 'rate_limited' }
    expect(await app.lineOf('GET /users')).toMatchObject(line)
    expect(numbers()).toEqual(['3, 3, 0', '3, 2, 1'])
    const requests = await until(() => {
      const found = app.linesOf('request')
      return found.length === 3 && found
    })
    expect(requests.map(({ rule }) => rule)).toEqual([undefined, undefined, 'second'])
    expect(failures()).toHaveLength(failed)
  })

  test.each([
    ['throws', BOOM, 1],
    ['ends with an object', 'response.end({})', 1],
    ['calls next', 'setTimeout(next, 1)', 0],
    ['calls next with an error', `setTimeout(() => next(new Error('boom')), 1)`, 1],
  ])(
    'that began to answer and then %s ends the connection, and no other request',
    async (_what, then, failed) => {
      await useAnswer(
        `(request, response, next) => { response.status(429).write('half'); ${then} }`,
      )
      await app.ask('GET /users')
      await expect(app.ask('GET /users')).rejects.toThrow()
      expect(failures()).toHaveLength(failed)
      await app.http.get('/livez').expect(200)
    },
  )
})

test.each([
  ['/users?k=a&k=b%20c&other=1', ['a', 'b c']],
  ['/users?k', ['']],
  ['/users?k=%zz&__proto__=x', ['%zz']],
])('a function of a rule finds the query of %s in request.query', async (path, values) => {
  await app.startOver(`{
    throttle: [{ limit: 1, period: 60, by: () => 'all', with: (request, response) => {
      response.status(429).json([request.query.k].flat().map(String))
    } }],
  }`)
  await app.ask(`GET ${path}`)
  await app.ask(`GET ${path}`).expect(429, values)
})

test('a function of a route limit finds what express-rate-limit knows in request.rateLimit', async () => {
  await app.startOver(`{
    rateLimits: [{ to: 1, within: 60, by: () => 'all', with: (request, response) => {
      response.status(429).json(request.rateLimit)
    } }],
  }`)
  await app.ask('GET /users')
  const resetTime = new Date(app.clock.now() + 60_000).toISOString()
  const known = { limit: 1, used: 2, remaining: 0, resetTime, key: 'all' }
  await app.ask('GET /users').expect(429, known)
})

test('a ban by a key with half of a character survives a restart', async () => {
  const limits = `{
    bans: [{ name: 'half', path: '/a', by: () => 'x\\udc00', maxretry: 1, findtime: 60, bantime: 60 }],
  }`
  const first = await openLimitedApp(limits)
  await first.http.get('/a').expect(404)
  await first.http.get('/users').expect(403)
  await first.stop()
  const env = { DATABASE_URL: first.databaseUrl }
  const second = await openLimitedApp(limits, { env, now: first.clock.now })
  await second.http.get('/users').expect(403)
})

test('a request whose client leaves before the function lets it pass counts as refused only', async () => {
  await app.startOver(`{ rateLimits: [{ to: 1, within: 60, by: () => 'all', with: (request, response, next) => {
    response.once('close', () => setImmediate(next))
  } }] }`)
  await app.ask('GET /users')
  const { socket } = sendRaw(app.port, 'GET /users HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => numbers()[0] === '2, 1, 0')
  // A client that only ends its side may wait for the answer.
  socket.resetAndDestroy()
  await until(() => app.linesOf('request').length === 2)
  await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
  expect(numbers()).toEqual(['2, 1, 1'])
})
