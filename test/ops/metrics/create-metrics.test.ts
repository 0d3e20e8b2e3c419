import { readFileSync } from 'node:fs'
import { register } from 'prom-client'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { ServiceStatus } from '../../../src/ops/management/service-status.ts'
import { createMetrics, DURATION_BOUNDS } from '../../../src/ops/metrics/create-metrics.ts'
import { SERVICE_METRICS } from '../../../src/ops/metrics/service-metrics.ts'
import { newUserBody } from '../../support/builders.ts'
import { openManagedApp } from '../../support/management-requests.ts'
import { parseMetrics } from '../../support/metrics-text.ts'
import { beginPost, CLOSING } from '../../support/raw-http.ts'
import { holdWrites } from '../../support/sql.ts'
import { until } from '../../support/until.ts'

const ODD_RULES = [
  ...['"quoted"', 'two\nlines', 'back\\slash', '{a="b"} 1', 'tab\t, # ü 語', ' ', 'nul\0'],
]

const LIMITS = {
  throttle: ODD_RULES.map((name, index) => {
    return { name, path: `/rule/${index}`, limit: 2, period: '1 hour', dryRun: index % 2 > 0 }
  }),
  bans: [{ name: 'login', path: '/login', maxretry: 9, findtime: 60, bantime: '1 hour' }],
}

/** A service that has done something of each kind. */
async function openUsed() {
  const app = await openManagedApp({ limits: LIMITS, keys: [{ name: 'web' }] })
  const [Authorization = ''] = app.bearers
  const ask = (path: string) => app.http.get(path).set({ Authorization })
  await app.http.post('/users').set({ Authorization }).send(newUserBody()).expect(201)
  const users = Array.from({ length: 7 }, () => newUserBody().user)
  await app.http.post('/users').set({ Authorization }).send({ users }).expect(200)
  for (const index of ODD_RULES.keys()) {
    for (let times = 0; times < 3 + index; times++) await ask(`/rule/${index}`)
  }
  const ban = { rule: 'login', client: '192.0.2.1' }
  await app.ops.post('/bans').send({ ban }).expect(201)
  const metrics = async () => {
    const { text, headers } = await app.ops.get('/metrics').expect(200)
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    return parseMetrics(text)
  }
  const status = async () => (await app.ops.get('/status').expect(200)).body as ServiceStatus
  return { ...app, metrics, status }
}

test('GET /metrics says what GET /status says, of rules of any name', async () => {
  const { metrics, status } = await openUsed()
  // Connections that were answered may close, and the use of the key be recorded, a little later.
  const [{ all, read }, { storage, bans, requests, limits }] = await until(async () => {
    const told = await status()
    const now = await metrics()
    const isStill =
      now.read('storage_commit_writes_count') === told.storage.commits.count &&
      now.read('http_connections') === told.connections
    return isStill && ([now, told] as const)
  })
  const valuesOf = (name: string) =>
    Object.fromEntries(
      all(name).map(({ labels, value }) => [Object.values(labels)[0] ?? '', value]),
    )
  for (const [name, value] of [
    ['http_requests_in_flight', 0],
    ['http_requests_shed_total', 0],
    ['storage_up', 1],
    ['storage_commit_duration_seconds_count', storage.commits.count],
    ['storage_commit_writes_count', storage.commits.count],
    ['storage_commit_writes_sum', storage.commits.writes],
    ['change_feed_deletions', 0],
    ['whole_lists', 0],
    ['limit_bans', bans],
    ['limit_store_up', 1],
  ] as const) {
    expect([name, read(name)]).toEqual([name, value])
  }
  expect(bans).toBe(1)
  expect(read('storage_commit_writes_bucket', { le: '5' })).toBe(storage.commits.count - 1)
  const seconds = read('storage_commit_duration_seconds_sum') ?? 0
  expect((seconds * 1000) / storage.commits.count).toBeCloseTo(storage.commits.mean_ms ?? 0, 2)
  expect(read('storage_commit_duration_seconds_bucket', { le: '2.5' })).toBe(storage.commits.count)
  expect(valuesOf('http_requests_by_key_total')).toEqual(requests.by_key)
  expect(valuesOf('queue_length')).toEqual({ requests: 0, writes: 0, passwords: 0 })
  expect(valuesOf('change_feed_requests')).toEqual({ waiting: 0, streaming: 0 })
  const { files, connections: pool } = storage
  expect(valuesOf('storage_bytes')).toEqual(
    files ? { database: files.database_bytes, wal: files.wal_bytes } : {},
  )
  expect(Object.keys(valuesOf('storage_connections'))).toEqual(pool ? ['active', 'idle'] : [])
  expect(read('storage_connections_waiting')).toBe(pool?.waiting)
  expect(read('user_records_build_info', { node: process.version })).toBe(1)
  for (const [index, name] of ODD_RULES.entries()) {
    const labels = { type: 'throttle', rule: name.replace('\0', '\ufffd') }
    expect(read('limit_requests_counted_total', labels)).toBe(3 + index)
    const counts = ['passed', 'refused', 'would_refuse'].map(outcome =>
      read('limit_decisions_total', { ...labels, outcome }),
    )
    const isDryRun = index % 2 > 0
    expect(counts).toEqual([2, isDryRun ? 0 : 1 + index, isDryRun ? 1 + index : 0])
    expect(limits.rules).toContainEqual(expect.objectContaining({ rule: name, counted: 3 + index }))
  }
})

