import { describe, expect, test } from 'vitest'
import { openManagedApp, TOKEN } from '../../support/management-requests.ts'
import { sendRaw } from '../../support/raw-http.ts'

const WITH_TOKEN = { MANAGEMENT_TOKEN: TOKEN }

const BEARER = { Authorization: `Bearer ${TOKEN}` }

const UNKNOWN = {
  message: 'Not found',
  resource: 'Request',
  code: 404,
  status: false,
  reason: 'path_not_found',
}

const TOKEN_REQUIRED = {
  message: 'The token of the management port is required',
  resource: 'Request',
  code: 401,
  status: false,
  reason: 'token_required',
}

describe('with MANAGEMENT_TOKEN', () => {
  test.each(['Bearer', 'bearer', 'BEARER', 'Bearer  '])(
    'a request with %s and the token is let in',
    async scheme => {
      const { ops } = await openManagedApp({ env: WITH_TOKEN })
      const { body } = await ops.get('/nowhere').set('Authorization', `${scheme} ${TOKEN}`)
      expect(body).toEqual(UNKNOWN)
    },
  )

  test.each([
    ['no token', {}],
    ['another token', { Authorization: `Bearer ${TOKEN.replace('o', 'O')}` }],
    ['its beginning', { Authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
    ['more than the token', { Authorization: `Bearer ${TOKEN}x` }],
    ['an empty token', { Authorization: 'Bearer ' }],
    ['no scheme', { Authorization: TOKEN }],
    ['another scheme', { Authorization: `Basic ${TOKEN}` }],
    ['Basic with the token as password', { Authorization: `Basic ${btoa(`ops:${TOKEN}`)}` }],
    ['the token in another header', { 'X-Api-Key': TOKEN }],
  ])('a request with %s is 401, whatever it asks for', async (_what, headers) => {
    const { ops } = await openManagedApp({ env: WITH_TOKEN })
    for (const path of ['/nowhere', '/limits', '/%zz', '/bans', '/users', '/livez/', '//']) {
      for (const method of ['get', 'post', 'put', 'delete', 'options'] as const) {
        const answer = await ops[method](path).set(headers)
        expect([path, method, answer.status]).toEqual([path, method, 401])
        expect(answer.headers['www-authenticate']).toBe('Bearer')
        expect(answer.headers['cache-control']).toBe('no-store')
        expect(answer.body).toEqual(TOKEN_REQUIRED)
      }
    }
  })

  test('the token in the query is 401', async () => {
    const { ops } = await openManagedApp({ env: WITH_TOKEN })
    await ops.get(`/limits?access_token=${TOKEN}`).expect(401)
  })

  test('a token that is given twice is 401', async () => {
    const { managementPort } = await openManagedApp({ env: WITH_TOKEN })
    const line = `Authorization: Bearer ${TOKEN}\r\n`
    const head = `GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n`
    const statuses = []
    for (const lines of [line, line + line, `${line}Authorization: Bearer x\r\n`]) {
      const [answer] = await sendRaw(managementPort, `${head}${lines}\r\n`).ended
      statuses.push(answer?.status)
    }
    expect(statuses).toEqual([404, 401, 401])
  })

  test('a preflight needs the token like any other request', async () => {
    const { ops, managementUrl } = await openManagedApp({ env: WITH_TOKEN })
    const headers = { Origin: managementUrl, 'Access-Control-Request-Method': 'POST' }
    await ops.options('/nowhere').set(headers).expect(401)
  })

  test('health checks need no token', async () => {
    const { ops } = await openManagedApp({ env: WITH_TOKEN })
    for (const path of ['/livez', '/readyz', '/readyz?verbose=true']) {
      await ops.get(path).expect(200)
      await ops.head(path).expect(200)
      await ops.get(path).set('Authorization', 'Bearer wrong').expect(200)
    }
    await ops.post('/livez').expect(405).expect('Allow', 'GET, HEAD, OPTIONS')
    await ops.options('/readyz').expect(204).expect('Allow', 'GET, HEAD, OPTIONS')
  })

  test('neither the token nor a wrong one is in the log', async () => {
    const { ops, logLines } = await openManagedApp({ env: WITH_TOKEN })
    await ops.post('/nowhere').set(BEARER).expect(404)
    await ops.post('/nowhere').set('Authorization', 'Bearer a-mistyped-token').expect(401)
    expect(JSON.stringify(logLines)).toContain('token_required')
    expect(JSON.stringify(logLines)).not.toMatch(new RegExp(`${TOKEN}|a-mistyped-token`))
  })
})

test('without MANAGEMENT_TOKEN no request needs one, and one that is sent is ignored', async () => {
  const { ops } = await openManagedApp()
  await ops.get('/nowhere').expect(404)
  await ops.get('/nowhere').set(BEARER).expect(404)
})

describe('a request from a page', () => {
  test('of another origin is 403, whatever it asks for, and gets no CORS header', async () => {
    const { ops, managementPort, url } = await openManagedApp({
      env: { ...WITH_TOKEN, CORS_ORIGINS: '*' },
    })
    const foreign = [
      'https://evil.example',
      'null',
      url,
      'http://127.0.0.1',
      `http://127.0.0.2:${managementPort}`,
      `http://localhost:${managementPort}`,
      `http://127.0.0.1.evil.example:${managementPort}`,
      `http://127.0.0.1:${managementPort}/`,
      `http://127.0.0.1:${managementPort}, https://evil.example`,
      `ftp://127.0.0.1:${managementPort}`,
      `127.0.0.1:${managementPort}`,
      'file://',
      'x',
    ]
    for (const origin of foreign) {
      for (const method of ['get', 'post', 'delete', 'options'] as const) {
        for (const path of ['/nowhere', '/livez', '/readyz', '/limits/reload', '/%zz']) {
          const answer = await ops[method](path).set({ ...BEARER, Origin: origin })
          expect([origin, path, answer.status]).toEqual([origin, path, 403])
          expect(answer.body.reason).toBe('origin_not_allowed')
          expect(Object.keys(answer.headers).join()).not.toContain('access-control')
        }
      }
    }
  })

  test('of another origin is 403 before its missing token', async () => {
    const { ops } = await openManagedApp({ env: WITH_TOKEN })
    await ops.get('/nowhere').set('Origin', 'https://evil.example').expect(403)
  })

  test('with an empty Origin, or with two, is 403', async () => {
    const { managementPort, managementUrl } = await openManagedApp()
    const host = `127.0.0.1:${managementPort}`
    const head = `GET /nowhere HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n`
    for (const lines of [
      'Origin:\r\n',
      `Origin: ${managementUrl}\r\nOrigin: ${managementUrl}\r\n`,
    ]) {
      const [answer] = await sendRaw(managementPort, `${head}${lines}\r\n`).ended
      expect(answer?.status).toBe(403)
    }
  })

  test('of the port itself is served, under each name that the request asks for', async () => {
    const { ops, managementPort } = await openManagedApp()
    const own = [
      ['127.0.0.1', managementPort, 'http://127.0.0.1'],
      ['localhost', managementPort, 'http://localhost'],
      ['LOCALHOST', managementPort, 'http://localhost'],
      ['[::1]', managementPort, 'http://[::1]'],
      ['ops.example', 80, 'http://ops.example'],
      ['ops.example', 443, 'https://ops.example'],
    ] as const
    for (const [host, port, origin] of own) {
      const isUsual = port !== managementPort
      const headers = {
        Host: isUsual ? host : `${host}:${port}`,
        Origin: isUsual ? origin : `${origin}:${port}`,
      }
      const { status } = await ops.post('/nowhere').set(headers)
      expect([headers, status]).toEqual([headers, 404])
    }
  })

  test('counts by the forwarded host behind a trusted proxy, and only there', async () => {
    const headers = { 'X-Forwarded-Host': 'ops.example', Origin: 'https://ops.example' }
    const behind = await openManagedApp({ env: { TRUST_PROXY: 'loopback' } })
    await behind.ops.get('/nowhere').set(headers).expect(404)
    const direct = await openManagedApp()
    await direct.ops.get('/nowhere').set(headers).expect(403)
  })
})

describe('a request for a host', () => {
  const UNSET = { ALLOWED_HOSTS: '' }

  test('of another name is 421 before all else that is wrong with it, and the log names the setting', async () => {
    const { ops, logLines } = await openManagedApp({ env: { ...UNSET, ...WITH_TOKEN } })
    const headers = { Host: 'evil.example', Origin: 'https://other.example' }
    for (const path of ['/nowhere', '/limits', '/%zz']) {
      const { status, body } = await ops.post(path).set(headers)
      expect([path, status, body.reason]).toEqual([path, 421, 'host_not_allowed'])
    }
    const refusals = logLines.filter(({ setting }) => setting === 'ALLOWED_HOSTS')
    expect(refusals).toEqual([expect.objectContaining({ level: 40, host: 'evil.example' })])
  })

  test('of this machine is served', async () => {
    const { ops } = await openManagedApp({ env: UNSET })
    for (const host of ['localhost', 'ops.localhost:1', '127.0.0.1', '[::1]', '192.0.2.7']) {
      await ops.get('/nowhere').set('Host', host).expect(404)
    }
  })

  test('of any name is served behind a trusted proxy, but only with a token', async () => {
    const env = { ...UNSET, TRUST_PROXY: 'loopback' }
    const without = await openManagedApp({ env })
    await without.ops.get('/limits').set('Host', 'evil.example').expect(421)
    await without.ops.get('/limits').set('Host', 'localhost').expect(200)
    const withToken = await openManagedApp({ env: { ...env, ...WITH_TOKEN } })
    await withToken.ops.get('/limits').set('Host', 'ops.example').expect(401)
  })

  test('of ALLOWED_HOSTS is served, and no other', async () => {
    const { ops } = await openManagedApp({ env: { ALLOWED_HOSTS: 'ops.example' } })
    await ops.get('/nowhere').set('Host', 'OPS.example:9090').expect(404)
    await ops.get('/nowhere').set('Host', 'localhost').expect(421)
  })

  test('does not matter to health checks, whose pages matter nevertheless', async () => {
    const { ops } = await openManagedApp({ env: UNSET })
    for (const path of ['/livez', '/readyz']) {
      await ops.get(path).set('Host', 'pod-7').expect(200)
      await ops.get(path).set({ Host: 'pod-7', Origin: 'https://evil.example' }).expect(403)
    }
  })

  test('of a missing or malformed name is 400', async () => {
    const { managementPort } = await openManagedApp({ env: WITH_TOKEN })
    for (const lines of ['', 'Host: a b\r\n', 'Host: a\r\nHost: b\r\n']) {
      const head = `GET /livez HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`
      const [answer] = await sendRaw(managementPort, head).ended
      expect([lines, answer?.status]).toEqual([lines, 400])
    }
  })
})
