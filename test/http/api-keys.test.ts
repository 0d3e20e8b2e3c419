import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { SCOPES, type Scope } from '../../src/access/scopes.ts'
import { addKey, openKeyedApp, unknownKey, withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { requestBytes } from '../support/raw-request.ts'
import { shareKeyedApp } from '../support/shared-app.ts'
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
  ['DELETE /users/998', 'users:write'],
  ['DELETE /users/abc', 'users:write'],
  ['POST /password-verifications', 'passwords:verify'],
]

/** Requests that need a key and no scope, with what they get then. */
const OTHERS: readonly (readonly [line: string, status: number])[] = [
  ...['/nowhere', '/users/', '//users', '/USERS', '/users/1/', '/users/1/2']
    .concat(['/docs/', '/docs/x', '/openapi.json/'])
    .map(path => [`GET ${path}`, 404] as const),
  ['GET /%zz', 400],
  ['PUT /users', 405],
  ['POST /users/1', 405],
  ['PROPFIND /users', 405],
  ['OPTIONS /users', 204],
  ['OPTIONS /nowhere', 404],
]

/** Spellings of the paths of users, right and wrong. */
const SPELLINGS = `
  /users /users/1 /users/1?x /users? /users/1;x /users/%31 /%75sers //users /users//1 /./users /users/. /users/..
  /Users /users/ /users# /users/1#x http://localhost/users http://localhost//users/1 HTTP://x/users/1? * /users/1%2F`
  .trim()
  .split(/\s+/)

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

type Port = Pick<TestApp, 'port'>

/** Sends a request, with each of several values of a header in a line of its own. */
function send({ port }: Port, line: string, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
  const [method = '', path = ''] = line.split(' ')
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', method, path, headers, agent: false }
    const sent = request(options, async response => {
      const { statusCode: status = 0, headers } = response
      resolve({ status, headers, body: await text(response) })
    })
    sent.on('error', reject).end()
  })
}

async function statusOf(of: Port, line: string, Authorization?: string | string[]) {
  return (await send(of, line, Authorization === undefined ? {} : { Authorization })).status
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

/** One key with all scopes, one that has expired, and one with each scope alone and with all but it. */
const app = shareKeyedApp(
  [
    { name: 'all' },
    { name: 'gone', expiresAt: 1 },
    ...SCOPES.flatMap(scope => [
      { name: `only.${scope.replace(':', '-')}`, scopes: [scope] },
      { name: `without.${scope.replace(':', '-')}`, scopes: SCOPES.filter(one => one !== scope) },
    ]),
  ],
  { env: { CORS_ORIGINS: ORIGIN, BODY_LIMIT: '1kb' } },
)

const bearerOf = (index: number) => app.bearers[index] ?? ''
const ofAll = () => bearerOf(0)
const ofExpired = () => bearerOf(1)
const ofOnly = (scope: Scope) => bearerOf(2 + 2 * SCOPES.indexOf(scope))
const ofOthers = (scope: Scope) => bearerOf(3 + 2 * SCOPES.indexOf(scope))

describe('without a key', () => {
  test.each([...OPERATIONS, ...OTHERS].map(([line]) => line))('%s is 401', async line => {
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

  test.each([
    ['GET /users/1', 'GET /users/2', 'GET /users/abc', 'GET /users/1/2', 'POST /users/1'],
    ['GET /users/1', 'GET /users/%'],
    ['GET /nowhere', 'GET /admin', 'DELETE /docs/x', 'GET /openapi.yaml'],
  ])('nothing tells which users, methods or paths exist: %s, %s', async (...lines) => {
    await app.http.post('/users').set('Authorization', ofAll()).send(newUserBody()).expect(201)
    const refusals: object[] = []
    for (const line of lines) refusals.push(refusalOf(await send(app, line)))
    expect(refusals).toEqual(refusals.map(() => refusals[0]))
  })

  test('nothing of the body is read, and nothing is changed', async () => {
    const auth = { Authorization: ofAll() }
    const { headers } = await app.http.post('/users').set(auth).send(newUserBody()).expect(201)
    const path = headers.location ?? ''
    const before = await app.http.get('/users').set(auth).expect(200)
    const json = { 'Content-Type': 'application/json' }
    for (const body of [newUserBody(), { user: { name: 'x'.repeat(2000) } }, '{"user":']) {
      await app.http.post('/users').set(json).send(body).expect(401)
      await app.http.put(path).set('Content-Type', 'text/plain').send('x').expect(401)
    }
    await app.http.delete(path).expect(401)
    expect((await app.http.get('/users').set(auth)).text).toBe(before.text)
  })

  test('a 401 is a problem document to a client that prefers one', async () => {
    const accept = { Accept: 'application/problem+json' }
    const { headers, body } = await app.http.get('/users/1').set(accept).expect(401)
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
    for (const path of ['/livez', '/readyz', '/', '/docs', '/openapi.json']) {
      const lines = [`GET ${path}`, `HEAD ${path}`, `OPTIONS ${path}`, `POST ${path}`]
      const statuses = []
      for (const line of lines) statuses.push(await statusOf(app, line))
      expect([path, ...statuses]).toEqual([path, 200, 200, 204, 405])
      expect(await statusOf(app, `GET ${path}`, 'Bearer nonsense')).toBe(200)
    }
    const { text: page } = await app.http.get('/docs').expect(200)
    const assets = [...page.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, path]) => path)
    expect(assets.length).toBeGreaterThan(3)
    for (const path of assets) expect(await statusOf(app, `GET /${path}`)).toBe(200)
  })

  test('a CORS preflight is answered, and allows the header Authorization', async () => {
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
    }
    expect((await send(app, 'GET /users', PREFLIGHT)).status).toBe(401)
  })

  test('a page of an allowed origin may read the 401', async () => {
    const { status, headers } = await send(app, 'GET /users', { Origin: ORIGIN })
    expect(status).toBe(401)
    expect(headers['access-control-allow-origin']).toBe(ORIGIN)
  })
})

