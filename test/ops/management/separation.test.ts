import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openKeyedApp } from '../../support/api-keys.ts'
import { newUserBody } from '../../support/builders.ts'
import { load } from '../../support/load.ts'
import { openManagedApp, TOKEN } from '../../support/management-requests.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { until } from '../../support/until.ts'

const OF_MANAGEMENT = [
  '/metrics',
  '/status',
  '/limits',
  '/limits/reload',
  '/bans',
  '/readyz/verbose',
]

const OF_PUBLIC = ['/users', '/users/1', '/docs', '/openapi.json', '/password-verifications']

test('nothing of the management port is on the public one, and nothing of the public one there', async () => {
  const { ops, http } = await openManagedApp()
  await http.post('/users').send(newUserBody()).expect(201)
  for (const method of ['get', 'post', 'put', 'delete', 'options'] as const) {
    for (const path of OF_MANAGEMENT) {
      const { status } = await http[method](path)
      expect([method, path, status]).toEqual([method, path, 404])
    }
    for (const path of OF_PUBLIC) {
      const { status, body } = await ops[method](path)
      expect([method, path, status]).toEqual([method, path, 404])
      expect(body.resource).toBe('Request')
    }
  }
  const { text } = await http.get('/openapi.json')
  expect(text).not.toMatch(/token_required|origin_not_allowed|limits_invalid|reload_failed|bans/)
  expect((await http.get('/readyz?verbose=true')).body).toEqual({ status: 'ok' })
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

test('CORS_ORIGINS gives no page access to the management port', async () => {
  const { ops } = await openManagedApp({ env: { CORS_ORIGINS: 'https://app.example' } })
  const preflight = { 'Access-Control-Request-Method': 'GET' }
  for (const headers of [{}, preflight]) {
    const answer = await ops.options('/livez').set({ Origin: 'https://app.example', ...headers })
    expect(answer.status).toBe(403)
    expect(Object.keys(answer.headers).join()).not.toContain('access-control')
  }
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
  const { ops, http, logLines } = await openManagedApp({
    env: { MANAGEMENT_TOKEN: TOKEN },
  })
  const bearer = { Authorization: `Bearer ${TOKEN}` }
  await ops.get('/livez').set('X-Request-Id', 'a-get')
  await ops.post('/nowhere').set({ ...bearer, 'X-Request-Id': 'a-post' })
  await ops.delete('/nowhere').set('X-Request-Id', 'a-delete')
  await http.post('/nowhere').set('X-Request-Id', 'a-public-one')
  const lines = logLines.filter(({ msg }) => msg === 'request')
  const byId = Object.fromEntries(lines.map(line => [line.requestId, line]))
  expect(byId['a-get']).toMatchObject({
    ...{ level: 20, port: 'management', method: 'GET', route: '/livez', status: 200 },
  })
  expect(byId['a-post']).toMatchObject({ level: 30, port: 'management', reason: 'path_not_found' })
  expect(byId['a-delete']).toMatchObject({ level: 30, port: 'management', status: 401 })
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
  const { ops, port } = await openManagedApp({ env: { MAX_WAITING_REQUESTS: '50' } })
  let isFlooded = true
  const flood = load({ port, connections: 400, requests: 20_000, workload: 'list' }).finally(() => {
    isFlooded = false
  })
  const statuses: number[] = []
  while (isFlooded) {
    statuses.push((await ops.get('/livez')).status, (await ops.get('/x')).status)
    await sleep(5)
  }
  const { statuses: answers } = await flood
  expect(Object.values(answers).reduce((sum, count) => sum + count, 0)).toBeGreaterThan(1000)
  expect(statuses.length).toBeGreaterThan(2)
  expect([...new Set(statuses)].toSorted()).toEqual([200, 404])
})
