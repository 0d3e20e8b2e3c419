import { describe, expect, test } from 'vitest'
import { SCOPES, type Scope } from '../../src/access/api-key.ts'
import { addKey, unknownKey, withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { askAndClose, type RawAnswer, type RawHeaders } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'
import { until } from '../support/until.ts'

hurryPolls()

const ORIGIN = 'https://app.example'

/** Each operation on users, with the scope that it needs. */
const OPERATIONS: readonly (readonly [line: string, scope: Scope])[] = [
  ['GET /users', 'users:read'],
  ['HEAD /users', 'users:read'],
  ['GET /users/1', 'users:read'],
  ['GET /users/abc', 'users:read'],
  ['GET /users?nonsense=1', 'users:read'],
  ['POST /users', 'users:write'],
  ['PUT /users/1', 'users:write'],
  ['PATCH /users/1', 'users:write'],
  ['DELETE /users/998', 'users:write'],
  ['DELETE /users?id=998', 'users:write'],
  ['POST /password-verifications', 'passwords:verify'],
]

/** Requests that need a key and no scope, with what they get then. */
const OTHERS: readonly (readonly [line: string, status: number])[] = [
  ...['/nowhere', '/users/', '//users', '/USERS', '/docs/x'].map(
    path => [`GET ${path}`, 404] as const,
  ),
  ['GET /%zz', 400],
  ['PUT /users', 405],
  ['PROPFIND /users', 405],
  ['OPTIONS /users', 204],
]

/** Spellings of the paths of users, right and wrong. */
const SPELLINGS = `
  /users /users/1 /users/1?x /users? /users/1;x /users/%31 /%75sers //users /users//1 /./users /users/. /users/..
  /Users /users/ /users# /users/1#x http://localhost/users http://localhost//users/1 HTTP://x/users/1? * /users/1%2F`
  .trim()
  .split(/\s+/)

type Port = Pick<TestApp, 'port'>

const send = ({ port }: Port, line: string, headers?: RawHeaders) =>
  askAndClose(port, line, headers)

async function statusOf(of: Port, line: string, Authorization?: string | string[]) {
  return (await send(of, line, Authorization === undefined ? {} : { Authorization })).status
}

const REALM = 'Bearer realm="user-records"'

/** What is refused, apart from the id of the request. */
function refusalOf({ status, headers, body }: RawAnswer) {
  const { 'www-authenticate': challenge, 'content-length': length } = headers
  return { status, challenge, length, body }
}

/** One key with all scopes, one that has expired, and one with each scope alone and with all but it. */
const app = shareTestApp({
  keys: [
    { name: 'all' },
    { name: 'gone', expiresAt: 1 },
    ...SCOPES.flatMap(scope => [
      { name: `only.${scope.replace(':', '-')}`, scopes: [scope] },
      { name: `without.${scope.replace(':', '-')}`, scopes: SCOPES.filter(one => one !== scope) },
    ]),
  ],
  env: { CORS_ORIGINS: ORIGIN, BODY_LIMIT: '1kb' },
})

const bearerOf = (index: number) => app.bearers[index] ?? ''
const ofAll = () => bearerOf(0)
const ofExpired = () => bearerOf(1)
const ofOnly = (scope: Scope) => bearerOf(2 + 2 * SCOPES.indexOf(scope))
const ofOthers = (scope: Scope) => bearerOf(3 + 2 * SCOPES.indexOf(scope))

describe('without a key', () => {
  test.each([...OPERATIONS, ...OTHERS].map(([line]) => line))('%s is 401', async line => {
    const { status, headers, body } = await send(app, line)
    expect(status).toBe(401)
    expect(headers).toMatchObject({ 'www-authenticate': REALM, 'cache-control': 'no-store' })
    if (line.startsWith('HEAD')) return
    expect(JSON.parse(body)).toEqual({
      message: 'A valid API key is required',
      resource: /^\S+ \/users(?:[/?]|$)/.test(line) ? 'User' : 'Request',
      code: 401,
      status: false,
      reason: 'key_required',
    })
  })

  test.each([
    ['GET /users/1', 'GET /users/2', 'GET /users/abc', 'GET /users/%', 'POST /users/1'],
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
    for (const body of [newUserBody(), { user: { name: 'x'.repeat(2000) } }, '{"user":']) {
      await app.http.post('/users').set('Content-Type', 'application/json').send(body).expect(401)
      await app.http.put(path).set('Content-Type', 'text/plain').send('x').expect(401)
    }
    await app.http.delete(path).expect(401)
    expect((await app.http.get('/users').set(auth)).text).toBe(before.text)
  })

  test('health checks, pages and the document are open', async () => {
    for (const path of ['/livez', '/readyz', '/', '/docs', '/openapi.json']) {
      const statuses = []
      for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST']) {
        statuses.push(await statusOf(app, `${method} ${path}`))
      }
      expect([path, ...statuses]).toEqual([path, 200, 200, 204, 405])
      expect(await statusOf(app, `GET ${path}`, 'Bearer nonsense')).toBe(200)
    }
    const { message } = (await app.http.get('/').expect(200)).body
    expect(message).toMatch(/ need an API key: "Authorization: Bearer KEY"\.$/)
    const { text: page } = await app.http.get('/docs').expect(200)
    const [, file] = /src="(docs\/[^"]+)"/.exec(page) ?? []
    expect(await statusOf(app, `GET /${file}`)).toBe(200)
  })

  test('a CORS preflight is answered, and a page of an allowed origin may read the 401', async () => {
    const preflight = { Origin: ORIGIN, 'Access-Control-Request-Method': 'DELETE' }
    const asked = { ...preflight, 'Access-Control-Request-Headers': 'authorization' }
    const { status, headers } = await send(app, 'OPTIONS /users/1', asked)
    expect(status).toBe(204)
    expect(headers).toMatchObject({
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-headers': 'authorization',
      'access-control-allow-methods': expect.stringContaining('DELETE'),
    })
    for (const left of ['Origin', 'Access-Control-Request-Method'] as const) {
      const { [left]: _left, ...others } = preflight
      expect((await send(app, 'OPTIONS /users', others)).status).toBe(401)
    }
    const refusal = await send(app, 'GET /users', preflight)
    expect([refusal.status, refusal.headers['access-control-allow-origin']]).toEqual([401, ORIGIN])
  })
})

