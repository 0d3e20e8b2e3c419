import { describe, expect, test } from 'vitest'
import { findFreePort } from '../../support/free-port.ts'
import {
  BEARER,
  openManagedApp,
  shareManagedApp,
  TOKEN,
} from '../../support/management-requests.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { runCommand, stderrOf } from '../../support/run-command.ts'

const NO_TOKEN = 'Bearer realm="user-records"'
const INVALID_TOKEN = `${NO_TOKEN}, error="invalid_token"`
const WITH_TOKEN = { MANAGEMENT_TOKEN: TOKEN }

/** The answer to `GET` with exactly these lines of a head. */
async function get(port: number, path: string, lines: string) {
  const head = `GET ${path} HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`
  return (await sendRaw(port, head).ended)[0]
}

async function statusOf(...request: Parameters<typeof get>): Promise<number | undefined> {
  return (await get(...request))?.status
}

describe('with MANAGEMENT_TOKEN', () => {
  // CORS_ORIGINS gives no page access to this port.
  const app = shareManagedApp({ env: { ...WITH_TOKEN, CORS_ORIGINS: '*' } })

  const given = (authorization: string) => `Authorization: ${authorization}\r\n`
  const right = given(`Bearer ${TOKEN}`)

  test.each<[what: string, lines: string, challenge?: string]>([
    ['the token', right],
    ['the scheme in upper case', given(`BEARER ${TOKEN}`)],
    ['two blanks', given(`Bearer  ${TOKEN}`)],
    ['no token', '', NO_TOKEN],
    ['another token', given(`Bearer ${TOKEN.replace('o', 'O')}`), INVALID_TOKEN],
    ['its beginning', given(`Bearer ${TOKEN.slice(0, -1)}`), INVALID_TOKEN],
    ['more than the token', given(`Bearer ${TOKEN}x`), INVALID_TOKEN],
    ['an empty token', given('Bearer '), NO_TOKEN],
    ['no scheme', given(TOKEN), NO_TOKEN],
    ['Basic with the token as password', given(`Basic ${btoa(`ops:${TOKEN}`)}`), NO_TOKEN],
    ['the token in another header', `X-Api-Key: ${TOKEN}\r\n`, NO_TOKEN],
    ['the token twice', right.repeat(2), INVALID_TOKEN],
    ['the token and another', right + given('Bearer x'), INVALID_TOKEN],
  ])('a request with %s is let in, or 401 with a challenge', async (_what, lines, challenge) => {
    const answer = await get(app.managementPort, '/nowhere', `Host: localhost\r\n${lines}`)
    const { status, headers = {}, body = '' } = answer ?? {}
    expect([status, headers['www-authenticate']]).toEqual([challenge ? 401 : 404, challenge])
    expect(headers['cache-control']).toBe('no-store')
    const refusal = ['The token of the management port is required', 'token_required']
    const { message, reason, ...others } = JSON.parse(body)
    expect([message, reason]).toEqual(challenge ? refusal : ['Not found', 'path_not_found'])
    expect(others).toEqual({ resource: 'Request', code: status, status: false })
  })

  test.each(['get', 'post', 'delete', 'options'] as const)(
    'a request without the token is 401, whatever it asks for by %s',
    async method => {
      const paths = ['/nowhere', '/%zz', '/bans', '/users', '/status', '/metrics', '/livez/', '//']
      for (const path of [...paths, `/limits?access_token=${TOKEN}`]) {
        expect([path, (await app.ops[method](path)).status]).toEqual([path, 401])
      }
    },
  )

  test('health checks, the page and its files need no token', async () => {
    for (const path of ['/livez', '/readyz', '/readyz?verbose=true']) {
      await app.ops.get(path).expect(200)
      await app.ops.get(path).set('Authorization', 'Bearer wrong').expect(200)
    }
    await app.ops.post('/livez').expect(405).expect('Allow', 'GET, HEAD, OPTIONS')
    const { text } = await app.ops.get('/').expect(200)
    const paths = Array.from(text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g), ([, path]) => path)
    expect(paths.length).toBeGreaterThan(10)
    for (const path of paths) await app.ops.get(`/${path}`).expect(200)
  })

  test('neither the token nor a wrong one is in the log', async () => {
    await app.ops.post('/nowhere').set(BEARER).expect(404)
    await app.ops.post('/nowhere').set('Authorization', 'Bearer a-mistyped-token').expect(401)
    const log = JSON.stringify(app.logLines)
    expect(log).toContain('token_required')
    expect(log).not.toMatch(new RegExp(`${TOKEN}|a-mistyped-token`))
  })

  test('whoever is refused is in the log at info, also by a request that only reads', async () => {
    app.logLines.length = 0
    await app.ops.get('/status').set('Authorization', 'Bearer wrong').expect(401)
    await app.ops
      .get('/status')
      .set({ ...BEARER, Origin: 'https://evil.example' })
      .expect(403)
    await app.ops.get('/status').set(BEARER).expect(200)
    const levels = () => app.logLines.map(({ level, reason }) => [level, reason])
    await expect.poll(levels).toEqual([
      [30, 'token_required'],
      [30, 'origin_not_allowed'],
      [20, undefined],
    ])
  })

  test('a page of another origin is 403, whatever it asks for, and gets no CORS header', async () => {
    const { managementPort: port } = app
    const foreign = [
      ...['https://evil.example', 'null', 'file://', app.url, 'http://127.0.0.1'],
      ...[`http://localhost:${port}`, `http://127.0.0.1.evil.example:${port}`],
      ...[`http://127.0.0.1:${port}/`, `http://127.0.0.1:${port}, https://evil.example`],
      ...[`ftp://127.0.0.1:${port}`, `127.0.0.1:${port}`],
    ]
    const methods = ['get', 'post', 'delete', 'options'] as const
    for (const [index, Origin] of foreign.entries()) {
      const method = methods[index % methods.length] ?? 'get'
      for (const path of ['/nowhere', '/livez', '/limits/reload', '/users/1', '/%zz']) {
        const headers = { Origin, 'Access-Control-Request-Method': 'GET' }
        // Also before a missing token.
        const answer = await app.ops[method](path)
          .set(path === '/livez' ? BEARER : {})
          .set(headers)
        expect([Origin, path, answer.status]).toEqual([Origin, path, 403])
        expect(answer.body.reason).toBe('origin_not_allowed')
        expect(Object.keys(answer.headers).join()).not.toContain('access-control')
      }
    }
  })
})