test('GET /metrics has a histogram of durations by method, route and status, and GET /status their quantiles', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { port, http, ops } = await openManagedApp()
  for (const ms of [0, 300, 99_000]) {
    const { finish, ended } = await beginPost(port, CLOSING)
    vi.advanceTimersByTime(ms)
    finish()
    await ended
  }
  await http.get('/users/9').expect(404)
  const { all, read } = parseMetrics((await ops.get('/metrics').expect(200)).text)
  const name = 'http_request_duration_seconds'
  const created = { method: 'POST', route: '/users', status: '201' }
  const buckets = all(`${name}_bucket`, created).map(({ labels, value }) => [labels.le, value])
  expect(buckets).toEqual([
    ...DURATION_BOUNDS.map(bound => [String(bound), bound < 0.3 ? 1 : 2]),
    ['+Inf', 3],
  ])
  expect([read(`${name}_sum`, created), read(`${name}_count`, created)]).toEqual([99.3, 3])
  expect(all(`${name}_count`)).toHaveLength(2)
  const { requests } = (await ops.get('/status').expect(200)).body as ServiceStatus
  expect(requests.by_route).toContainEqual({
    ...{ method: 'POST', route: '/users', count: 3, by_status: { 201: 3 } },
    ...{ p50_ms: 375, p99_ms: 10_000 },
  })
})

/** The metrics that docs/operations/metrics.md lists: name and labels. */
function documentedMetrics(): (readonly [name: string, labels: readonly string[]])[] {
  const page = new URL('../../../docs/operations/metrics.md', import.meta.url)
  const heads = readFileSync(page, 'utf8').match(/^- (?:`[^`]+`(?:, )?)+(?=:)/gm) ?? []
  const metrics = heads.join().matchAll(/`(\w+)(?:\{([\w,]+)\})?`/g)
  return Array.from(metrics, ([, name = '', labels]) => [name, labels?.split(',') ?? []])
}

test('GET /metrics has each metric of docs/operations/metrics.md once, with its type, help and labels, and beside them only those of Node', async () => {
  const { metrics } = await openUsed()
  const { types, helps, samples } = await metrics()
  const documented = documentedMetrics()
  const ofService = Object.keys(types).filter(name => !name.startsWith('nodejs_'))
  expect(ofService.sort()).toEqual(documented.map(([name]) => name).sort())
  for (const [name, labels] of documented) {
    const own = samples.filter(sample =>
      [name, `${name}_bucket`, `${name}_sum`, `${name}_count`].includes(sample.name),
    )
    const found = new Set(own.flatMap(sample => Object.keys(sample.labels)))
    found.delete('le')
    // There may have been no garbage collection yet.
    if (own.length > 0) expect([name, [...found].sort()]).toEqual([name, [...labels].sort()])
  }
  for (const { name, help } of SERVICE_METRICS) {
    const type = name.endsWith('_total') ? 'counter' : 'gauge'
    expect([name, types[name], helps[name]]).toEqual([name, type, help])
    expect(help).toMatch(/^[A-Z][\w ,:.()-]*\.$/)
  }
  const keys = samples.map(({ name, labels }) =>
    JSON.stringify([name, Object.entries(labels).sort()]),
  )
  expect(new Set(keys).size).toBe(keys.length)
})

test('GET /metrics has how many writes wait', async () => {
  const { http, ops, databaseUrl } = await openManagedApp()
  const { release } = await holdWrites(databaseUrl)
  const created: Promise<unknown>[] = []
  await until(async () => {
    // On a busy machine the earlier ones may have been refused already.
    created.push(http.post('/users').send(newUserBody()).then())
    const { read } = parseMetrics((await ops.get('/metrics').expect(200)).text)
    return read('queue_length', { queue: 'writes' })
  })
  await release()
  await Promise.all(created)
})

test('GET /metrics has the same metrics at the same time and again, and leaves the registry of others alone', async () => {
  const { metrics } = await openUsed()
  const namesIn = async () => Object.keys((await metrics()).types)
  const before = await namesIn()
  expect(before).toContain('process_cpu_seconds_total')
  expect(await Promise.all([namesIn(), namesIn()])).toEqual([before, before])
  // The monitor of the event loop has measured nothing since the answers before.
  const { read } = await metrics()
  const lags = ['min', 'mean', 'p99'].map(name => read(`nodejs_eventloop_lag_${name}_seconds`))
  expect(lags.every(lag => lag !== undefined && lag < 60)).toBe(true)
  expect(register.getMetricsAsArray()).toEqual([])
})

test('requests are counted by at most 200 names of keys, and the rest under _other', () => {
  const { requests, count, report } = createMetrics(Date.now)
  const names = Array.from({ length: 300 }, (_, index) => `key-${index}`)
  for (const key of [...names, ...names]) {
    requests.begin()
    requests.end({ requestId: 'one', method: 'GET', route: '/users', status: 200, ms: 1, key })
  }
  const counted = Object.fromEntries(names.slice(0, 200).map(name => [name, 2]))
  expect(report().byKey).toEqual({ ...counted, _other: 200 })
  expect(count()).toMatchObject({ inFlight: 0, byClass: { '2xx': 600, '5xx': 0 } })
})

test('the page takes nothing from the metrics: GET /metrics has the worst lag since the one before', async () => {
  const { ops } = await openManagedApp()
  const worstLag = async () => {
    const { read } = parseMetrics((await ops.get('/metrics').expect(200)).text)
    return read('nodejs_eventloop_lag_max_seconds') ?? 0
  }
  await worstLag()
  // The monitor measures from its second turn on.
  await new Promise(resolve => setTimeout(resolve, 50))
  const end = performance.now() + 500
  while (performance.now() < end);
  await new Promise(resolve => setTimeout(resolve, 50))
  for (let times = 0; times < 3; times++) await ops.get('/status').expect(200)
  expect(await worstLag()).toBeGreaterThan(0.3)
})