describe('with a key', () => {
  test.each(OPERATIONS)('%s needs the scope %s', async (line, needed) => {
    expect([401, 403]).not.toContain(await statusOf(app, line, ofOnly(needed)))
    const { status, headers, body } = await send(app, line, { Authorization: ofOthers(needed) })
    expect(status).toBe(403)
    const challenge = `${REALM}, error="insufficient_scope", scope="${needed}"`
    expect(headers['www-authenticate']).toBe(challenge)
    if (line.startsWith('HEAD')) return
    expect(JSON.parse(body)).toMatchObject({
      message: `The API key lacks the scope ${needed}`,
      code: 403,
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

  test.each(['bearer', 'BEARER', 'Bearer '])('the scheme may be sent as %j', async scheme => {
    expect(await statusOf(app, 'GET /users', ofAll().replace('Bearer', scheme))).toBe(200)
  })

  test('an unknown, an expired and a mistyped key get the same answer, which tells a missing one apart', async () => {
    const missing = refusalOf(await send(app, 'GET /users'))
    for (const Authorization of [
      ofExpired(),
      `Bearer ${unknownKey()}`,
      `${ofAll()}x`,
      'Bearer x',
    ]) {
      expect(refusalOf(await send(app, 'GET /users', { Authorization }))).toEqual({
        ...missing,
        challenge: `${REALM}, error="invalid_token"`,
      })
    }
    for (const Authorization of [`Basic ${btoa('ann:secret')}`, 'Bearer']) {
      expect(refusalOf(await send(app, 'GET /users', { Authorization }))).toEqual(missing)
    }
  })

  test('a new key is accepted and a revoked one refused, without a restart', async () => {
    const { databaseUrl } = app
    const bearer = `Bearer ${await addKey(databaseUrl, { name: 'later' })}`
    await until(async () => (await statusOf(app, 'GET /users', bearer)) === 200)
    expect(await withKeyStore(databaseUrl, store => store.revoke('later'))).toBe(true)
    await until(async () => (await statusOf(app, 'GET /users', bearer)) === 401)
  })

  test('keys that are loaded stay valid while the database cannot tell of changes', async () => {
    const { databaseUrl, logLines, ...loaded } = await openTestApp({ keys: [{ name: 'loaded' }] })
    await executeSql(databaseUrl, 'DROP TABLE api_key_changes')
    await until(() => logLines.some(({ msg }) => /^cannot refresh API keys/.test(String(msg))))
    expect(await statusOf(loaded, 'GET /users', loaded.bearers[0])).toBe(200)
  })

  test('its last use is recorded in the background, and again when the service stops', async () => {
    const clock = createFakeClock()
    const used = await openTestApp({ keys: [{ name: 'used' }, { name: 'unused' }], now: clock.now })
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

test.each([
  'GET /users/%41%zz',
  'OPTIONS /users/%41%zz',
  'GET /docs/%41%zz/x',
  'POST /docs/%41%zz/x',
])(
  '%s, which cannot be decoded, is refused after the check of the key, and shown as it was sent',
  async line => {
    const headers = { Authorization: ofAll(), Accept: 'application/problem+json' }
    const { status, body } = await send(app, line, headers)
    const instance = line.split(' ')[1]?.replace('%zz', '%25zz')
    expect([status, JSON.parse(body)]).toMatchObject([400, { reason: 'path_malformed', instance }])
  },
)

describe('an Authorization header', () => {
  test('that is given twice is 401, as for a key that does not count, whichever of them is right', async () => {
    const all = ofAll()
    const refused = { status: 401, challenge: `${REALM}, error="invalid_token"` }
    for (const other of [all, ofOnly('users:read'), 'Basic x', '']) {
      for (const Authorization of [
        [all, other],
        [other, all],
      ]) {
        expect(refusalOf(await send(app, 'GET /users', { Authorization }))).toMatchObject(refused)
      }
    }
  })

  test('of another form is 401, and never a fault', async () => {
    const key = ofAll().slice('Bearer '.length)
    const seen = app.logLines.length
    for (const sent of malformedAuthorizations(key)) {
      // A header that is too large or has control characters is refused by the parser.
      const isOdd = sent.length > 16_000 || /[^\t\x20-\x7e\x80-\xff]/.test(sent)
      const statuses = isOdd ? [400, 401, 431] : [401]
      expect(statuses, sent.slice(0, 80)).toContain(await statusOf(app, 'GET /users', sent))
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
  test.each<[string, () => string | undefined, number, string | undefined, string | undefined]>([
    ['GET /users', () => ofOnly('users:read'), 200, 'only.users-read', undefined],
    ['GET /users', ofExpired, 401, undefined, 'expired'],
    ['GET /users', () => `Bearer ${unknownKey()}`, 401, undefined, 'unknown'],
    ['GET /users', () => ofAll().slice(0, -1), 401, undefined, 'malformed'],
    ['GET /users', () => undefined, 401, undefined, 'missing'],
    ['DELETE /users/1', () => ofOnly('users:read'), 403, 'only.users-read', undefined],
    ['GET /openapi.json', () => `Bearer ${unknownKey()}`, 200, undefined, undefined],
  ])('has the name of the key, and why one is not valid: %s, %s', async (line, sent, ...facts) => {
    const Authorization = sent()
    const { headers } = await send(app, line, Authorization ? { Authorization } : {})
    const id = headers['x-request-id']
    const logged = await until(() => app.logLines.find(({ requestId }) => requestId === id))
    const { status, key, keyProblem } = logged
    expect([status, key, keyProblem]).toEqual(facts)
  })

  test('warns of a service that needs a key while there is no key yet', async () => {
    const { logLines } = await openTestApp({ keys: [] })
    const msg = 'API_KEYS is required, but there is no key: make one with keys create'
    expect(logLines).toContainEqual(expect.objectContaining({ level: 40, msg }))
  })
})

/** Texts that are no credentials, most of them near the right ones. */
function malformedAuthorizations(key: string): readonly string[] {
  const near = ['', ' ', `\t${key}`, key, `:${key}`, ` ${key} x`, ` ${key},${key}`, ` "${key}"`]
    .concat([` token=${key}`, ` ${key}=`, ` ${key}\xa0`, ` \xa0${key}`, ` ${key}\x00`])
    .concat([` ${key.toUpperCase()}`, ` ${'x'.repeat(8000)}`, ` ${key.repeat(100)}`])
    .concat([` ${'x'.repeat(20_000)}`, ' __proto__', " ' OR 1=1 --", ' %00', ' \xff\xfe\xfd'])
    .concat([` ${key.slice(0, 9)} ${key.slice(9)}`, ' \x01\x02'])
  const base64 = Buffer.from(`user:${key}`).toString('base64')
  return [
    ...near.map(text => `Bearer${text}`),
    ...['', key, `Basic ${key}`, `Basic ${base64}`, `Token ${key}`, `${' '.repeat(4000)}Bearer`],
  ]
}
