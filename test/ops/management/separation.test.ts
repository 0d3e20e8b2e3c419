import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import {
  BEARER,
  openManagedApp,
  shareManagedApp,
  TOKEN,
} from '../../support/management-requests.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { until, untilPasses } from '../../support/until.ts'

describe('nothing', () => {
  const app = shareManagedApp()
  const METHODS = ['get', 'post', 'delete', 'options'] as const

  test.each([
    ['http', 'the management port', ['/metrics', '/status', '/limits', '/limits/reload', '/bans']],
    ['ops', 'the public port', ['/docs', '/openapi.json', '/password-verifications']],
  ] as const)('on %s is of %s', async (port, _other, paths) => {
    for (const path of paths) {
      for (const method of METHODS) {
        expect([path, method, (await app[port][method](path)).status]).toEqual([path, method, 404])
      }
    }
  })

  test('in the public document, page or readiness tells of the management port', async () => {
    const { text } = await app.http.get('/openapi.json')
    expect(text).not.toMatch(/token_required|origin_not_allowed|limits_invalid|reload_failed|bans/)
    await app.http.get('/readyz?verbose=true').expect(200, { status: 'ok' })
    const page = await app.http.get('/').set('Accept', 'text/html').expect(200)
    expect(page.text).not.toContain('Operations')
  })
})

test('limits do not apply to the management port, and its requests count for none', async () => {
  const limits = {
    blocklist: [{ name: 'all', path: '/nowhere' }],
    throttle: [{ name: 'two', limit: 2, period: '1 hour' }],
    bans: [{ name: 'gone', status: [404], maxretry: 2, findtime: 60, bantime: 60 }],
  }
  const { ops, http } = await openManagedApp({ limits })
  for (let times = 0; times < 5; times++) await ops.get('/nowhere').expect(404)
  await http.get('/users').expect(200)
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
  await ops.get('/livez').expect(200)
})

test('API keys open nothing on the management port, and its token nothing on the public one', async () => {
  const { http, ops, bearers } = await openManagedApp({
    env: { MANAGEMENT_TOKEN: TOKEN },
    keys: [{}],
  })
  const headers = { Authorization: bearers[0] ?? '' }
  await ops.get('/nowhere').set(headers).expect(401)
  await http.get('/users').set(headers).expect(200)
  await http.get('/users').set(BEARER).expect(401)
})

test('the log has requests that change something at info, others at debug, all with the port', async () => {
  const { ops, http, logLines } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
  await ops.get('/livez').set('X-Request-Id', 'a-get')
  await ops.post('/nowhere').set({ ...BEARER, 'X-Request-Id': 'a-post' })
  await ops.delete('/nowhere').set('X-Request-Id', 'a-delete')
  await http.post('/nowhere').set('X-Request-Id', 'a-public-one')
  const lines = logLines.filter(({ msg }) => msg === 'request')
  const byId = Object.fromEntries(lines.map(line => [line.requestId, line]))
  const port = 'management'
  expect(byId).toMatchObject({
    'a-get': { level: 20, port, method: 'GET', route: '/livez', status: 200 },
    'a-post': { level: 30, port, reason: 'path_not_found' },
    'a-delete': { level: 30, port, status: 401 },
  })
  expect(byId['a-public-one']).not.toHaveProperty('port')
})

test('at 64 connections each new one closes an idle one', async () => {
  const { managementPort, ops } = await openManagedApp()
  const open = Array.from({ length: 80 }, () => sendRaw(managementPort, 'GET /livez HTTP/1.1\r\n'))
  let closed = 0
  for (const { ended } of open) void ended.then(() => closed++)
  await until(() => closed >= 16)
  await ops.get('/livez').expect(200)
  for (const { socket } of open) socket.destroy()
})

test('it answers while the public port is flooded', async () => {
  const { ops, http } = await openManagedApp({
    env: { MAX_EVENT_LOOP_DELAY: '1ms', MAX_WAITING_REQUESTS: '1' },
  })
  const get = async (from: typeof ops, path: string) => (await from.get(path)).status
  const answered = new Set<number>()
  await untilPasses(async () => {
    const flood = Array.from({ length: 100 }, () => get(http, '/users'))
    const meanwhile = Array.from({ length: 20 }, () => [get(ops, '/livez'), get(ops, '/x')]).flat()
    for (const status of await Promise.all(meanwhile)) answered.add(status)
    expect(await Promise.all(flood)).toContain(503)
  })
  expect(answered).toEqual(new Set([200, 404]))
})

test('GET / and its files hold no data, have the licences of uPlot and Preact, and nothing is inline', async () => {
  const { ops } = await openManagedApp({
    users: [newUserBody({ email: 'ann@example.com' })],
    limits: { bans: [{ name: 'probing', path: '/wp-*', maxretry: 3, findtime: 60, bantime: 60 }] },
  })
  const ban = { rule: 'probing', client: '203.0.113.77' }
  await ops.post('/bans').send({ ban }).expect(201)
  const { headers, text } = await ops.get('/').set('Accept', 'text/html').expect(200)
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
      "require-trusted-types-for 'script'; trusted-types 'none'",
  )
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script[^>]*>[^<]/i)
  const paths = Array.from(text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g), ([, path]) => path)
  const sources = [text]
  for (const path of paths) {
    const answer = await ops.get(`/${path}`).expect(200)
    expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable')
    sources.push(answer.text ?? String(answer.body))
  }
  expect(sources.length).toBeGreaterThan(10)
  for (const source of sources) {
    expect(source).not.toMatch(/203\.0\.113\.77|ann@example\.com|probing/)
  }
  const [assets] = /assets\/[0-9a-f]{16}/.exec(text) ?? []
  for (const name of ['uPlot', 'preact']) {
    const licence = await ops.get(`/${assets}/${name}.LICENSE`).expect(200)
    const manifest = createRequire(import.meta.url).resolve(`${name.toLowerCase()}/package.json`)
    expect(licence.text).toBe(readFileSync(manifest.replace('package.json', 'LICENSE'), 'utf8'))
  }
  await ops.get('/assets/%zz/x').expect(400)
})