describe('with a key', () => {
  test.each(OPERATIONS)('%s needs the scope %s', async (line, needed) => {
    expect([401, 403]).not.toContain(await statusOf(app, line, ofOnly(needed)))
    const { status, headers, body } = await send(app, line, { Authorization: ofOthers(needed) })
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
    expect(await statusOf(app, line, ofOnly('passwords:verify'))).toBe(status)
  })

  test('no spelling of a path gets around a scope', async () => {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
      for (const path of SPELLINGS) {
        const status = await statusOf(app, `${method} ${path}`, ofOnly('passwords:verify'))
        expect([400, 403, 404, 405], `${method} ${path}`).toContain(status)
      }
    }
  })

  test('users are created, read, changed and deleted as without keys', async () => {
    const { http } = app
    const auth = { Authorization: ofAll() }
    const { body: user } = await http.post('/users').set(auth).send(newUserBody()).expect(201)
    const path = `/users/${user.id}`
    await http.get(path).set(auth).expect(200, user)
    await http.get(`/users?email=${user.email}`).set(auth).expect(200, [user])
    await http
      .put(path)
      .set(auth)
      .send({ user: { name: 'Bea' } })
      .expect(200)
    await http.delete(path).set(auth).expect(204)
    await http.get(path).set(auth).expect(404)
  })

  test.each(['bearer', 'BEARER', 'BeArEr', 'Bearer '])(
    'the scheme may be sent as %j',
    async scheme => {
      const sent = ofAll().replace('Bearer', scheme)
      expect(await statusOf(app, 'GET /users', sent)).toBe(200)
    },
  )

  test('an unknown, an expired and a missing key get the same answer', async () => {
    const missing = refusalOf(await send(app, 'GET /users'))
    for (const Authorization of [ofExpired(), `Bearer ${unknownKey()}`]) {
      expect(refusalOf(await send(app, 'GET /users', { Authorization }))).toEqual(missing)
    }
  })

  test('a key is valid until the moment at which it expires', async () => {
    const clock = createFakeClock()
    const keys = [{ expiresAt: clock.now() + 1000 }]
    const expiring = await openKeyedApp(keys, { now: clock.now })
    const statuses = []
    for (const passedMs of [0, 999, 1]) {
      clock.advance(passedMs)
      statuses.push(await statusOf(expiring, 'GET /users', expiring.bearers[0]))
    }
    expect(statuses).toEqual([200, 200, 401])
  })

  test('a new key is accepted and a revoked one refused, without a restart', async () => {
    const { databaseUrl } = app
    const bearer = `Bearer ${await addKey(databaseUrl, { name: 'later' })}`
    await until(async () => (await statusOf(app, 'GET /users', bearer)) === 200)
    expect(await withKeyStore(databaseUrl, store => store.revoke('later'))).toBe(true)
    await until(async () => (await statusOf(app, 'GET /users', bearer)) === 401)
  })

  test('keys that are loaded stay valid while the database cannot tell of changes', async () => {
    const { databaseUrl, logLines, ...loaded } = await openKeyedApp([{ name: 'loaded' }])
    await executeSql(databaseUrl, 'DROP TABLE api_key_changes')
    await until(() => logLines.some(({ msg }) => /^cannot refresh API keys/.test(String(msg))))
    expect(await statusOf(loaded, 'GET /users', loaded.bearers[0])).toBe(200)
  })

  test('its last use is recorded in the background, and again when the service stops', async () => {
    const clock = createFakeClock()
    const used = await openKeyedApp([{ name: 'used' }, { name: 'unused' }], { now: clock.now })
    const use = () => statusOf(used, 'GET /users', used.bearers[0])
    const lastUses = () =>
      withKeyStore(used.databaseUrl, async store =>
        Object.fromEntries((await store.list()).map(key => [key.name, key.lastUsedAt])),
      )
    const first = clock.now()
    await use()
    await until(async () => (await lastUses()).used === first)
    clock.advance(30_000)
    await use()
    await used.stop()
    expect(await lastUses()).toEqual({ used: first + 30_000, unused: undefined })
  })
})

