import { describe, expect, test } from 'vitest'
import { shareAppWithRules } from '../support/app-with-rules.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { until } from '../support/until.ts'

const { app, clock, useLimits } = shareAppWithRules()

/** The answers to `GET` of these paths, one after the other. */
async function answersTo(paths: readonly string[], headers: Record<string, string> = {}) {
  const answers = []
  for (const path of paths) answers.push(await app.http.get(path).set(headers))
  return answers
}

async function statusesOf(count: number, headers?: Record<string, string>): Promise<number[]> {
  const answers = await answersTo(Array(count).fill('/users'), headers)
  return answers.map(({ status }) => status)
}

const failures = () =>
  app.logLines.filter(({ msg }) => msg === 'rule function failed, request allowed')

test('functions of a route limit take count, window and key from each request', async () => {
  await useLimits(`{ rateLimits: [{
    name: 'by plan',
    to: request => request.get('x-plan') === 'gold' ? 3 : 1,
    within: request => request.get('x-plan') === 'gold' ? '10 seconds' : 60,
    by: request => request.get('x-client'),
  }] }`)
  const gold = { 'X-Plan': 'gold', 'X-Client': 'ann' }
  const plain = { 'X-Client': 'bob' }
  expect(await statusesOf(4, gold)).toEqual([200, 200, 200, 429])
  expect(await statusesOf(2, plain)).toEqual([200, 429])
  for (const [headers, policy] of [
    [gold, /^"by plan"; q=3; w=10;/],
    [plain, /^"by plan"; q=1; w=60;/],
  ] as const) {
    const answer = await app.http.get('/users').set(headers)
    expect(answer.headers['ratelimit-policy']).toMatch(policy)
  }
  clock.advance(10_000)
  expect(await statusesOf(1, gold)).toEqual([200])
  expect(await statusesOf(1, plain)).toEqual([429])
  const { status, headers } = await app.http.get('/users')
  expect([status, headers.ratelimit]).toEqual([200, undefined])
})

const BOOM = `throw new Error('boom')`

// A promise that rejects must be handled too: otherwise it would end the process.
test.each([
  `to: () => { ${BOOM} }`,
  'to: async () => 1',
  `to: async () => { ${BOOM} }`,
  `to: () => '1'`,
  'to: () => NaN',
  'to: () => {}',
  'to: () => -1',
  'to: () => 0',
  'to: () => 1.5',
  'to: () => Infinity',
  `within: () => { ${BOOM} }`,
  'within: async () => 60',
  `within: async () => { ${BOOM} }`,
  `within: () => 'soon'`,
  'within: () => 0',
  'within: () => {}',
  `by: () => { ${BOOM} }`,
  `by: async () => 'ann'`,
  `by: async () => { ${BOOM} }`,
  'by: () => ({})',
  `by: ['ip', () => { ${BOOM} }]`,
  'by: () => { throw undefined }',
])('a route limit with %s lets requests pass, counts nothing and logs an error', async code => {
  await useLimits(`{ rateLimits: [{ name: 'faulty', to: 1, within: 60, ${code} }] }`)
  const answers = await answersTo(['/users', '/users', '/users'])
  for (const { status, headers } of answers) {
    expect(status).toBe(200)
    expect(Object.keys(headers).join()).not.toContain('ratelimit')
  }
  expect(failures()).toHaveLength(3)
  expect(failures()[0]).toMatchObject({ level: 50, type: 'rateLimit', rule: 'faulty' })
  expect(app.limitsReport().rules[0]).toMatchObject({ counted: 0, passed: 0, refused: 0 })
})

test('a filter rule whose function throws counts nothing', async () => {
  await useLimits(`{
    blocklist: [{ name: 'matching', match: () => { ${BOOM} } }],
    throttle: [{ name: 'keyed', limit: 1, period: 60, by: () => { ${BOOM} } }],
  }`)
  expect(await statusesOf(3)).toEqual([200, 200, 200])
  const nothing = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
  expect(app.limitsReport().rules).toMatchObject([nothing, nothing])
})

