import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { askAndClose } from '../support/raw-request.ts'
import { shareTestApp } from '../support/shared-app.ts'

/** An empty variable counts as unset. */
const UNSET = { ALLOWED_HOSTS: '' }

const LOCAL = [
  ...['localhost', 'LOCALHOST', 'localhost.', 'users.localhost', 'a.b.Localhost:80'],
  ...['127.0.0.1', '127.0.0.2', '127.0.0.1.', '192.0.2.7', '[::1]', '[2001:db8::7]:8080'],
]

const FOREIGN = [
  ...['evil.example', 'EVIL.example:3000', 'localhost.evil.example', '127.0.0.1.evil.example'],
  ...['evillocalhost', '127.1', '.localhost.evil', ':3000', '2130706433'],
]

/** The status of `GET /users` for a Host. */
async function statusFor(app: TestApp, host: string, headers: Record<string, string> = {}) {
  const { status } = await app.http.get('/users').set({ ...headers, Host: host })
  return status
}

const forwarded = (host: string) => ({ 'X-Forwarded-Host': host })

/** The lines about refused hosts. */
function refusals({ logLines }: TestApp) {
  return logLines.filter(({ setting }) => setting === 'ALLOWED_HOSTS')
}

describe('without ALLOWED_HOSTS, on loopback', () => {
  const app = shareTestApp({ env: { ...UNSET, CORS_ORIGINS: '*' } })

  test.each(LOCAL)('a request for %s is served', async host => {
    expect(await statusFor(app, host)).toBe(200)
    expect(await statusFor(app, `${host.replace(/:\d+$/, '')}:${app.port}`)).toBe(200)
  })

  test.each(FOREIGN)('a request for %s is 421 and changes nothing', async host => {
    const { status, body } = await app.http.post('/users').set('Host', host).send(newUserBody())
    expect(status).toBe(421)
    expect(body).toEqual({
      message: 'This service does not answer to this host name',
      resource: 'User',
      code: 421,
      status: false,
      reason: 'host_not_allowed',
    })
    expect((await app.http.get('/users')).body).toEqual([])
  })

  // That it comes before all else is a claim of order.test.ts.
  test.each(['GET /%zz', 'DELETE /nowhere', 'OPTIONS /users', 'POST /users', 'GET /docs'])(
    'the 421 to %s has no CORS headers',
    async line => {
      const headers = { Host: 'evil.example', Origin: 'http://evil.example' }
      const answer = await askAndClose(app.port, line, headers)
      expect(answer.status).toBe(421)
      expect(Object.keys(answer.headers).join()).not.toMatch(/access-control/i)
    },
  )

  test('health checks are answered for any host', async () => {
    for (const path of ['/livez', '/readyz']) {
      await app.http.get(path).set('Host', 'pod-7').expect(200)
    }
  })

  test('a refusal is a problem document to a client that prefers one', async () => {
    const accept = { Host: 'evil.example', Accept: 'application/problem+json' }
    const { body } = await app.http.get('/users').set(accept).expect(421)
    expect(body).toMatchObject({ type: 'about:blank', status: 421, reason: 'host_not_allowed' })
  })

  test.each(['GET /users HTTP/1.0', 'GET /users HTTP/1.1\r\nHost: \r\nConnection: close'])(
    'HTTP/1.0 needs no Host, and an empty one asks for none: %j',
    async head => {
      const [answer] = await sendRaw(app.port, `${head}\r\n\r\n`).ended
      expect(answer?.status).toBe(200)
    },
  )

  test('no X-Forwarded-Host changes what a request asks for', async () => {
    expect(await statusFor(app, 'evil.example', forwarded('localhost'))).toBe(421)
    expect(await statusFor(app, 'localhost', forwarded('evil.example'))).toBe(200)
  })
})

test('ALLOWED_HOSTS lets only requests for its names and addresses pass, whatever their case, port or final dot', async () => {
  const names = 'Users.Example., other.example,192.0.2.1,[2001:DB8::1]'
  const app = await openTestApp({ env: { ALLOWED_HOSTS: names } })
  for (const host of [
    ...['users.example', 'USERS.example.:8443', 'other.example', '192.0.2.1:80'],
    ...['[2001:db8::1]', '[2001:db8:0:0:0:0:0:1]:80'],
  ]) {
    expect([host, await statusFor(app, host)]).toEqual([host, 200])
  }
  for (const host of ['localhost', '127.0.0.1', '[::1]', 'example', 'a.users.example']) {
    expect([host, await statusFor(app, host)]).toEqual([host, 421])
  }
})

test('ALLOWED_HOSTS as * allows any host', async () => {
  const app = await openTestApp({ env: { ALLOWED_HOSTS: '*' } })
  for (const host of [...LOCAL, ...FOREIGN]) {
    expect([host, await statusFor(app, host)]).toEqual([host, 200])
  }
})

test('ALLOWED_HOSTS is compared with the forwarded host behind a trusted proxy', async () => {
  const env = { ALLOWED_HOSTS: 'users.example', TRUST_PROXY: 'loopback' }
  const app = await openTestApp({ env })
  for (const [host, told, status] of [
    ['inside:3000', 'users.example', 200],
    ['inside:3000', 'Users.Example:443, inside', 200],
    ['users.example', 'evil.example', 421],
    ['users.example', '[fe80::1%eth0]', 421],
    ['evil.example', ':443', 421],
    ['evil.example', ',', 421],
    ['evil.example', ', users.example', 421],
    ['inside', undefined, 421],
    ['users.example', undefined, 200],
  ] as const) {
    const answered = await statusFor(app, host, told === undefined ? {} : forwarded(told))
    expect([host, told, answered]).toEqual([host, told, status])
  }
})

test.each([
  ['loopback', 200],
  ['1', 200],
  ['192.0.2.1', 200],
  ['0', 421],
])(
  'without ALLOWED_HOSTS, TRUST_PROXY=%s answers a request for any host with %d',
  async (trust, status) => {
    const app = await openTestApp({ env: { ...UNSET, TRUST_PROXY: trust } })
    expect(await statusFor(app, 'users.example')).toBe(status)
  },
)

test('a refused host is logged once, at warn and with the name of the setting, and at most ten a second', async () => {
  let now = Date.UTC(2026, 0, 31)
  const app = await openTestApp({ env: UNSET, now: () => now })
  for (const host of ['evil.example', 'evil.example:80', 'EVIL.example.', 'other.example']) {
    expect(await statusFor(app, host)).toBe(421)
  }
  const msg = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  expect(refusals(app)).toMatchObject([
    { level: 40, msg, host: 'evil.example' },
    { level: 40, msg, host: 'other.example' },
  ])
  for (let number = 0; number < 28; number++) await statusFor(app, `evil-${number}.example`)
  expect(refusals(app)).toHaveLength(10)
  now += 1000
  expect(await statusFor(app, 'late.example')).toBe(421)
  expect(refusals(app).slice(10)).toMatchObject([{ host: 'late.example', leftOut: 20 }])
})
