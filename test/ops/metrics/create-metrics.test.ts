import { readFileSync } from 'node:fs'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import { createMetrics, DURATION_BOUNDS } from '../../../src/ops/metrics/create-metrics.ts'
import { SERVICE_METRICS } from '../../../src/ops/metrics/service-metrics.ts'
import type { ServiceReport } from '../../../src/ops/metrics/service-report.ts'
import { parseMetrics } from '../../support/metrics-text.ts'

const ODD_RULES = [
  ...['"quoted"', 'two\nlines', 'back\\slash', '{a="b"} 1', 'tab\t, # ü 語', ' ', 'nul\0'],
]

/** Metrics that all have values, with a report of them and of a service. */
function openMetrics(changes: Partial<ServiceReport> = {}) {
  const metrics = createMetrics(Date.now)
  const { requests } = metrics
  for (const [index, status] of [200, 200, 404, 0].entries()) {
    requests.begin()
    requests.end({
      ...{ requestId: 'one', reason: undefined },
      method: index === 0 ? 'BREW' : 'GET',
      route: '/users/{id}',
      status,
      seconds: 0.003 * index ** 5,
      key: index === 0 ? undefined : `key-${index}`,
    })
  }
  requests.begin()
  requests.addMalformed(431)
  for (const [seconds, writes] of [
    [0.0001, 1],
    [0.3, 2],
    [99, 3000],
  ] as const) {
    metrics.recordCommit({ seconds, writes })
  }
  const [ok, unavailable] = [{ status: 'ok' }, { status: 'unavailable' }] as const
  const report: ServiceReport = {
    readiness: { isReady: false, checks: { service: unavailable, storage: ok } },
    requests: metrics.count(),
    server: { connections: 12, waitingRequests: 3, shedRequests: 4 },
    storage: {
      engine: 'postgres',
      waitingWrites: 5,
      fileBytes: { database: 4096, wal: 1e21 },
      connections: { active: 6, idle: 7, waiting: 8 },
    },
    waitingPasswords: 9,
    wholeLists: 2,
    feed: { waiting: 21, streaming: 22, deletions: 23 },
    webhooks: [{ webhook: 'search', delivered: 24, failed: 25, behindSeconds: 26.5 }],
    limits: {
      rules: ODD_RULES.map((rule, index) => ({
        ...{ type: 'throttle', rule, isDryRun: false },
        ...{ counted: index, passed: index + 1, refused: index + 2, wouldRefuse: index + 3 },
      })),
      ...{ bans: 10, store: 'redis', isStoreUp: false },
    },
    process: { pid: 1, startedAt: 2, cpuSeconds: 3, memoryBytes: 4, eventLoopLagSeconds: 5 },
    ...changes,
  }
  return { metrics, report, render: () => metrics.render(report) }
}

test('the text says exactly what the report says', async () => {
  const { metrics, render } = openMetrics()
  const { type, body } = await render()
  expect(type).toBe('text/plain; version=0.0.4; charset=utf-8')
  const { all, read } = parseMetrics(body)
  const ofSeries = 'http_request_duration_seconds'
  for (const { labels: given, counts, count, sum } of (await metrics.report()).series) {
    const labels = { ...given, status: String(given.status) }
    let below = 0
    const buckets = counts.map((inRange, index) => {
      below += inRange
      const le = String(DURATION_BOUNDS[index] ?? '+Inf')
      return expect.objectContaining({ labels: { ...labels, le }, value: below })
    })
    expect(all(`${ofSeries}_bucket`, labels)).toEqual(buckets)
    expect(read(`${ofSeries}_sum`, labels)).toBe(sum)
    expect(read(`${ofSeries}_count`, labels)).toBe(count)
  }
  expect(all(`${ofSeries}_count`)).toHaveLength(5)
  expect(read(`${ofSeries}_count`, { method: '_OTHER', route: '', status: '431' })).toBe(1)
  const valuesOf = (name: string) =>
    Object.fromEntries(
      all(name).map(({ labels, value }) => [Object.values(labels)[0] ?? '', value]),
    )
  expect(valuesOf('http_requests_by_key_total')).toEqual({ 'key-1': 1, 'key-2': 1, 'key-3': 1 })
  expect(valuesOf('whole_lists')).toEqual({ '': 2 })
  expect(valuesOf('queue_length')).toEqual({ requests: 3, writes: 5, passwords: 9 })
  expect(valuesOf('change_feed_requests')).toEqual({ waiting: 21, streaming: 22 })
  expect(valuesOf('storage_bytes')).toEqual({ database: 4096, wal: 1e21 })
  expect(valuesOf('storage_connections')).toEqual({ active: 6, idle: 7 })
  for (const [name, value] of [
    ['http_requests_in_flight', 1],
    ['http_connections', 12],
    ['http_requests_shed_total', 4],
    ['storage_up', 1],
    ['storage_commit_duration_seconds_count', 3],
    ['storage_commit_duration_seconds_sum', 99.3001],
    ['storage_commit_writes_sum', 3003],
    ['storage_connections_waiting', 8],
    ['change_feed_deletions', 23],
    ['webhook_behind_seconds', 26.5],
    ['limit_bans', 10],
    ['limit_store_up', 0],
  ] as const) {
    expect([name, read(name)]).toEqual([name, value])
  }
  for (const [outcome, count] of [
    ['delivered', 24],
    ['failed', 25],
  ] as const) {
    expect(read('webhook_deliveries_total', { webhook: 'search', outcome })).toBe(count)
  }
  expect(read('storage_commit_duration_seconds_bucket', { le: '2.5' })).toBe(2)
  expect(read('user_records_build_info', { node: process.version })).toBe(1)
  for (const [index, name] of ODD_RULES.entries()) {
    const labels = { type: 'throttle', rule: name.replace('\0', '\ufffd') }
    expect(read('limit_requests_counted_total', labels)).toBe(index)
    for (const [number, outcome] of ['passed', 'refused', 'would_refuse'].entries()) {
      expect(read('limit_decisions_total', { ...labels, outcome })).toBe(index + number + 1)
    }
  }
})