describe.each([
  ['throttle', 'throttle', 'limit', 'period'],
  ['rateLimits', 'rateLimit', 'to', 'within'],
])('with on %s', (kind, type, limit, period) => {
  /** A rule that allows one request, and answers others by this code; and one that allows two. */
  function useAnswer(code: string): Promise<void> {
    return useLimits(`{ ${kind}: [
      { name: 'first', ${limit}: 1, ${period}: 60, with: ${code} },
      { name: 'second', ${limit}: 2, ${period}: 60 },
    ] }`)
  }

  const numbers = () =>
    app.limitsReport().rules.map(({ counted, passed, refused }) => [counted, passed, refused])

  test.each([
    [418, `(request, response) => response.status(418).json({ tea: true })`],
    [
      418,
      `async (request, response) => {
        await new Promise(setImmediate)
        response.status(418).json({ tea: true })
      }`,
    ],
    [418, '(request, response, next) => { response.status(418).json({ tea: true }); next() }'],
    [500, '(request, response, next) => next(new Error("no"))'],
  ])('that answers %i denies the request: %s', async (denied, code) => {
    await useAnswer(code)
    expect(await statusesOf(3)).toEqual([200, denied, denied])
    const { body, headers } = await app.http.get('/users')
    if (denied === 418) expect(body).toEqual({ tea: true })
    expect(headers.ratelimit).toBe('"first"; r=0; t=60')
    expect(numbers()).toEqual([
      [4, 1, 3],
      [1, 1, 0],
    ])
    const lines = await until(() => {
      const found = app.logLines.filter(({ msg, status }) => msg === 'request' && status === denied)
      return found.length === 3 && found
    })
    for (const line of lines) expect(line).toMatchObject({ type, rule: 'first' })
    if (denied === 418) expect(lines[0]).toMatchObject({ reason: 'rate_limited' })
  })

  test.each([
    ['(request, response, next) => next()', 0],
    ['(request, response, next) => next(null)', 0],
    [`(request, response, next) => next('route')`, 0],
    [`(request, response, next) => next('router')`, 0],
    ['(request, response, next) => { setTimeout(next, 1) }', 0],
    [`() => { ${BOOM} }`, 3],
    [`async () => { ${BOOM} }`, 3],
  ])('of %s lets the request pass to the next rule', async (code, failed) => {
    await useAnswer(code)
    const [, passed, refused, last] = await answersTo(['/users', '/users', '/users', '/users'])
    expect(passed).toMatchObject({ status: 200, body: [] })
    expect(passed?.headers).not.toHaveProperty('retry-after')
    if (kind === 'throttle')
      expect(Object.keys(passed?.headers ?? {}).join()).not.toContain('ratelimit')
    expect(passed?.headers.vary).toBe('Accept')
    expect([refused?.status, last?.status]).toEqual([429, 429])
    expect(numbers()).toEqual([
      [4, 4, 0],
      [4, 2, 2],
    ])
    const lines = await until(() => {
      const found = app.logLines.filter(({ msg }) => msg === 'request')
      return found.length === 4 && found
    })
    const seen = lines.map(({ rule, reason }) => [rule, reason])
    const denied = ['second', 'rate_limited']
    expect(seen).toEqual([[undefined, undefined], [undefined, undefined], denied, denied])
    expect(failures()).toHaveLength(failed)
  })

  test.each([
    ['throws', `throw new Error('boom')`, 1],
    ['calls next', 'setTimeout(next, 1)', 0],
    ['calls next with an error', `setTimeout(() => next(new Error('boom')), 1)`, 1],
  ])(
    'that began to answer and then %s ends the connection, and no other request',
    async (_what, then, failed) => {
      await useAnswer(`(request, response, next) => {
      response.status(429).write('half')
      ${then}
    }`)
      await app.http.get('/users')
      await expect(fetch(`${app.url}/users`).then(answer => answer.text())).rejects.toThrow()
      expect(failures()).toHaveLength(failed)
      await app.http.get('/livez').expect(200)
    },
  )

  test('that throws after it has answered does not change the answer', async () => {
    await useAnswer(`(request, response) => {
      response.status(429).json({ whole: true })
      ${BOOM}
    }`)
    await app.http.get('/users')
    await app.http.get('/users').expect(429, { whole: true })
  })
})

test.each([
  ['/users?k=a', ['a']],
  ['/users?k=a&k=b%20c&other=1', ['a', 'b c']],
  ['/users?K=a', ['undefined']],
  ['/users?k', ['']],
  ['/users?k=%zz&__proto__=x', ['%zz']],
])('a function of a rule finds the query of %s in request.query', async (path, values) => {
  await useLimits(`{
    throttle: [{ limit: 1, period: 60, by: () => 'all', with: (request, response) => {
      response.status(429).json([request.query.k].flat().map(String))
    } }],
  }`)
  await app.http.get(path)
  await app.http.get(path).expect(429, values)
})

test('a throttle by request.query counts each value separately', async () => {
  await useLimits('{ throttle: [{ limit: 1, period: 60, by: request => request.query.k }] }')
  const answers = await answersTo(['/a?k=1', '/a?k=1', '/a?k=2', '/a', '/a'])
  expect(answers.map(({ status }) => status)).toEqual([404, 429, 404, 404, 404])
})

test('a ban by a key with half of a character survives a restart', async () => {
  const limits = `{
    bans: [{ name: 'half \\ud800', path: '/a', by: () => 'x\\udc00', maxretry: 1, findtime: 60, bantime: 60 }],
  }`
  const first = await openTestApp({ limits })
  await first.http.get('/a').expect(404)
  await first.http.get('/users').expect(403)
  await first.stop()
  const second = await openTestApp({ limits, env: { DATABASE_URL: first.databaseUrl } })
  await second.http.get('/users').expect(403)
})
