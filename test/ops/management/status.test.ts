import { expect, onTestFinished, test, vi } from 'vitest'
import type { ServiceStatus } from '../../../src/ops/management/service-status.ts'
import { newUserBody } from '../../support/builders.ts'
import { byEngine } from '../../support/engine.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { openManagedApp } from '../../support/management-requests.ts'

type ErrorStatus = ServiceStatus['errors'][number]

const NUMBER = expect.any(Number)
const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

const DATABASE = byEngine<object>({
  sqlite: { engine: 'sqlite', files: { database_bytes: NUMBER, wal_bytes: NUMBER } },
  postgres: { engine: 'postgres', connections: { active: NUMBER, idle: NUMBER, waiting: 0 } },
})

test('GET /status says what the service does, exact to the request', async () => {
  const { http, bearers, managementUrl } = await openManagedApp({
    keys: [{ name: 'billing' }],
    limits: { throttle: [{ name: 'many', limit: 99, period: 60 }] },
  })
  const [bearer = ''] = bearers
  const ask = (path: string) => http.get(path).set('Authorization', bearer)
  await http.post('/users').set('Authorization', bearer).send(newUserBody()).expect(201)
  for (let times = 0; times < 3; times++) await ask('/users/1').expect(200)
  await ask('/users/2').expect(404)
  await ask('/nowhere').expect(404)
  const answer = await fetch(`${managementUrl}/status`)
  expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'no-store'])
  const status = (await answer.json()) as ServiceStatus
  const error = { at: INSTANT, request_id: expect.stringMatching(/^[\w-]{36}$/), status: 404 }
  expect(status).toEqual({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    ...{ started_at: INSTANT, now: INSTANT, ready: true },
    checks: { service: { status: 'ok' }, storage: { status: 'ok' }, limits: { status: 'ok' } },
    requests: {
      ...{ total: 6, in_flight: 0, shed: 0, by_key: { billing: 6 } },
      by_status: { '2xx': 4, '3xx': 0, '4xx': 2, '5xx': 0, aborted: 0 },
      by_route: expect.any(Array),
    },
    connections: NUMBER,
    // The use of a key may be being recorded.
    queues: { requests: 0, writes: NUMBER, passwords: 0 },
    storage: {
      ...{ ...DATABASE, up: true },
      commits: { count: NUMBER, writes: NUMBER, mean_ms: NUMBER },
    },
    process: { pid: process.pid, memory_bytes: NUMBER, event_loop_lag_ms: NUMBER },
    limits: {
      ...{ store: 'memory', up: true },
      rules: await (await fetch(`${managementUrl}/limits`)).json(),
      refused: [],
    },
    bans: 0,
    users: 1,
    webhooks: [],
    errors: [expect.any(Object), expect.any(Object)],
    history: { every_seconds: 2, samples: expect.any(Array) },
  })
  // Two connections may end in another order than their requests.
  expect(status.errors).toEqual(
    expect.arrayContaining([
      { ...error, method: 'GET', route: '', reason: 'path_not_found' },
      { ...error, method: 'GET', route: '/users/{id}', reason: 'user_not_found' },
    ]),
  )
  expect(Math.abs(Date.parse(status.now) - Date.now())).toBeLessThan(60_000)
  expect(Date.parse(status.started_at)).toBeLessThanOrEqual(Date.parse(status.now))
  const times = { p50_ms: NUMBER, p99_ms: NUMBER }
  const [first, ...others] = status.requests.by_route
  expect(first).toEqual({
    ...{ method: 'GET', route: '/users/{id}', count: 4, by_status: { 200: 3, 404: 1 } },
    ...times,
  })
  expect(others.toSorted((one, other) => one.method.localeCompare(other.method))).toMatchObject([
    { method: 'GET', route: '', count: 1, by_status: { 404: 1 } },
    { method: 'POST', route: '/users', count: 1, by_status: { 201: 1 } },
  ])
})

test('GET /status has the newest five errors of each reason, also by a clock that goes back, with nothing that clients sent but ids', async () => {
  const clock = createFakeClock()
  const { ops, http } = await openManagedApp({ now: clock.now })
  const send = async (id: string, path = '/users/7') => {
    clock.advance(-1)
    await http.get(path).set('X-Request-Id', id)
  }
  await send('wrong', '/users?email=ann@example.com&q=')
  await send('fine', '/users')
  for (let index = 0; index < 9; index++) await send(`missing-${index}`)
  const { body } = await ops.get('/status').expect(200)
  const newest = ['missing-8', 'missing-7', 'missing-6', 'missing-5', 'missing-4', 'wrong']
  expect(body.errors.map(({ request_id }: ErrorStatus) => request_id)).toEqual(newest)
  expect(body.errors.at(-1)).toEqual({
    ...{ at: new Date(clock.now() + 10).toISOString(), request_id: 'wrong' },
    ...{ method: 'GET', route: '/users', status: 400, reason: 'query_invalid' },
  })
  expect(JSON.stringify(body)).not.toContain('ann@')
})

test('GET /status?since= is 400 for what is no instant, and names the parameter', async () => {
  const { ops } = await openManagedApp()
  const instant = '2026-01-01T00:00:00Z'
  for (const [since, message] of [
    ['2026-02-30T00:00:00Z', 'must be an ISO 8601 instant with Z or an offset'],
    ['2026-01-01T00:00:00', 'must be an ISO 8601 instant with Z or an offset'],
    ['', 'is empty'],
    ['%ff', 'cannot be decoded'],
    [`${instant}&since=${instant}`, 'is given more than once'],
  ]) {
    const { body } = await ops.get(`/status?since=${since}`).expect(400)
    expect(body).toMatchObject({ reason: 'query_invalid', errors: { since: [message] } })
  }
})

test('GET /status has the same start whatever the clock says', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
  onTestFinished(() => void vi.useRealTimers())
  const { ops } = await openManagedApp()
  const before = (await ops.get('/status').expect(200)).body
  // Back to before the start.
  vi.setSystemTime(Date.parse(before.started_at) - 60_000)
  const after = (await ops.get('/status').expect(200)).body
  expect(after.started_at).toBe(before.started_at)
  expect(Date.parse(after.now)).toBeLessThan(Date.parse(after.started_at))
})
