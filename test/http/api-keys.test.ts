import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { SCOPES, type Scope } from '../../src/access/scopes.ts'
import { addKey, openKeyedApp, unknownKey, withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp, type TestAppOptions } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { executeSql } from '../support/sql.ts'
import { until } from '../support/until.ts'

const ORIGIN = 'https://app.example'

const PREFLIGHT = { Origin: ORIGIN, 'Access-Control-Request-Method': 'DELETE' }

/** Each operation on users, with the scope that it needs. */
const OPERATIONS: readonly (readonly [line: string, scope: Scope])[] = [
  ['GET /users', 'users:read'],
  ['HEAD /users', 'users:read'],
  ['GET /users/1', 'users:read'],
  ['GET /users/999', 'users:read'],
  ['GET /users/abc', 'users:read'],
  ['HEAD /users/1', 'users:read'],
  ['GET /users/%zz', 'users:read'],
  ['GET /users?nonsense=1', 'users:read'],
  ['POST /users', 'users:write'],
  ['PUT /users/1', 'users:write'],
  ['PUT /users/999', 'users:write'],
  ['PATCH /users/1', 'users:write'],
  ['DELETE /users/1', 'users:write'],
  ['DELETE /users/abc', 'users:write'],
  ['POST /password-verifications', 'passwords:verify'],
]

/** Requests that need a key and no scope, with what they get then. */
const OTHERS: readonly (readonly [line: string, status: number])[] = [
  ['GET /nowhere', 404],
  ['GET /users/', 404],
  ['GET //users', 404],
  ['GET /USERS', 404],
  ['GET /users/1/', 404],
  ['GET /docs/', 404],
  ['GET /docs/x', 404],
  ['GET /users/1/2', 404],
  ['GET /openapi.json/', 404],
  ['GET /%zz', 400],
  ['PUT /users', 405],
  ['POST /users/1', 405],
  ['PROPFIND /users', 405],
  ['OPTIONS /users', 204],
  ['OPTIONS /nowhere', 404],
]

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Sends a request, with each of several values of a header in a line of its own. */
function send({ port }: TestApp, line: string, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
  const [method = '', path = ''] = line.split(' ')
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', method, path, headers, agent: false }
    const sent = request(options, async response => {
      const { statusCode: status, headers } = response
      resolve({ status, headers, body: await text(response) })
    })
    sent.on('error', reject).end()
  })
}

/** The value of `Authorization` for a key with all scopes, and a service with one user. */
async function openWithUser(options: TestAppOptions = {}) {
  const app = await openKeyedApp([{}], options)
  const [bearer = ''] = app.bearers
  await app.http.post('/users').set('Authorization', bearer).send(newUserBody()).expect(201)
  return { ...app, bearer }
}

/** What an error at the path of a request line is about. */
function resourceOf(line: string): string {
  return /^\S+ \/users(?:[/?]|$)/.test(line) ? 'User' : 'Request'
}

/** What is refused, apart from the id of the request. */
function refusalOf({ status, headers, body }: Answer) {
  const { 'www-authenticate': challenge, 'content-length': length } = headers
  return { status, challenge, length, body }
}