describe('an Authorization header', () => {
  test('that is given twice is 401, whichever of them is right', async () => {
    const all = ofAll()
    const others = [all, ofOnly('users:read'), 'Basic x', '']
    for (const other of others) {
      for (const sent of [
        [all, other],
        [other, all],
      ]) {
        expect([sent, await statusOf(app, 'GET /users', sent)]).toEqual([sent, 401])
      }
    }
  })

  test('of another form is 401, and never a fault', async () => {
    const key = ofAll().slice('Bearer '.length)
    const seen = app.logLines.length
    for (const sent of malformedAuthorizations(key)) {
      const headers = { Connection: 'close', Authorization: sent }
      const [answer] = await sendRaw(app.port, requestBytes('GET /users', headers)).ended
      // A header that is too large or has control characters is refused by the parser.
      const isRefusedByParser = [400, 431].includes(answer?.status ?? 0) && hasOddBytes(sent)
      expect([sent.slice(0, 80), isRefusedByParser ? 401 : answer?.status]).toEqual([
        sent.slice(0, 80),
        401,
      ])
    }
    expect(await statusOf(app, 'GET /users', ofAll())).toBe(200)
    // A busy machine may reach PostgreSQL too late.
    const isAboutBusyness = (msg: unknown) => /^database can(?:not)? be reached/.test(String(msg))
    const warnings = app.logLines.slice(seen).filter(({ level }) => Number(level) >= 40)
    expect(warnings.filter(({ msg }) => !isAboutBusyness(msg))).toEqual([])
  })

  test('is ignored with API_KEYS=off', async () => {
    const open = await openTestApp()
    for (const sent of [`Bearer ${unknownKey()}`, 'Bearer', 'x'.repeat(9000), ['a', 'b']]) {
      expect(await statusOf(open, 'GET /users', sent)).toBe(200)
    }
    expect(open.logLines.filter(line => 'key' in line || 'keyProblem' in line)).toEqual([])
  })
})

describe('the log', () => {
  test('has the name of the key, and why one is not valid', async () => {
    const reader = ofOnly('users:read')
    for (const [index, [line, sent, ...facts]] of [
      ['GET /users', reader, 200, 'only.users-read', undefined],
      ['GET /users', ofExpired(), 401, undefined, 'expired'],
      ['GET /users', `Bearer ${unknownKey()}`, 401, undefined, 'unknown'],
      ['GET /users', reader.slice(0, -1), 401, undefined, 'malformed'],
      ['GET /users', 'Basic x', 401, undefined, 'malformed'],
      ['GET /users', undefined, 401, undefined, 'missing'],
      ['DELETE /users/1', reader, 403, 'only.users-read', undefined],
      ['GET /openapi.json', `Bearer ${unknownKey()}`, 200, undefined, undefined],
    ].entries() as ArrayIterator<[number, [string, string | undefined, ...unknown[]]]>) {
      const id = `of-${index}`
      await send(app, line, { 'X-Request-Id': id, ...(sent && { Authorization: sent }) })
      const logged = await until(() => app.logLines.find(({ requestId }) => requestId === id))
      const { status, key, keyProblem } = logged
      expect([line, status, key, keyProblem]).toEqual([line, ...facts])
    }
  })

  test('says at the start that there is no key yet', async () => {
    const { logLines } = await openKeyedApp([])
    const msg = 'API_KEYS is required, but there is no key: make one with keys create'
    expect(logLines).toContainEqual(expect.objectContaining({ level: 40, msg }))
  })
})

/** Texts that are no credentials, most of them near the right ones. */
function malformedAuthorizations(key: string): readonly string[] {
  const near = ['', ' ', '\t', `\t${key}`, key, `:${key}`, ` ${key} x`, ` ${key},${key}`]
    .concat([` "${key}"`, ` token=${key}`, ` ${key}=`, ` ${key}\xa0`, ` \xa0${key}`])
    .concat([` ${key}\x00`, ` ${key.toUpperCase()}`, ` ${key.toLowerCase()}`])
    .concat([` ${'x'.repeat(8000)}`, ` ${key.repeat(100)}`, ` ${'x'.repeat(20_000)}`])
    .concat([` ${'Bearer '.repeat(1000)}`, ' __proto__', ' constructor', ' null', ' undefined'])
    .concat([" ' OR 1=1 --", ' %00', ' ../../etc/passwd', ' \xff\xfe\xfd', ' \x01\x02', ' \x7f'])
    .concat([' $key', ' {{key}}'])
  const base64 = Buffer.from(`user:${key}`).toString('base64')
  return [
    ...near.map(text => `Bearer${text}`),
    ...['', key, `Basic ${key}`, `Basic ${base64}`, `Digest username="x", response="${key}"`],
    ...[`Token ${key}`, `ApiKey ${key}`, `${' '.repeat(4000)}Bearer`],
    ...Array.from({ length: key.length - 1 }, (_, at) => {
      return `Bearer ${key.slice(0, at + 1)} ${key.slice(at + 1)}`
    }),
  ]
}

/** Whether the parser may refuse it before the application sees it. */
function hasOddBytes(text: string): boolean {
  return text.length > 16_000 || /[^\t\x20-\x7e\x80-\xff]/.test(text)
}
