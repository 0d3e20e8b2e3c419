import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { hashSync } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { spawnService } from '../support/spawn-service.ts'
import { executeSql, holdWrites } from '../support/sql.ts'

/** Each value is unique. None may leave the process except in the response to its client. */
const NAME = 'Markername'
const EMAIL = 'markermail@example.com'
const PASSWORD = 'markerpassword'
const KEY = 'markerkey-f47ac10b'

/** A digest that a successful verification replaces. */
const WEAK_DIGEST = hashSync(`${PASSWORD} again`, 4)

const MARKERS = /marker|\$argon2|\$2b/i

const LIMITS = {
  rateLimits: [
    { name: 'by address', to: 4, within: '1 hour', only: ['create'], by: 'body:user.email' },
    { name: 'by header', to: 1000, within: '1 hour', by: 'header:authorization', dryRun: true },
  ],
  track: [{ name: 'by query', query: { email: '*' } }],
  bans: [
    {
      name: 'by cookie',
      path: '/banned*',
      maxretry: 1,
      findtime: '1 hour',
      bantime: '1 hour',
      by: 'header:cookie',
    },
  ],
}

const SECRET_HEADERS = [
  'Authorization: Bearer markerauthorization',
  'Proxy-Authorization: Basic markerproxy',
  'X-Api-Key: markerapikey',
  'Referer: http://x/markerreferer',
  'Origin: https://markerorigin.example',
]

interface Sent {
  readonly headers?: readonly string[]
  readonly body?: string | Buffer | object
}

function requestOf(line: string, { headers = [], body }: Sent): Buffer {
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'object' ? JSON.stringify(body) : (body ?? ''))
  const type = headers.some(header => header.startsWith('Content-Type'))
    ? []
    : ['Content-Type: application/json']
  const length = body === undefined ? [] : [`Content-Length: ${bytes.length}`]
  const head = [
    `${line} HTTP/1.1`,
    'Host: x',
    'Connection: close',
    ...SECRET_HEADERS,
    ...type,
    ...length,
    ...headers,
  ]
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), bytes])
}

test('nothing that a client sent is on stdout or stderr of the built service, at LOG_LEVEL=trace', async () => {
  const cwd = temporaryFolder()
  const limitsFile = join(cwd, 'limits.mjs')
  writeFileSync(limitsFile, `export default ${JSON.stringify(LIMITS)}`)
  const env = {
    LOG_LEVEL: 'trace',
    BODY_LIMIT: '2kb',
    LIMITS_FILE: limitsFile,
    NODE_ENV: 'development',
  }
  const service = await spawnService({ cwd, env })
  const statuses: unknown[] = []
  async function send(line: string, sent: Sent = {}): Promise<void> {
    const [answer] = await sendRaw(service.port, requestOf(line, sent)).ended
    statuses.push(answer?.status)
  }
  const user = { name: NAME, email: EMAIL, password: PASSWORD }
  const keyed = { headers: [`Idempotency-Key: ${KEY}`], body: { user } }
  const databaseUrl = await databaseIn(cwd, join('data', 'users.db'))

  await send('POST /users', keyed)
  await send('POST /users', keyed)
  await send('POST /users', { ...keyed, body: { user: { ...user, name: 'Marker other' } } })
  await send('POST /users', {
    body: { user: { ...user, email: `x${EMAIL}` }, markerkey: 'marker' },
  })
  await send('PUT /users/1', {
    body: { user: { password: `${PASSWORD} again`, name: `${NAME} too` } },
  })
  await send('PUT /users/1', {
    body: { user: { password: PASSWORD } },
    headers: ['If-Match: "marker"'],
  })
  await send('PATCH /users/1', {
    body: { user: { email: 'marker@@', password: 'm', name: 'marker\0' } },
  })
  await send(`GET /users?email=${EMAIL}&name=${NAME}`)
  await send(`GET /users?sort=name&after=marker&markerparameter=1`, {
    headers: ['If-None-Match: "marker"'],
  })
  await send(`DELETE /users/${EMAIL}`)
  await send('POST /users', { body: `{"user":{"password":"${PASSWORD}"` })
  await send('POST /users', { body: Buffer.from(`{"user":"${PASSWORD}\xff"}`, 'latin1') })
  await send('POST /users', { body: `"${'marker'.repeat(1000)}"` })
  await send('POST /users', {
    body: gzipSync('marker'.repeat(100)).fill(0, 12),
    headers: ['Content-Encoding: gzip'],
  })
  await send('POST /users', { body: { user }, headers: ['Content-Encoding: marker'] })
  await send('POST /users', {
    body: 'password=marker',
    headers: ['Content-Type: text/marker; marker=x'],
  })
  await send('GET /users', { headers: ['Accept: text/marker'] })
  await send('POST /users', { body: { user }, headers: ['Idempotency-Key: marker key'] })
  await send('MARKER /users')
  await send('GET /users', { headers: ['marker marker'] })
  await send('GET /users', { headers: [`X-Long: ${'marker'.repeat(4000)}`] })
  await send('GET /marker%zz')
  await send('GET /banned/marker', { headers: ['Cookie: session=markercookie'] })
  await send('GET /users', { headers: ['Cookie: session=markercookie'] })
  const limited = { user: { ...user, email: 'marker-limited@example.com' } }
  for (const _ of [1, 2, 3, 4, 5]) await send('POST /users', { body: limited })

  const login = { user: { email: EMAIL, password: `${PASSWORD} again` } }
  await send('POST /password-verifications', { body: login })
  await send('POST /password-verifications', {
    body: { user: { ...login.user, password: PASSWORD } },
  })
  await executeSql(databaseUrl, `UPDATE users SET password_digest = '${WEAK_DIGEST}' WHERE id = 1`)
  await send('POST /password-verifications', { body: login })

  const held = await holdWrites(databaseUrl)
  await send('PUT /users/1', { body: { user: { name: 'Marker held' } } })
  await held.release()
  await executeSql(databaseUrl, 'DROP TABLE users')
  await send('PUT /users/1', { body: { user: { ...user, email: `y${EMAIL}` } } })
  await send(`GET /users?name=${NAME}`)

  const writes = [201, 201, 422, 201, 200, 412, 422]
  const refused = [200, 400, 404, 400, 400, 413, 400, 415, 415, 406, 400, 400, 400, 431, 400]
  expect(statuses).toEqual([
    ...writes,
    ...refused,
    404,
    403,
    201,
    422,
    422,
    422,
    429,
    200,
    422,
    200,
    503,
    500,
    500,
  ])
  service.process.kill('SIGTERM')
  const { code, stdout, stderr } = await service.exited
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout.split('\n').filter(line => MARKERS.test(line))).toEqual([])
  expect(stdout.match(/"level":"error"/g)).toHaveLength(2)
  expect(stdout.match(/"level":"warn"/g)?.length).toBeGreaterThanOrEqual(2)
})