describe('without MANAGEMENT_TOKEN', () => {
  const app = shareManagedApp()

  test('no request needs one, and one that is sent is ignored', async () => {
    for (const headers of [{}, BEARER]) await app.ops.get('/nowhere').set(headers).expect(404)
  })

  test('OPTIONS * is answered for the whole port', async () => {
    const head = 'OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    const [answer] = await sendRaw(app.managementPort, head).ended
    expect(answer).toMatchObject({ status: 204, body: '' })
  })

  test.each([
    ['an empty Origin', () => 'Origin:\r\n'],
    ['two', () => `Origin: ${app.managementUrl}\r\n`.repeat(2)],
  ])('a page with %s is 403', async (_what, linesOf) => {
    const lines = `Host: 127.0.0.1:${app.managementPort}\r\n${linesOf()}`
    expect(await statusOf(app.managementPort, '/nowhere', lines)).toBe(403)
  })

  test('a page of the port itself is served, under each name that the request asks for', async () => {
    const { managementPort: port } = app
    const statusFor = async (headers: Record<string, string>) =>
      (await app.ops.post('/nowhere').set(headers)).status
    for (const [host, origin] of [
      [`LOCALHOST:${port}`, `http://localhost:${port}`],
      [`[::1]:${port}`, `http://[::1]:${port}`],
      ['ops.example', 'http://ops.example'],
      ['ops.example', 'https://ops.example'],
    ] as const) {
      expect([host, origin, await statusFor({ Host: host, Origin: origin })]).toEqual([
        host,
        origin,
        404,
      ])
    }
    // Only a trusted proxy may say what it was asked for.
    const forwarded = { 'X-Forwarded-Host': 'ops.example', Origin: 'https://ops.example' }
    expect(await statusFor(forwarded)).toBe(403)
  })
})

const UNSET = { ALLOWED_HOSTS: '' }