describe('without a key', () => {
  test.each([...OPERATIONS, ...OTHERS].map(([line]) => line))('%s is 401', async line => {
    const app = await openWithUser()
    const { status, headers, body } = await send(app, line)
    expect(status).toBe(401)
    expect(headers).toMatchObject({ 'www-authenticate': 'Bearer', 'cache-control': 'no-store' })
    if (line.startsWith('HEAD')) return
    expect(JSON.parse(body)).toEqual({
      message: 'A valid API key is required',
      resource: resourceOf(line),
      code: 401,
      status: false,
      reason: 'key_required',
    })
  })

  test('nothing tells which users, methods or paths exist', async () => {
    const app = await openWithUser()
    for (const lines of [
      [
        'GET /users/1',
        'GET /users/2',
        'GET /users/abc',
        'GET /users/1/2',
        'POST /users/1',
        'GET /users/%',
      ],
      ['GET /nowhere', 'GET /admin', 'DELETE /docs/x', 'GET /openapi.yaml'],
    ]) {
      const refusals = []
      for (const line of lines) refusals.push(refusalOf(await send(app, line)))
      for (const refusal of refusals) expect(refusal).toEqual(refusals[0])
    }
  })

  test('nothing of the body is read, and nothing is changed', async () => {
    const { http, bearer } = await openWithUser({ env: { BODY_LIMIT: '1kb' } })
    const wrong = [newUserBody(), { user: { name: 'x'.repeat(2000) } }, '{"user":']
    for (const body of wrong) {
      await http.post('/users').set('Content-Type', 'application/json').send(body).expect(401)
      await http.put('/users/1').set('Content-Type', 'text/plain').send('x').expect(401)
    }
    await http.delete('/users/1').expect(401)
    const { body } = await http.get('/users').set('Authorization', bearer)
    expect(body).toHaveLength(1)
  })

  test('a 401 is a problem document to a client that prefers one', async () => {
    const { http } = await openKeyedApp([])
    const accept = { Accept: 'application/problem+json' }
    const { headers, body } = await http.get('/users/1').set(accept).expect(401)
    expect(headers['content-type']).toMatch(/^application\/problem\+json/)
    expect(headers['www-authenticate']).toBe('Bearer')
    expect(body).toEqual({
      type: 'about:blank',
      title: 'Unauthorized',
      status: 401,
      detail: 'A valid API key is required',
      instance: '/users/1',
      reason: 'key_required',
    })
  })

  test('health checks, pages and the document are open', async () => {
    const app = await openKeyedApp([])
    for (const path of ['/livez', '/readyz', '/', '/docs', '/openapi.json']) {
      for (const method of ['GET', 'HEAD']) {
        expect((await send(app, `${method} ${path}`)).status).toBe(200)
      }
      const wrong = { Authorization: 'Bearer nonsense' }
      expect((await send(app, `GET ${path}`, wrong)).status).toBe(200)
      expect((await send(app, `OPTIONS ${path}`)).status).toBe(204)
      expect((await send(app, `POST ${path}`)).status).toBe(405)
    }
    const { text: page } = await app.http.get('/docs').expect(200)
    const assets = [...page.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, path]) => path)
    expect(assets.length).toBeGreaterThan(3)
    for (const path of assets) expect((await send(app, `GET /${path}`)).status).toBe(200)
  })

  test('a CORS preflight is answered, and allows the header Authorization', async () => {
    const app = await openKeyedApp([], { env: { CORS_ORIGINS: ORIGIN } })
    const asked = { ...PREFLIGHT, 'Access-Control-Request-Headers': 'authorization,content-type' }
    for (const path of ['/users', '/users/1']) {
      const { status, headers } = await send(app, `OPTIONS ${path}`, asked)
      expect(status).toBe(204)
      expect(headers).toMatchObject({
        'access-control-allow-origin': ORIGIN,
        'access-control-allow-headers': 'authorization,content-type',
      })
      expect(headers['access-control-allow-methods']?.split(',')).toContain('DELETE')
    }
    for (const left of ['Origin', 'Access-Control-Request-Method'] as const) {
      const { [left]: _left, ...headers } = PREFLIGHT
      expect((await send(app, 'OPTIONS /users', headers)).status).toBe(401)
      expect((await send(app, 'GET /users', { ...headers, ...PREFLIGHT })).status).toBe(401)
    }
  })

  test('a page of an allowed origin may read the 401', async () => {
    const app = await openKeyedApp([], { env: { CORS_ORIGINS: ORIGIN } })
    const { status, headers } = await send(app, 'GET /users', { Origin: ORIGIN })
    expect(status).toBe(401)
    expect(headers['access-control-allow-origin']).toBe(ORIGIN)
  })
})

