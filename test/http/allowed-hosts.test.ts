import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

/** An empty variable counts as unset. */
const UNSET = { ALLOWED_HOSTS: '' }

const LOCAL = [
  'localhost',
  'LOCALHOST',
  'localhost.',
  'users.localhost',
  'a.b.Localhost:80',
  '127.0.0.1',
  '127.0.0.2',
  '127.0.0.1.',
  '192.0.2.7',
  '[::1]',
  '[2001:db8::7]:8080',
]

const FOREIGN = [
  'evil.example',
  'EVIL.example:3000',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  'evillocalhost',
  '127.1',
  '.localhost.evil',
  ':3000',
  '2130706433',
]

/** The status of `GET /users` for a Host. */
async function statusFor(app: TestApp, host: string, headers: Record<string, string> = {}) {
  const { status } = await app.http.get('/users').set({ ...headers, Host: host })
  return status
}

/** The lines about refused hosts. */
function refusals({ logLines }: TestApp) {
  return logLines.filter(({ setting }) => setting === 'ALLOWED_HOSTS')
}

describe('without ALLOWED_HOSTS, on loopback', () => {
  test.each(LOCAL)('a request for %s is served', async host => {
    const app = await openTestApp({ env: UNSET })
    expect(await statusFor(app, host)).toBe(200)
    expect(await statusFor(app, `${host.replace(/:\d+$/, '')}:${app.port}`)).toBe(200)
    expect(refusals(app)).toEqual([])
  })

  test.each(FOREIGN)('a request for %s is 421 and changes nothing', async host => {
    const app = await openTestApp({ env: UNSET })
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

  test('a request for a foreign host is 421 before anything else that is wrong with it, without CORS headers', async () => {
    const limits = { blocklist: [{ name: 'all' }] }
    const app = await openTestApp({ limits, env: { ...UNSET, CORS_ORIGINS: '*' } })
    for (const line of [
      'GET /%zz',
      'DELETE /nowhere',
      'OPTIONS /users',
      'POST /users',
      'GET /docs',
    ]) {
      const head = `${line} HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n`
      const [answer] = await sendRaw(app.port, `${head}Connection: close\r\n\r\n`).ended
      expect([line, answer?.status]).toEqual([line, 421])
      expect(Object.keys(answer?.headers ?? {}).join()).not.toMatch(/access-control/i)
    }
    expect(await statusFor(app, 'localhost')).toBe(403)
  })

  test('health checks are answered for any host', async () => {
    const { http } = await openTestApp({ env: UNSET })
    for (const path of ['/livez', '/readyz']) await http.get(path).set('Host', 'pod-7').expect(200)
  })

  test('a refusal is a problem document to a client that prefers one', async () => {
    const { http } = await openTestApp({ env: UNSET })
    const accept = { Host: 'evil.example', Accept: 'application/problem+json' }
    const { body } = await http.get('/users').set(accept).expect(421)
    expect(body).toMatchObject({ type: 'about:blank', status: 421, reason: 'host_not_allowed' })
  })

  test('HTTP/1.0 needs no Host, and an empty one asks for none', async () => {
    const { port } = await openTestApp({ env: UNSET })
    for (const head of [
      'GET /users HTTP/1.0',
      'GET /users HTTP/1.1\r\nHost: \r\nConnection: close',
    ]) {
      const [answer] = await sendRaw(port, `${head}\r\n\r\n`).ended
      expect([head, answer?.status]).toEqual([head, 200])
    }
  })

  test('no X-Forwarded-Host changes what a request asks for', async () => {
    const app = await openTestApp({ env: UNSET })
    const forwarded = (host: string) => ({ 'X-Forwarded-Host': host })
    expect(await statusFor(app, 'evil.example', forwarded('localhost'))).toBe(421)
    expect(await statusFor(app, 'localhost', forwarded('evil.example'))).toBe(200)
  })
})

describe('ALLOWED_HOSTS', () => {
  test('lets only requests for its names and addresses pass, whatever their case, port or final dot', async () => {
    const names = 'Users.Example., other.example,192.0.2.1,[2001:DB8::1]'
    const app = await openTestApp({ env: { ALLOWED_HOSTS: names } })
    for (const host of [
      'users.example',
      'USERS.example.:8443',
      'other.example',
      '192.0.2.1:80',
      '[2001:db8::1]',
      '[2001:db8:0:0:0:0:0:1]:80',
    ]) {
      expect([host, await statusFor(app, host)]).toEqual([host, 200])
    }
    for (const host of ['localhost', '127.0.0.1', '[::1]', 'example', 'a.users.example']) {
      expect([host, await statusFor(app, host)]).toEqual([host, 421])
    }
  })

  test('as * allows any host', async () => {
    const app = await openTestApp({ env: { ALLOWED_HOSTS: '*' } })
    for (const host of [...LOCAL, ...FOREIGN]) {
      expect([host, await statusFor(app, host)]).toEqual([host, 200])
    }
  })

  test('is compared with the forwarded host behind a trusted proxy', async () => {
    const env = { ALLOWED_HOSTS: 'users.example', TRUST_PROXY: 'loopback' }
    const app = await openTestApp({ env })
    const forwarded = (host: string) => ({ 'X-Forwarded-Host': host })
    expect(await statusFor(app, 'inside:3000', forwarded('users.example'))).toBe(200)
    expect(await statusFor(app, 'inside:3000', forwarded('Users.Example:443, inside'))).toBe(200)
    expect(await statusFor(app, 'users.example', forwarded('evil.example'))).toBe(421)
    expect(await statusFor(app, 'users.example', forwarded('[fe80::1%eth0]'))).toBe(421)
    for (const nameless of [':443', ',', ', users.example']) {
      const status = await statusFor(app, 'evil.example', forwarded(nameless))
      expect([nameless, status]).toEqual([nameless, 421])
    }
    expect(await statusFor(app, 'inside')).toBe(421)
    expect(await statusFor(app, 'users.example')).toBe(200)
  })

  test.each([
    ['loopback', 200],
    ['1', 200],
    ['192.0.2.1', 200],
    ['0', 421],
  ])('unset with TRUST_PROXY=%s answers a request for any host with %d', async (trust, status) => {
    const app = await openTestApp({ env: { ...UNSET, TRUST_PROXY: trust } })
    expect(await statusFor(app, 'users.example')).toBe(status)
  })
})

test('a refused host is logged once, at warn and with the name of the setting', async () => {
  const app = await openTestApp({ env: UNSET })
  for (const host of ['evil.example', 'evil.example:80', 'EVIL.example.', 'other.example']) {
    expect(await statusFor(app, host)).toBe(421)
  }
  const message = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  const line = { level: 40, setting: 'ALLOWED_HOSTS', msg: message }
  expect(refusals(app)).toEqual([
    expect.objectContaining({ ...line, host: 'evil.example' }),
    expect.objectContaining({ ...line, host: 'other.example' }),
  ])
})

test('at most ten lines about refused hosts are written in a second', async () => {
  let now = Date.UTC(2026, 0, 31)
  const app = await openTestApp({ env: UNSET, now: () => now })
  for (let number = 0; number < 30; number++) {
    expect(await statusFor(app, `evil-${number}.example`)).toBe(421)
  }
  expect(refusals(app)).toHaveLength(10)
  now += 1000
  expect(await statusFor(app, 'late.example')).toBe(421)
  expect(refusals(app).slice(10)).toMatchObject([{ host: 'late.example', leftOut: 20 }])
})
