import { gzipSync } from 'node:zlib'
import { hashSync } from '@node-rs/bcrypt'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openTestApp } from '../support/open-test-app.ts'
import { AS_JSON, askAndClose, type RawHeaders } from '../support/raw-http.ts'
import { executeSql, holdWrites } from '../support/sql.ts'

/** Each value is unique. None may leave the process except in the response to its client. */
const USER = { name: 'Markername', email: 'markermail@example.com', password: 'markerpassword' }
const CHANGED = { password: 'markerpassword again', name: 'Markername too' }
const LOGIN = { user: { email: USER.email, password: CHANGED.password } }
const KEY = { 'Idempotency-Key': 'markerkey-f47ac10b' }

/** A digest that a successful verification replaces. */
const WEAK_DIGEST = hashSync(CHANGED.password, 4)

const MARKERS = /marker|\$argon2|\$2b/i

const HOUR = '1 hour'

const LIMITS = {
  rateLimits: [
    { name: 'by address', to: 4, within: HOUR, only: ['create'], by: 'body:user.email' },
    { name: 'by header', to: 1000, within: HOUR, by: 'header:authorization', dryRun: true },
  ],
  track: [{ name: 'by query', query: { email: '*' } }],
  bans: [
    {
      ...{ name: 'by cookie', path: '/banned*', by: 'header:cookie' },
      ...{ maxretry: 1, findtime: HOUR, bantime: HOUR },
    },
  ],
}

const SECRET_HEADERS = {
  ...AS_JSON,
  Authorization: 'Bearer markerauthorization',
  'Proxy-Authorization': 'Basic markerproxy',
  'X-Api-Key': 'markerapikey',
  Referer: 'http://x/markerreferer',
  Origin: 'https://markerorigin.example',
}

const COOKIE = { Cookie: 'session=markercookie' }

type Row = readonly [number, line: string, body?: string | Buffer | object, headers?: RawHeaders]

const LIMITED = { user: { ...USER, email: 'marker-limited@example.com' } }

const ROWS: readonly Row[] = [
  [201, 'POST /users', { user: USER }, KEY],
  [201, 'POST /users', { user: USER }, KEY],
  [422, 'POST /users', { user: { ...USER, name: 'Marker other' } }, KEY],
  [
    201,
    'POST /users',
    { user: { ...USER, email: 'xmarkermail@example.com' }, markerkey: 'marker' },
  ],
  [200, 'PUT /users/1', { user: CHANGED }],
  [412, 'PUT /users/1', { user: { password: USER.password } }, { 'If-Match': '"marker"' }],
  [422, 'PATCH /users/1', { user: { email: 'marker@@', password: 'm', name: 'marker\0' } }],
  [200, `GET /users?email=${USER.email}&name=${USER.name}`],
  [400, 'GET /users?sort=name&after=marker&markerparameter=1', '', { 'If-None-Match': '"marker"' }],
  [404, `DELETE /users/${USER.email}`],
  [404, `GET /users/${USER.email}`],
  [404, 'GET /markerpath'],
  [405, 'POST /users/1', { user: USER }],
  [400, 'POST /users', `{"user":{"password":"${USER.password}"`],
  [400, 'POST /users', Buffer.from(`{"user":"${USER.password}\xff"}`, 'latin1')],
  [413, 'POST /users', `"${'marker'.repeat(1000)}"`],
  [400, 'POST /users', gzipSync('marker'.repeat(100)).fill(0, 12), { 'Content-Encoding': 'gzip' }],
  [400, 'POST /users', { user: USER }, { 'Content-Encoding': 'gzip' }],
  [415, 'POST /users', { user: USER }, { 'Content-Encoding': 'marker' }],
  [415, 'POST /users', 'password=marker', { 'Content-Type': 'text/marker; marker=x' }],
  [406, 'GET /users', '', { Accept: 'text/marker' }],
  [400, 'POST /users', { user: USER }, { 'Idempotency-Key': 'marker key' }],
  [400, 'MARKER /users'],
  [400, 'GET /users', '', { 'marker marker': '' }],
  [400, 'CONNECT marker:443'],
  [431, 'GET /users', '', { 'X-Long': 'marker'.repeat(4000) }],
  [400, 'GET /marker%zz'],
  [404, 'GET /banned/marker', '', COOKIE],
  [403, 'GET /users', '', COOKIE],
  ...[201, 422, 422, 422, 429].map(status => [status, 'POST /users', LIMITED] as const),
  [200, 'POST /password-verifications', LOGIN],
  [422, 'POST /password-verifications', { user: { ...LOGIN.user, password: USER.password } }],
]

test('nothing that a client sent is in any line or on standard error, at LOG_LEVEL=trace', async () => {
  // Express prints errors that reach its own handler, unless NODE_ENV is "test".
  vi.stubEnv('NODE_ENV', 'development')
  const printed = vi.spyOn(console, 'error')
  onTestFinished(() => {
    vi.unstubAllEnvs()
    printed.mockRestore()
  })
  const app = await openTestApp({ limits: LIMITS, env: { BODY_LIMIT: '2kb' } })
  async function expectAll(rows: readonly Row[]): Promise<void> {
    for (const [status, line, body = '', headers = {}] of rows) {
      const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
      const bytes = isRaw ? body : JSON.stringify(body)
      const answer = await askAndClose(app.port, line, { ...SECRET_HEADERS, ...headers }, bytes)
      expect([line, answer.status]).toEqual([line, status])
    }
  }

  await expectAll(ROWS)
  const weaken = `UPDATE users SET password_digest = '${WEAK_DIGEST}' WHERE id = 1`
  await executeSql(app.databaseUrl, weaken)
  await expectAll([[200, 'POST /password-verifications', LOGIN]])
  const held = await holdWrites(app.databaseUrl)
  await expectAll([[503, 'PUT /users/1', { user: { name: 'Marker held' } }]])
  await held.release()
  await executeSql(app.databaseUrl, 'DROP TABLE users')
  await expectAll([
    [500, 'PUT /users/1', { user: { ...USER, email: 'ymarkermail@example.com' } }],
    [500, `GET /users?name=${USER.name}`],
  ])
  await app.stop()

  expect(app.logText.filter(line => MARKERS.test(line))).toEqual([])
  const levels = app.logLines.map(({ level }) => level)
  expect(levels.filter(level => level === 50)).toHaveLength(2)
  expect(levels.filter(level => level === 40).length).toBeGreaterThanOrEqual(2)
  expect(printed).not.toHaveBeenCalled()
})