describe('with a key', () => {
  test.each(OPERATIONS)('%s needs the scope %s', async (line, needed) => {
    const others = SCOPES.filter(scope => scope !== needed)
    const app = await openKeyedApp([
      { name: 'right', scopes: [needed] },
      { name: 'wrong', scopes: others },
    ])
    const [right, wrong] = app.bearers
    const allowed = await send(app, line, { Authorization: right })
    expect([401, 403]).not.toContain(allowed.status)
    const { status, headers, body } = await send(app, line, { Authorization: wrong })
    expect(status).toBe(403)
    const challenge = `Bearer error="insufficient_scope", scope="${needed}"`
    expect(headers['www-authenticate']).toBe(challenge)
    if (line.startsWith('HEAD')) return
    expect(JSON.parse(body)).toEqual({
      message: `The API key lacks the scope ${needed}`,
      resource: resourceOf(line),
      code: 403,
      status: false,
      reason: 'scope_missing',
    })
  })

  test.each(OTHERS)('%s is %d, whatever its scopes are', async (line, status) => {
    const app = await openKeyedApp([{ scopes: ['passwords:verify'] }])
    const [bearer] = app.bearers
    expect((await send(app, line, { Authorization: bearer })).status).toBe(status)
  })

  test('no spelling of a path gets around a scope', async () => {
    const app = await openKeyedApp([{ scopes: ['passwords:verify'] }])
    const [bearer] = app.bearers
    const paths = [
      '/users',
      '/users/1',
      '/users/1?x',
      '/users?',
      '/users/1;x',
      '/users/%31',
      '/%75sers',
    ]
    paths.push(
      '//users',
      '/users//1',
      '/./users',
      '/users/.',
      '/users/..',
      '/Users',
      '/users/',
      '/users#',
      '/users/1#x',
    )
    paths.push(
      'http://localhost/users',
      'http://localhost//users/1',
      'HTTP://x/users/1?',
      '*',
      '/users/1%2F',
    )
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
      for (const path of paths) {
        const { status = 0 } = await send(app, `${method} ${path}`, { Authorization: bearer })
        expect([method, path, [400, 403, 404, 405].includes(status)]).toEqual([method, path, true])
      }
    }
  })

  test('users are created, read, changed and deleted as without keys', async () => {
    const { http, bearers } = await openKeyedApp([{ scopes: ['users:read', 'users:write'] }])
    const [bearer = ''] = bearers
    const auth = { Authorization: bearer }
    const { body: user } = await http.post('/users').set(auth).send(newUserBody()).expect(201)
    await http.get('/users/1').set(auth).expect(200, user)
    await http.get('/users').set(auth).expect(200, [user])
    const change = { user: { name: 'Bea' } }
    await http.put('/users/1').set(auth).send(change).expect(200)
    await http.delete('/users/1').set(auth).expect(204)
    await http.get('/users/1').set(auth).expect(404)
  })

  test.each(['bearer', 'BEARER', 'BeArEr', 'Bearer '])(
    'the scheme may be sent as %j',
    async scheme => {
      const app = await openKeyedApp([{}])
      const key = app.bearers[0]?.slice('Bearer '.length)
      const { status } = await send(app, 'GET /users', { Authorization: `${scheme} ${key}` })
      expect(status).toBe(200)
    },
  )

  test('an unknown, an expired and a missing key get the same answer', async () => {
    const app = await openKeyedApp([{ name: 'old', expiresAt: 1 }, { name: 'new' }])
    const [expired] = app.bearers
    const missing = refusalOf(await send(app, 'GET /users'))
    for (const Authorization of [expired, `Bearer ${unknownKey()}`]) {
      expect(refusalOf(await send(app, 'GET /users', { Authorization }))).toEqual(missing)
    }
  })

  test('a key is valid until the moment at which it expires', async () => {
    const clock = createFakeClock()
    const keys = [{ expiresAt: clock.now() + 1000 }]
    const app = await openKeyedApp(keys, { now: clock.now })
    const [bearer] = app.bearers
    const status = async () => (await send(app, 'GET /users', { Authorization: bearer })).status
    expect(await status()).toBe(200)
    clock.advance(999)
    expect(await status()).toBe(200)
    clock.advance(1)
    expect(await status()).toBe(401)
  })

  test('a new key is accepted and a revoked one refused, without a restart', async () => {
    const app = await openKeyedApp([])
    const Authorization = `Bearer ${await addKey(app.databaseUrl, { name: 'later' })}`
    const status = async () => (await send(app, 'GET /users', { Authorization })).status
    await until(async () => (await status()) === 200)
    expect(await withKeyStore(app.databaseUrl, store => store.revoke('later'))).toBe(true)
    await until(async () => (await status()) === 401)
  })

  test('keys that are loaded stay valid while the database cannot tell of changes', async () => {
    const app = await openKeyedApp([{ name: 'loaded' }])
    const [bearer] = app.bearers
    const status = async () => (await send(app, 'GET /users', { Authorization: bearer })).status
    const failures = () =>
      app.logLines.filter(({ msg }) => /^cannot refresh API keys/.test(String(msg)))
    await executeSql(app.databaseUrl, 'DROP TABLE api_key_changes')
    await until(() => failures().length > 0)
    expect(await status()).toBe(200)
  })

  test('its last use is recorded in the background, and again when the service stops', async () => {
    const clock = createFakeClock()
    const app = await openKeyedApp([{ name: 'used' }, { name: 'unused' }], { now: clock.now })
    const [bearer] = app.bearers
    const use = () => send(app, 'GET /users', { Authorization: bearer })
    const lastUses = () =>
      withKeyStore(app.databaseUrl, async store =>
        Object.fromEntries((await store.list()).map(key => [key.name, key.lastUsedAt])),
      )
    const first = clock.now()
    await use()
    await until(async () => (await lastUses()).used === first)
    clock.advance(30_000)
    await use()
    await app.stop()
    expect(await lastUses()).toEqual({ used: first + 30_000, unused: undefined })
  })
})

