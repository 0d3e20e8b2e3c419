import { expect, test } from 'vitest'
import type { HistorySample, ServiceStatus } from '../../../src/ops/management/service-status.ts'
import { openManagedApp, TOKEN } from '../../support/management-requests.ts'
import { until } from '../../support/until.ts'

test('GET /status says what the service does, exact to the request', async () => {
  const { ops, http } = await openManagedApp()
  // With several processes, a run asks each whether it serves.
  const before: ServiceStatus = (await ops.get('/status').expect(200)).body
  await http
    .post('/users')
    .send({ user: { name: 'Ann', email: 'ann@example.com' } })
    .expect(201)
  for (let times = 0; times < 3; times++) await http.get('/users/1').expect(200)
  await http.get('/users/2').expect(404)
  await http.get('/nowhere').expect(404)
  const { body, headers } = await ops.get('/status').expect(200)
  expect(headers['cache-control']).toBe('no-store')
  const status = body as ServiceStatus
  expect(status).toMatchObject({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    ready: true,
    checks: { service: { status: 'ok' }, storage: { status: 'ok' } },
    requests: {
      total: before.requests.total + 6,
      in_flight: 0,
      shed: 0,
      by_status: {
        ...before.requests.by_status,
        '2xx': (before.requests.by_status['2xx'] ?? 0) + 4,
        '4xx': 2,
      },
      by_key: {},
    },
    queues: { requests: 0, writes: 0, passwords: 0 },
    storage: { up: true },
    limits: { store: 'none', up: true, rules: [] },
    bans: 0,
    history: { every_seconds: 2 },
  })
  expect(Math.abs(Date.parse(status.now) - Date.now())).toBeLessThan(60_000)
  expect(Date.parse(status.started_at)).toBeLessThanOrEqual(Date.parse(status.now))
  const routeOf = (wanted: string) => status.requests.by_route.find(one => one.route === wanted)
  expect(routeOf('/users/{id}')).toMatchObject({
    method: 'GET',
    count: 4,
    by_status: { 200: 3, 404: 1 },
    mean_ms: expect.any(Number),
    p50_ms: expect.any(Number),
    p99_ms: expect.any(Number),
  })
  expect(routeOf('/users')).toMatchObject({ method: 'POST', count: 1, by_status: { 201: 1 } })
  expect(routeOf('')).toMatchObject({ method: 'GET', count: 1, by_status: { 404: 1 } })
  expect(status.process).toEqual({
    pid: process.pid,
    cpu_seconds: expect.any(Number),
    memory_bytes: expect.any(Number),
    event_loop_lag_ms: expect.any(Number),
  })
})

test('GET /status has a sample of every two seconds, and the newer ones since a time', async () => {
  const { ops, http } = await openManagedApp()
  await ops.get('/status')
  const samplesOf = async (query = '') => {
    const { body } = await ops.get(`/status${query}`).expect(200)
    return (body as ServiceStatus).history.samples
  }
  await until(async () => (await samplesOf()).length > 0, 100)
  for (let times = 0; times < 5; times++) await http.get('/nowhere').expect(404)
  const countOf = (samples: readonly HistorySample[]) =>
    samples.reduce((sum, { by_status }) => sum + (by_status['4xx'] ?? 0), 0)
  const samples = await until(async () => {
    const found = await samplesOf()
    return countOf(found) >= 5 && found
  }, 100)
  expect(countOf(samples)).toBe(5)
  const first = samples[0]?.at ?? ''
  const newer = await samplesOf(`?since=${first}`)
  expect(newer.length).toBeGreaterThanOrEqual(samples.length - 1)
  expect(newer.every(({ at }) => at > first)).toBe(true)
  expect(await samplesOf('?since=2999-01-01T00:00:00%2B01:00')).toEqual([])
})

test.each([
  ['abc', 'must be an ISO 8601 instant with Z or an offset'],
  ['', 'is empty'],
  ['2026-02-30T00:00:00Z', 'must be an ISO 8601 instant with Z or an offset'],
  ['2026-01-01T00:00:00', 'must be an ISO 8601 instant with Z or an offset'],
  ['%ff', 'cannot be decoded'],
  ['2026-01-01T00:00:00Z&since=2026-01-01T00:00:00Z', 'is given more than once'],
])('GET /status?since=%s is 400', async (since, message) => {
  const { ops } = await openManagedApp()
  const { body } = await ops.get(`/status?since=${since}`).expect(400)
  expect(body).toMatchObject({ reason: 'query_invalid', errors: { since: [message] } })
})

test('GET /status needs the token, and the page and its files do not', async () => {
  const { ops } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
  await ops.get('/status').expect(401)
  await ops.get('/status').set('Authorization', `Bearer ${TOKEN}`).expect(200)
  const { text } = await ops.get('/').expect(200)
  const paths = Array.from(text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g), ([, path]) => path)
  expect(paths.length).toBeGreaterThan(10)
  for (const path of paths) await ops.get(`/${path}`).expect(200)
})

test('neither status nor page is on the public port', async () => {
  const { http } = await openManagedApp()
  await http.get('/status').expect(404)
  const { text } = await http.get('/').set('Accept', 'text/html').expect(200)
  expect(text).not.toContain('Operations')
})