describe('with ALLOWED_HOSTS unset, and a token', () => {
  const app = shareManagedApp({ env: { ...UNSET, ...WITH_TOKEN } })

  test('another name is 421 before all else that is wrong, and the log names the setting', async () => {
    const headers = { Host: 'evil.example', Origin: 'https://other.example' }
    for (const path of ['/limits', '/%zz']) {
      const { status, body } = await app.ops.post(path).set(headers)
      expect([path, status, body.reason]).toEqual([path, 421, 'host_not_allowed'])
    }
    const refusals = app.logLines.filter(({ setting }) => setting === 'ALLOWED_HOSTS')
    expect(refusals).toEqual([expect.objectContaining({ level: 40, host: 'evil.example' })])
  })

  test('this machine and addresses are served, and any name has health checks, but not its pages', async () => {
    for (const host of ['ops.localhost:1', '127.0.0.1', '[::1]', '192.0.2.7']) {
      const headers = { ...BEARER, Host: host }
      expect([host, (await app.ops.get('/nowhere').set(headers)).status]).toEqual([host, 404])
    }
    await app.ops.get('/readyz').set('Host', 'pod-7').expect(200)
    await app.ops.get('/livez').set({ Host: 'pod-7', Origin: 'https://evil.example' }).expect(403)
  })

  test.each(['', 'Host: a b\r\n', 'Host: a\r\nHost: b\r\n'])('%j is 400', async lines => {
    const { status, body = '' } = (await get(app.managementPort, '/livez', lines)) ?? {}
    const error = { code: 400, status: false, reason: 'request_malformed' }
    expect([status, JSON.parse(body)]).toMatchObject([400, error])
  })
})

test('with ALLOWED_HOSTS unset, behind a trusted proxy, another name is 421 without a token', async () => {
  const env = { ...UNSET, TRUST_PROXY: 'loopback' }
  const open = await openManagedApp({ env })
  await open.ops.get('/limits').set('Host', 'evil.example').expect(421)
  // A page that reaches the port by its own name may send this header.
  const claim = { Host: 'evil.example', 'X-Forwarded-Host': 'localhost' }
  await open.ops.get('/limits').set(claim).expect(421)
  const locked = await openManagedApp({ env: { ...env, ...WITH_TOKEN } })
  await locked.ops.get('/limits').set('Host', 'ops.example').expect(401)
  // A page counts by the forwarded host.
  const headers = { 'X-Forwarded-Host': 'ops.example', Origin: 'https://ops.example' }
  const { status } = await locked.ops.get('/nowhere').set({ ...BEARER, ...headers })
  expect(status).toBe(404)
})

test('the port listens, and asks for the token, with MANAGEMENT_HOST=0.0.0.0', async () => {
  const env = { MANAGEMENT_HOST: '0.0.0.0', ...WITH_TOKEN }
  const { managementPort } = await openManagedApp({ env })
  const ask = (headers: Record<string, string>) =>
    fetch(`http://localhost:${managementPort}/nowhere`, { headers })
  expect((await ask({})).status).toBe(401)
  expect((await ask(BEARER)).status).toBe(404)
})

test('ALLOWED_HOSTS names the only hosts of the port, which listens on MANAGEMENT_HOST', async () => {
  const env = { MANAGEMENT_HOST: 'localhost', ALLOWED_HOSTS: 'ops.example' }
  const { ops, managementUrl } = await openManagedApp({ env })
  expect(managementUrl).toMatch(/^http:\/\/(127\.0\.0\.1|\[::1\]):\d+$/)
  await ops.get('/nowhere').set('Host', 'OPS.example:9090').expect(404)
  await ops.get('/nowhere').set('Host', 'localhost').expect(421)
})

describe('the start ends with exit code 1 and says why:', () => {
  const app = shareManagedApp()
  const IN_USE = 'but it is in use on 127\\.0\\.0\\.1'
  const WITHOUT_TOKEN = 'but MANAGEMENT_TOKEN, which it needs beyond loopback, is not set; .*'

  test.each([
    ['MANAGEMENT_PORT is in use', '0', '127.0.0.1', `MANAGEMENT_PORT was "\\d+", ${IN_USE}; .*`],
    [
      'both ports are the same',
      ...['same', '127.0.0.1', `PORT was "\\d+", ${IN_USE}, and MANAGEMENT_PORT is the same; .*`],
    ],
    [
      'without a token beyond loopback, and another setting is wrong',
      ...['none', '::', `PORT was "none"; .*\nMANAGEMENT_HOST was "::", ${WITHOUT_TOKEN}`],
    ],
  ])('%s', async (_why, port, host, lines) => {
    const free = `${await findFreePort()}`
    const [PORT, MANAGEMENT_PORT] = port === 'same' ? [free, free] : [port, `${app.port}`]
    const env = { PORT, MANAGEMENT_PORT, MANAGEMENT_HOST: host }
    const stderr = await stderrOf(runCommand({ cwd: temporaryFolder(), env }))
    expect(stderr).toMatch(new RegExp(`^${lines}\n$`))
  })
})