describe('an Authorization header', () => {
  test('that is given twice is 401, whichever of them is right', async () => {
    const app = await openKeyedApp([{ name: 'a' }, { name: 'b' }])
    const [first = '', second = ''] = app.bearers
    for (const Authorization of [
      [first, first],
      [first, second],
      [first, 'Basic x'],
      ['Basic x', first],
      ['', first],
    ]) {
      expect((await send(app, 'GET /users', { Authorization })).status).toBe(401)
    }
  })

  test('of another form is 401, and never a fault: 500 of them', async () => {
    const app = await openKeyedApp([{}])
    const key = app.bearers[0]?.slice('Bearer '.length) ?? ''
    const sent = malformedAuthorizations(key)
    expect(sent).toHaveLength(500)
    for (const header of sent) {
      const head = `GET /users HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: `
      const bytes = Buffer.from(`${head}${header}\r\n\r\n`, 'latin1')
      const [answer] = await sendRaw(app.port, bytes).ended
      // A header that is too large or has control characters is refused by the parser.
      const isRefused = [400, 401, 431].includes(answer?.status ?? 0)
      expect([header.slice(0, 80), isRefused || answer?.status]).toEqual([
        header.slice(0, 80),
        true,
      ])
      if (!hasOddBytes(header)) expect(answer?.status).toBe(401)
    }
    await app.http.get('/users').set('Authorization', `Bearer ${key}`).expect(200)
    // A busy machine may reach PostgreSQL too late.
    const isAboutBusyness = (msg: unknown) => /^database can(?:not)? be reached/.test(String(msg))
    const warnings = app.logLines.filter(({ level }) => Number(level) >= 40)
    expect(warnings.filter(({ msg }) => !isAboutBusyness(msg))).toEqual([])
  })

  test('is ignored with API_KEYS=off', async () => {
    const app = await openTestApp()
    for (const Authorization of [
      `Bearer ${unknownKey()}`,
      'Bearer',
      'x'.repeat(9000),
      ['a', 'b'],
    ]) {
      expect((await send(app, 'GET /users', { Authorization })).status).toBe(200)
    }
    expect(app.logLines.filter(line => 'key' in line || 'keyProblem' in line)).toEqual([])
  })
})

