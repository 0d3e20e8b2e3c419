import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

/** An empty variable counts as unset. */
const UNSET = { ALLOWED_HOSTS: '' }

/** The status of `GET /users` for a Host. */
async function statusFor(app: TestApp, host: string, headers: Record<string, string> = {}) {
  const { status } = await app.http.get('/users').set({ ...headers, Host: host })
  return status
}

const forwarded = (host: string) => ({ 'X-Forwarded-Host': host })

const served = (host: string): [string, string, number] => [host, '', 200]
const refused = (host: string): [string, string, number] => [host, '', 421]

describe('without ALLOWED_HOSTS, on loopback', () => {
  const app = shareTestApp({ env: { ...UNSET, CORS_ORIGINS: '*' } })

  test.each([
    ...['localhost', 'LOCALHOST', 'localhost.', 'users.localhost', 'a.b.Localhost:80'],
    ...['127.0.0.1', '127.0.0.1.', '192.0.2.7:3000', '[::1]', '[2001:db8::7]:8080'],
  ])('a request for %s is served', async host => {
    expect(await statusFor(app, host)).toBe(200)
  })

  test.each([
    ...['evil.example', 'EVIL.example:3000', 'localhost.evil.example', '127.0.0.1.evil.example'],
    ...['evillocalhost', '127.1', ':3000', '2130706433'],
  ])('a request for %s is 421, without CORS headers, and changes nothing', async Host => {
    const headers = { Host, Origin: 'http://evil.example' }
    const answer = await app.http.post('/users').set(headers).send(newUserBody()).expect(421)
    expect(answer.body).toEqual({
      message: 'This service does not answer to this host name',
      resource: 'User',
      code: 421,
      status: false,
      reason: 'host_not_allowed',
    })
    expect(Object.keys(answer.headers).join()).not.toMatch(/access-control/i)
    expect((await app.http.get('/users')).body).toEqual([])
  })

  test('health checks are answered for any host', async () => {
    for (const path of ['/livez', '/readyz']) {
      await app.http.get(path).set('Host', 'pod-7').expect(200)
    }
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

describe.each<[what: string, trust: string, rows: [host: string, told: string, status: number][]]>([
  [
    'with ALLOWED_HOSTS, whatever the case, port or final dot',
    '0',
    [
      ...['users.example', 'USERS.example.:8443', 'other.example', '192.0.2.1:80'].map(served),
      ['[2001:db8:0:0:0:0:0:1]:80', '', 200],
      ...['localhost', '127.0.0.1', 'example', 'a.users.example'].map(refused),
    ],
  ],
  [
    'with ALLOWED_HOSTS behind a trusted proxy',
    'loopback',
    [
      ['inside:3000', 'users.example', 200],
      ['inside:3000', 'Users.Example:443, inside', 200],
      ['users.example', 'evil.example', 421],
      ['evil.example', ':443', 421],
      ['evil.example', ', users.example', 421],
      ['inside', '', 421],
      ['users.example', '', 200],
    ],
  ],
])('%s', (_what, TRUST_PROXY, rows) => {
  const names = 'Users.Example., other.example,192.0.2.1,[2001:DB8::1]'
  const app = shareTestApp({ env: { ALLOWED_HOSTS: names, TRUST_PROXY } })

  test.each(rows)('Host %s with X-Forwarded-Host %j is %d', async (host, told, status) => {
    expect(await statusFor(app, host, told === '' ? {} : forwarded(told))).toBe(status)
  })
})

test.each([
  ['*', '0', 200],
  ['', 'loopback', 200],
  ['', '192.0.2.1', 200],
  ['', '0', 421],
])('ALLOWED_HOSTS=%s and TRUST_PROXY=%s answer a request for any host with %d', async (...row) => {
  const [hosts, trust, status] = row
  const app = await openTestApp({ env: { ALLOWED_HOSTS: hosts, TRUST_PROXY: trust } })
  expect(await statusFor(app, 'users.example')).toBe(status)
})

test('a refused host is logged once, at warn and with the name of the setting, and at most ten a second', async () => {
  let now = Date.UTC(2026, 0, 31)
  const app = await openTestApp({ env: UNSET, now: () => now })
  const refusals = () => app.logLines.filter(({ setting }) => setting === 'ALLOWED_HOSTS')
  for (const host of ['evil.example', 'EVIL.example.:80', 'other.example']) {
    expect(await statusFor(app, host)).toBe(421)
  }
  const msg = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  expect(refusals()).toMatchObject([
    { level: 40, msg, host: 'evil.example' },
    { level: 40, msg, host: 'other.example' },
  ])
  for (let number = 0; number < 28; number++) await statusFor(app, `evil-${number}.example`)
  expect(refusals()).toHaveLength(10)
  now += 1000
  expect(await statusFor(app, 'late.example')).toBe(421)
  expect(refusals().slice(10)).toMatchObject([{ host: 'late.example', leftOut: 20 }])
  for (const host of ['evil.example', 'evil-27.example']) await statusFor(app, host)
  expect(refusals().slice(11)).toMatchObject([{ host: 'evil-27.example' }])
})
