import { describe, expect, test } from 'vitest'
import { openKeyedApp } from '../../support/api-keys.ts'
import {
  BEARER,
  openManagedApp,
  shareManagedApp,
  TOKEN,
} from '../../support/management-requests.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { until, untilPasses } from '../../support/until.ts'

const METHODS = ['get', 'post', 'put', 'delete', 'options'] as const

describe('nothing', () => {
  const app = shareManagedApp()

  test.each(['/metrics', '/status', '/limits', '/limits/reload', '/bans', '/readyz/verbose'])(
    'of the management port, such as %s, is on the public one',
    async path => {
      for (const method of METHODS) {
        expect([method, (await app.http[method](path)).status]).toEqual([method, 404])
      }
    },
  )

  test.each(['/users', '/users/1', '/docs', '/openapi.json', '/password-verifications'])(
    'of the public port, such as %s, is on the management port',
    async path => {
      for (const method of METHODS) {
        const { status, body } = await app.ops[method](path)
        expect([method, status, body.resource]).toEqual([method, 404, 'Request'])
      }
    },
  )

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
  const env = { MANAGEMENT_PORT: '0', MANAGEMENT_TOKEN: TOKEN }
  const { http, bearers, managementUrl } = await openKeyedApp([{}], { env })
  const [bearer = ''] = bearers
  const statusAt = async (authorization: string) => {
    const headers = { Authorization: authorization }
    return (await fetch(`${managementUrl}/nowhere`, { headers })).status
  }
  expect(await statusAt(bearer)).toBe(401)
  expect(await statusAt(`Bearer ${TOKEN}`)).toBe(404)
  await http.get('/users').set('Authorization', bearer).expect(200)
  await http.get('/users').set('Authorization', `Bearer ${TOKEN}`).expect(401)
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