describe('the log', () => {
  test('has the name of the key, and why one is not valid, but no key', async () => {
    const app = await openKeyedApp([
      { name: 'reader', scopes: ['users:read'] },
      { name: 'gone', expiresAt: 1 },
    ])
    const [reader = '', gone = ''] = app.bearers
    const unknown = `Bearer ${unknownKey()}`
    const requests: readonly (readonly [line: string, headers: OutgoingHttpHeaders])[] = [
      ['GET /users', { Authorization: reader }],
      ['GET /users', { Authorization: gone }],
      ['GET /users', { Authorization: unknown }],
      ['GET /users', { Authorization: reader.slice(0, -1) }],
      ['GET /users', { Authorization: 'Basic x' }],
      ['GET /users', {}],
      ['DELETE /users/1', { Authorization: reader }],
      ['GET /openapi.json', { Authorization: unknown }],
    ]
    for (const [index, [line, headers]] of requests.entries()) {
      await send(app, line, { ...headers, 'X-Request-Id': `${index}` })
    }
    const lines = app.logLines.filter(({ msg }) => msg === 'request')
    const facts = lines.map(({ status, key, keyProblem }) => [status, key, keyProblem])
    expect(facts).toEqual([
      [200, 'reader', undefined],
      [401, undefined, 'expired'],
      [401, undefined, 'unknown'],
      [401, undefined, 'malformed'],
      [401, undefined, 'malformed'],
      [401, undefined, 'missing'],
      [403, 'reader', undefined],
      [200, undefined, undefined],
    ])
    const log = JSON.stringify(app.logLines)
    for (const bearer of [reader, gone, unknown]) expect(log).not.toContain(bearer.slice(11, 40))
  })

  test('says at the start that there is no key yet', async () => {
    const app = await openKeyedApp([])
    expect(app.logLines).toContainEqual(
      expect.objectContaining({
        level: 40,
        msg: 'API_KEYS is required, but there is no key: make one with keys create',
      }),
    )
  })
})

/** 500 texts that are no credentials, most of them near the right ones. */
function malformedAuthorizations(key: string): readonly string[] {
  const sent = [
    '',
    'Bearer',
    'Bearer ',
    'Bearer\t',
    `Bearer\t${key}`,
    `Bearer${key}`,
    `Bearer:${key}`,
    `Bearer ${key} x`,
    `Bearer ${key},${key}`,
    `Bearer "${key}"`,
    `Bearer token=${key}`,
    `Bearer ${key}=`,
    `Bearer ${key}\xa0`,
    `Bearer \xa0${key}`,
    `Bearer ${key}\x00`,
    `Basic ${key}`,
    `Basic ${Buffer.from(`user:${key}`).toString('base64')}`,
    `Digest username="x", response="${key}"`,
    `Token ${key}`,
    `ApiKey ${key}`,
    key,
    `Bearer ${key.toUpperCase()}`,
    `Bearer ${key.toLowerCase()}`,
    `Bearer ${'x'.repeat(8000)}`,
    `Bearer ${key.repeat(100)}`,
    `Bearer ${'x'.repeat(20_000)}`,
    `${' '.repeat(4000)}Bearer`,
    `Bearer ${'Bearer '.repeat(1000)}`,
    'Bearer __proto__',
    'Bearer constructor',
    'Bearer null',
    'Bearer undefined',
    "Bearer ' OR 1=1 --",
    'Bearer %00',
    'Bearer ../../etc/passwd',
    'Bearer \xff\xfe\xfd',
    'Bearer \x01\x02',
    'Bearer \x7f',
    'Bearer $key',
    'Bearer {{key}}',
  ]
  for (let at = 1; at < key.length; at++) {
    const other = key[at] === 'x' ? 'y' : 'x'
    sent.push(`Bearer ${key.slice(0, at)}${other}${key.slice(at + 1)}`)
    sent.push(`Bearer ${key.slice(0, at)}${key.slice(at + 1)}`)
    sent.push(`Bearer ${key.slice(0, at)}${other}${key.slice(at)}`)
    sent.push(`Bearer ${key.slice(0, at)} ${key.slice(at)}`)
  }
  for (let size = 1; sent.length < 500; size++) {
    sent.push(`Bearer ${'\x21\x7e\xe9\x30\x5a\x2e\x3d'.repeat(size).slice(0, size)}`)
  }
  return sent.slice(0, 500)
}

/** Whether the parser may refuse it before the application sees it. */
function hasOddBytes(text: string): boolean {
  return text.length > 16_000 || /[^\t\x20-\x7e\x80-\xff]/.test(text)
}