/** The metrics that docs/operations/metrics.md lists: name and labels. */
function documentedMetrics(): (readonly [name: string, labels: readonly string[]])[] {
  const page = new URL('../../../docs/operations/metrics.md', import.meta.url)
  const heads = readFileSync(page, 'utf8').match(/^- (?:`[^`]+`(?:, )?)+(?=:)/gm) ?? []
  const metrics = heads.join().matchAll(/`(\w+)(?:\{([\w,]+)\})?`/g)
  return Array.from(metrics, ([, name = '', labels]) => [name, labels?.split(',') ?? []])
}

test('the text has each metric of docs/operations/metrics.md once, with its type, help and labels, and beside them only those of Node', async () => {
  const { render } = openMetrics()
  const { body } = await render()
  const { types, helps, samples } = parseMetrics(body)
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

test('a metric of another engine is left out', async () => {
  const { render } = openMetrics({ storage: { engine: 'sqlite', waitingWrites: 0 } })
  const { all, types } = parseMetrics((await render()).body)
  for (const name of ['storage_connections', 'storage_connections_waiting', 'storage_bytes']) {
    expect([name, types[name], all(name)]).toEqual([name, 'gauge', []])
  }
})

test('the text is the same at the same time and again, and leaves the registry of others alone', async () => {
  const { render } = openMetrics()
  const namesIn = async () => Object.keys(parseMetrics((await render()).body).types)
  const before = await namesIn()
  expect(before).toContain('process_cpu_seconds_total')
  expect(await Promise.all([namesIn(), namesIn()])).toEqual([before, before])
  // The monitor of the event loop has measured nothing since the answers before.
  const { read } = parseMetrics((await render()).body)
  const lags = ['min', 'mean', 'p99'].map(name => read(`nodejs_eventloop_lag_${name}_seconds`))
  expect(lags.every(lag => lag !== undefined && lag < 60)).toBe(true)
  expect(register.getMetricsAsArray()).toEqual([])
})

test('requests that wait for changes are counted, but not among the durations of the page', () => {
  const { requests, count } = createMetrics(Date.now)
  for (const [route, seconds] of [
    ['/users/changes', 30],
    ['/users', 0.2],
  ] as const) {
    requests.begin()
    const sent = { requestId: 'one', method: 'GET', route, status: 200, seconds }
    requests.end({ ...sent, key: undefined, reason: undefined })
  }
  const { byClass, durations } = count()
  expect(byClass).toMatchObject({ '2xx': 2 })
  expect(durations.flatMap((count, range) => (count > 0 ? [DURATION_BOUNDS[range]] : []))).toEqual([
    0.25,
  ])
})

test('requests are counted by at most 200 names of keys, and the rest under _other', async () => {
  const { requests, count, report } = createMetrics(Date.now)
  const names = Array.from({ length: 300 }, (_, index) => `key-${index}`)
  for (const key of [...names, ...names]) {
    requests.begin()
    const line = { requestId: 'one', reason: undefined, method: 'GET', route: '/users' }
    requests.end({ ...line, status: 200, seconds: 0.001, key })
  }
  const counted = Object.fromEntries(names.slice(0, 200).map(name => [name, 2]))
  expect((await report()).byKey).toEqual({ ...counted, _other: 200 })
  expect(count()).toMatchObject({ inFlight: 0, byClass: { '2xx': 600, '5xx': 0 } })
})
