import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { addKey, withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { askAndClose } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { until } from '../support/until.ts'

const NEW_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/

const app = shareTestApp({ users: [newUserBody()] })

/** The lines of a request; `undefined` if there are none. */
function linesOf(id: string | undefined, { logLines }: Pick<TestApp, 'logLines'> = app) {
  const lines = logLines.filter(({ requestId }) => requestId === id)
  return lines.length > 0 ? lines : undefined
}

test('each request writes one line about itself and its outcome', async () => {
  const headers = { 'User-Agent': 'tester/1.0', 'X-Request-Id': 'one' }
  await askAndClose(app.port, 'GET /users', headers)
  expect(linesOf('one')).toEqual([
    {
      level: 30,
      time: expect.any(Number),
      requestId: 'one',
      method: 'GET',
      route: '/users',
      status: 200,
      ms: expect.any(Number),
      client: '127.0.0.1',
      userAgent: 'tester/1.0',
      msg: 'request',
    },
  ])
})

test('docs/stability.md names each field of the line of a request', async () => {
  const page = readFileSync(new URL('../../docs/stability.md', import.meta.url), 'utf8')
  const [row = ''] = /^\| log \|.*$/m.exec(page) ?? []
  const headers = { 'User-Agent': 'tester/1.0', 'X-Request-Id': 'promised' }
  await askAndClose(app.port, 'GET /users/1', { ...headers, traceparent: `00-${TRACE}-${SPAN}-01` })
  const fields = Object.keys(linesOf('promised')?.[0] ?? {})
  expect(fields).toContain('trace_id')
  const unnamed = fields.filter(field => !row.includes(`\`${field}\``))
  expect(unnamed, 'add these fields to the row `log` of docs/stability.md').toEqual([])
})

test.each([
  ['GET /', '/', 200],
  ['GET /readyz', '/readyz', 200],
  ['GET /users/1', '/users/{id}', 200],
  ['GET /users/ann@example.com', '/users/{id}', 404],
  ['HEAD /users/1', '/users/{id}', 200],
  ['OPTIONS /users', '/users', 204],
  ['POST /users', '/users', 422],
  ['DELETE /users/999', '/users/{id}', 404],
  ['POST /users/abc', '/users/{id}', 405],
  ['GET /nowhere', undefined, 404],
  ['GET /users/1/posts', undefined, 404],
  ['GET /openapiXjson', undefined, 404],
  ['GET /users/%zz', '/users/{id}', 400],
])('%s is logged with the route %s', async (line, route, status) => {
  const id = `route-${line.replaceAll(/[^\w.]/g, '_')}`
  await askAndClose(app.port, line, { 'X-Request-Id': id })
  const lines = linesOf(id)
  expect(lines).toHaveLength(1)
  expect(lines?.[0]).toMatchObject({ method: line.split(' ')[0], status })
  expect(lines?.[0]?.route).toBe(route)
  expect(lines?.[0]?.ms).toBeGreaterThanOrEqual(0)
})

test('the line of a request that is refused before its route has the route', async () => {
  const limits = {
    blocklist: [{ name: 'robots', userAgent: 'robot' }],
    throttle: [{ name: 'all', limit: 1, period: '1 hour' }],
  }
  const env = { API_KEYS: 'required', ALLOWED_HOSTS: 'localhost' }
  const closed = await openTestApp({ limits, env })
  for (const [status, headers] of [
    [403, { 'User-Agent': 'robot' }],
    [401, {}],
    [429, {}],
    [421, { Host: 'elsewhere.example' }],
  ] as const) {
    const answer = await askAndClose(closed.port, 'GET /users/7', headers)
    const lines = linesOf(answer.headers['x-request-id'], closed)
    expect(lines?.at(-1)).toMatchObject({ msg: 'request', status, route: '/users/{id}' })
  }
})

test('the line of a request has the beginning of a long User-Agent, and none if it was not sent', async () => {
  await askAndClose(app.port, 'GET /livez', { 'X-Request-Id': 'none' })
  expect(linesOf('none')?.[0]).not.toHaveProperty('userAgent')
  const agent = 'x'.repeat(10_000)
  await askAndClose(app.port, 'GET /livez', { 'X-Request-Id': 'long', 'User-Agent': agent })
  const line = linesOf('long')?.[0]
  expect(agent.startsWith(String(line?.userAgent))).toBe(true)
  expect(JSON.stringify(line).length).toBeLessThan(1000)
})

describe('the line of a request that is about one user', () => {
  const own = shareTestApp({ keys: [{ name: 'web' }] })
  const ANN = newUserBody({ name: 'Ann', email: 'ann@example.com', password: 'a password of Ann' })
  const { user } = ANN
  const ALL = ['name', 'email', 'password']

  test.each<[string, object | undefined, status: number, about: object]>([
    ['POST /users', ANN, 201, { user: 1, fields: ALL }],
    ['POST /users', ANN, 422, {}],
    ['GET /users/1', undefined, 200, { user: 1 }],
    ['HEAD /users/1', undefined, 200, { user: 1 }],
    ['GET /users/2', undefined, 404, {}],
    [
      'PUT /users/1',
      { user: { password: null, name: 'Ann', 'ann@x.co': 1 } },
      200,
      { user: 1, fields: ['name', 'password'] },
    ],
    ['PATCH /users/1', { user: { email: 'ANN@example.com' } }, 200, { user: 1, fields: ['email'] }],
    ['PUT /users/1', { user: {} }, 200, { user: 1, fields: [] }],
    ['PUT /users/1', { user: { name: '' } }, 422, {}],
    ['PUT /users/1', ANN, 200, { user: 1, fields: ALL }],
    ['POST /password-verifications', { user: { ...user, password: 'wrong' } }, 422, {}],
    ['POST /password-verifications', { user }, 200, { user: 1 }],
    ['GET /users', undefined, 200, {}],
    ['DELETE /users/1', undefined, 204, { user: 1 }],
    ['DELETE /users/1', undefined, 404, {}],
  ])('%s with %j, answered %d, has %j', async (line, body, status, about) => {
    const [method = '', path = ''] = line.split(' ')
    const sending = own.http[method.toLowerCase() as 'get'](path)
    const answer = await sending.set('Authorization', own.bearers[0] ?? '').send(body)
    const [shown, ...others] = linesOf(answer.headers['x-request-id'], own) ?? []
    expect(others).toEqual([])
    const { user: id, fields } = shown ?? {}
    expect({ user: id, fields }).toEqual(about)
    expect(shown).toMatchObject({ key: 'web', status })
    expect(own.logText.join()).not.toMatch(/ann@|"Ann|x\.co|a password/i)
  })

  test('has no user for a read that is 412', async () => {
    const { http, logLines } = await openTestApp({ users: [ANN] })
    await http.get('/users/1').set({ 'If-Match': '"a"', 'X-Request-Id': 'other' }).expect(412)
    await expect.poll(() => logLines.find(line => line.requestId === 'other')).toBeDefined()
    expect(logLines.find(line => line.requestId === 'other')).not.toHaveProperty('user')
  })

  test('has them for an answer that is repeated or not modified', async () => {
    const { http, logLines } = await openTestApp()
    for (const id of ['first', 'again']) {
      const sending = http.post('/users').set({ 'Idempotency-Key': 'key', 'X-Request-Id': id })
      await sending.send(ANN).expect(201)
    }
    await http.get('/users/1').set({ 'If-None-Match': '*', 'X-Request-Id': 'same' }).expect(304)
    expect(
      logLines.flatMap(({ requestId, user, fields }) => (user ? [[requestId, user, fields]] : [])),
    ).toEqual([
      ['first', 1, ALL],
      ['again', 1, ALL],
      ['same', 1, undefined],
    ])
  })
})

test('a key that is created or revoked has a line with its name and scopes, and those of the start have none', async () => {
  const { databaseUrl, logLines } = await openTestApp({ keys: [{ name: 'old' }] })
  const lines = () => logLines.filter(({ msg }) => String(msg).startsWith('API key'))
  const ended = { name: 'web', scopes: ['users:read'], expiresAt: Date.UTC(2099, 0) } as const
  const key = await addKey(databaseUrl, ended)
  await until(() => lines().length === 1)
  // Another one of the same name.
  await withKeyStore(databaseUrl, store => store.revoke('web'))
  await addKey(databaseUrl, { name: 'web' })
  await withKeyStore(databaseUrl, store => store.revoke('old'))
  await until(() => lines().length === 4)
  const web = { level: 30, key: 'web', scopes: ['users:read'], expires: '2099-01-01T00:00:00.000Z' }
  const all = ['users:read', 'users:write', 'passwords:verify']
  expect(lines()[0]).toMatchObject({ msg: 'API key created', ...web })
  expect(lines()).toContainEqual(expect.objectContaining({ msg: 'API key revoked', ...web }))
  for (const [change, name] of [
    ['created', 'web'],
    ['revoked', 'old'],
  ]) {
    const line = { msg: `API key ${change}`, key: name, scopes: all }
    expect(lines()).toContainEqual(expect.objectContaining(line))
  }
  expect(JSON.stringify(lines())).not.toContain(key)
})

test.each([...['0', 'A-z_0.9', 'f47ac10b-58cc-4372-a567-0e02b2c3d479', 'x'.repeat(128)]])(
  'X-Request-Id %j is echoed and logged',
  async id => {
    for (const line of ['GET /users', 'GET /livez', 'GET /nowhere', 'POST /', 'OPTIONS /users']) {
      const answer = await askAndClose(app.port, line, { 'X-Request-Id': id })
      expect(answer.headers['x-request-id']).toBe(id)
    }
    expect(linesOf(id)).toHaveLength(5)
  },
)

test.each<[string, readonly string[]]>([
  ['none', []],
  ['empty', ['']],
  ['of 129 characters', ['x'.repeat(129)]],
  ['with a space', ['a b']],
  ['with a colon', ['a:b']],
  ['with a quote', ['"a"']],
  ['beyond ASCII', ['\xe9']],
  ['sent twice the same', ['a', 'a']],
  ['sent twice, once empty', ['', 'a']],
])('an X-Request-Id that is %s is replaced by a new one', async (_, ids) => {
  const made = []
  for (const line of ['GET /users', 'GET /nowhere']) {
    const { headers } = await askAndClose(app.port, line, { 'X-Request-Id': ids })
    const id = headers['x-request-id']
    expect(id).toMatch(NEW_ID)
    expect(linesOf(id)).toHaveLength(1)
    made.push(id)
  }
  expect(made[1]).not.toBe(made[0])
})

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const VALID = `00-${TRACE}-${SPAN}-01`

test.each<[string, readonly string[], isTraced: boolean]>([
  ['of version 00', [VALID], true],
  ['with flags that have no meaning yet', [`00-${TRACE}-${SPAN}-ff`], true],
  ['with blanks around it', [`  ${VALID}\t`], true],
  ['of a later version with more', [`cc-${TRACE}-${SPAN}-01-what-comes-later`], true],
  ['of a later version with more that is not set off', [`cc-${TRACE}-${SPAN}-01x`], false],
  ['of version 00 with more', [`${VALID}-01`], false],
  ['of version ff', [`ff-${TRACE}-${SPAN}-01`], false],
  ['with a trace of zeros', [`00-${'0'.repeat(32)}-${SPAN}-01`], false],
  ['with a span of zeros', [`00-${TRACE}-${'0'.repeat(16)}-01`], false],
  ['with a trace in upper case', [`00-${TRACE.toUpperCase()}-${SPAN}-01`], false],
  ['with a short trace', [`00-${TRACE.slice(1)}-${SPAN}-01`], false],
  ['with a long trace', [`00-${TRACE}0-${SPAN}-01`], false],
  ['without flags', [`00-${TRACE}-${SPAN}`], false],
  ['that is empty', [''], false],
  ['sent twice', [VALID, VALID], false],
  ['sent twice, once empty', ['', VALID], false],
  ['of a later version with more, sent twice', [`cc-${TRACE}-${SPAN}-01-x`, VALID], false],
])('a traceparent %s: whether its trace_id is in the log line', async (_, values, isTraced) => {
  for (const line of ['GET /users', 'GET /nowhere']) {
    const answer = await askAndClose(app.port, line, { traceparent: values })
    const lines = linesOf(answer.headers['x-request-id'])
    expect(lines?.map(({ trace_id }) => trace_id)).toEqual([isTraced ? TRACE : undefined])
  }
})

const FORWARDED = { 'X-Forwarded-For': '203.0.113.7, 198.51.100.9' }

test.each([
  ['unset', {}, '127.0.0.1'],
  ['1', { TRUST_PROXY: '1' }, '198.51.100.9'],
  ['2', { TRUST_PROXY: '2' }, '203.0.113.7'],
  ['127.0.0.0/8', { TRUST_PROXY: '127.0.0.0/8' }, '198.51.100.9'],
  ['both proxies', { TRUST_PROXY: 'loopback, 198.51.100.0/24' }, '203.0.113.7'],
  ['another address', { TRUST_PROXY: '10.0.0.1' }, '127.0.0.1'],
])('with TRUST_PROXY %s the log names the right client', async (_, env, client) => {
  const proxied = await openTestApp({ env })
  for (const [headers, expected] of [
    [FORWARDED, client],
    [{}, '127.0.0.1'],
  ] as const) {
    const answer = await askAndClose(proxied.port, 'GET /users', headers)
    expect(linesOf(answer.headers['x-request-id'], proxied)).toMatchObject([{ client: expected }])
  }
})

describe('behind a trusted proxy that names clients with their ports', () => {
  const limits = {
    blocklist: [{ ip: ['198.51.100.0/24', '2001:db8:1::/48'] }],
    throttle: [{ limit: 2, period: '1 hour' }],
  }
  const proxied = shareTestApp({ limits, env: { TRUST_PROXY: 'loopback, 10.0.0.0/8' } })
  const ask = (client: string) =>
    askAndClose(proxied.port, 'GET /users', { 'X-Forwarded-For': client })

  test.each([
    ['198.51.100.7:4444', 403],
    ['[2001:db8:1::7]:4444', 403],
    ['2001:db8:1::7', 403],
    ['203.0.113.7:4444', 200],
    ['198.51.100.7:4444, 10.1.2.3:5555', 403],
    ['198.51.100.7, 203.0.113.9:5555', 200],
  ])('a blocklist of ranges answers %s with %d', async (forwarded, status) => {
    expect((await ask(forwarded)).status).toBe(status)
  })

  test.each([
    ['192.0.2.7:1', '192.0.2.7:2', '192.0.2.7'],
    ['[2001:db8::7]:1', '[2001:db8::8]:2', '2001:db8::9'],
  ])('a client at %s is counted with that at %s and %s', async (...clients) => {
    const statuses = []
    for (const client of clients) statuses.push((await ask(client)).status)
    expect(statuses).toEqual([200, 200, 429])
  })

  test.each([
    ['198.51.100.8:4444', '198.51.100.8'],
    ...['unknown', '1.2.3:80', '[nonsense]:1', '198.51.100.7:1:2'].map(text => [text, text]),
  ])('the log names %s as %s', async (sent, client) => {
    const { headers } = await ask(sent)
    expect(linesOf(headers['x-request-id'], proxied)?.at(-1)).toMatchObject({ client })
  })
})
