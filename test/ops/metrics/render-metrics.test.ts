import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createRequestMetrics, DURATION_BOUNDS } from '../../../src/http/request-metrics.ts'
import { createHistogram, totalOf } from '../../../src/metrics/histogram.ts'
import { openProcessMeter } from '../../../src/ops/metrics/process-meter.ts'
import { renderMetrics } from '../../../src/ops/metrics/render-metrics.ts'
import { SERVICE_METRICS } from '../../../src/ops/metrics/service-metrics.ts'
import type { ServiceReport } from '../../../src/ops/metrics/service-report.ts'
import { COMMIT_SECONDS_BOUNDS, COMMIT_WRITES_BOUNDS } from '../../../src/storage/storage-report.ts'
import { parseMetrics } from '../../support/metrics-text.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { serviceReport } from '../../support/service-reports.ts'

const OPEN_METRICS = 'application/openmetrics-text;version=1.0.0'

const FORMATS = [
  ['Prometheus', undefined],
  ['OpenMetrics', OPEN_METRICS],
] as const

const TRACE = '0af7651916cd43dd8448eb211c80319c'

const ODD_RULES = [
  '"quoted"',
  'two\nlines',
  'back\\slash',
  '{a="b"} 1',
  'tab\t, # ü 語',
  ' ',
  'nul\0',
]

const NOT_INSTALLED = 'promtool is not installed'

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

/** A report in which every metric has values. */
async function reportOf(): Promise<ServiceReport> {
  const meter = openProcessMeter()
  onTestFinished(meter.close)
  const metrics = createRequestMetrics({ now: () => 1_700_000_000_123 })
  for (const [index, status] of [200, 200, 404, 0].entries()) {
    metrics.begin()
    metrics.end({
      method: index === 0 ? 'BREW' : 'GET',
      route: '/users/{id}',
      status,
      seconds: 0.003 * index ** 5,
      key: index === 0 ? undefined : `key-${index}`,
      traceId: index === 1 ? TRACE : undefined,
    })
  }
  metrics.begin()
  metrics.addMalformed(431)
  const seconds = createHistogram(COMMIT_SECONDS_BOUNDS)
  const writes = createHistogram(COMMIT_WRITES_BOUNDS)
  for (const value of [0.0001, 0.3, 99]) seconds.observe(value)
  for (const value of [1, 2, 3000]) writes.observe(value)
  return {
    requests: metrics.report(),
    server: { connections: 12, waitingRequests: 3, shedRequests: 4 },
    storage: {
      engine: 'postgres',
      waitingWrites: 5,
      commits: { seconds: seconds.read(), writes: writes.read() },
      fileBytes: { database: 4096, wal: 1e21 },
      connections: { active: 6, idle: 7, waiting: 8 },
    },
    isStorageUp: true,
    waitingPasswords: 9,
    limits: {
      rules: ODD_RULES.map((rule, index) => ({
        type: 'throttle',
        rule,
        isDryRun: false,
        ...{ counted: index, passed: index + 1, refused: index + 2, wouldRefuse: index + 3 },
      })),
      bans: 10,
      store: 'redis',
      isStoreUp: false,
    },
    process: await meter.read(),
  }
}

test.each(FORMATS)('%s text says exactly what the report says', async (_, accept) => {
  const report = await reportOf()
  const { all, read } = parseMetrics((await renderMetrics(report, accept)).body)
  const ofSeries = 'http_request_duration_seconds'
  for (const { method, route, status, seconds } of report.requests.series) {
    const labels = { method, route, status: String(status) }
    let below = 0
    const buckets = seconds.counts.map((count, index) => {
      below += count
      const le = String(DURATION_BOUNDS[index] ?? '+Inf')
      return expect.objectContaining({ labels: { ...labels, le }, value: below })
    })
    expect(all(`${ofSeries}_bucket`, labels)).toEqual(buckets)
    expect(read(`${ofSeries}_sum`, labels)).toBe(seconds.sum)
    expect(read(`${ofSeries}_count`, labels)).toBe(totalOf(seconds))
  }
  expect(all(`${ofSeries}_count`)).toHaveLength(5)
  expect(read(`${ofSeries}_count`, { method: '_OTHER', route: '', status: '431' })).toBe(1)
  expect(all('http_requests_by_key_total').map(({ labels, value }) => [labels.key, value])).toEqual(
    ['key-1', 'key-2', 'key-3'].map(key => [key, 1]),
  )
  expect({
    inFlight: read('http_requests_in_flight'),
    connections: read('http_connections'),
    shed: read('http_requests_shed_total'),
    queues: ['requests', 'writes', 'passwords'].map(queue => read('queue_length', { queue })),
    isUp: read('storage_up'),
    commits: ['count', 'sum'].map(end => read(`storage_commit_duration_seconds_${end}`)),
    aboveAll: read('storage_commit_duration_seconds_bucket', { le: '2.5' }),
    writes: ['count', 'sum'].map(end => read(`storage_commit_writes_${end}`)),
    files: ['database', 'wal'].map(file => read('storage_bytes', { file })),
    pool: ['active', 'idle'].map(state => read('storage_connections', { state })),
    poolWaiting: read('storage_connections_waiting'),
    bans: read('limit_bans'),
    isStoreUp: read('limit_store_up'),
    build: all('user_records_build_info').map(({ labels, value }) => [labels.node, value]),
  }).toEqual({
    inFlight: 1,
    connections: 12,
    shed: 4,
    queues: [3, 5, 9],
    isUp: 1,
    commits: [3, 99.3001],
    aboveAll: 2,
    writes: [3, 3003],
    files: [4096, 1e21],
    pool: [6, 7],
    poolWaiting: 8,
    bans: 10,
    isStoreUp: 0,
    build: [[process.version, 1]],
  })
})

test.each(FORMATS)('in %s text a rule may have any name', async (_, accept) => {
  const report = await reportOf()
  const { all, read } = parseMetrics((await renderMetrics(report, accept)).body)
  for (const [index, name] of ODD_RULES.entries()) {
    const rule = name.replace('\0', '\ufffd')
    const labels = { type: 'throttle', rule }
    expect(read('limit_requests_counted_total', labels)).toBe(index)
    expect(
      all('limit_decisions_total', labels).map(({ labels: { outcome }, value }) => [
        outcome,
        value,
      ]),
    ).toEqual([
      ['passed', index + 1],
      ['refused', index + 2],
      ['would_refuse', index + 3],
    ])
  }
})

test.each(FORMATS)(
  '%s text has the type and the help of every metric, in one place',
  async (format, accept) => {
    const { body, type } = await renderMetrics(await reportOf(), accept)
    const { types, helps, samples } = parseMetrics(body)
    const isOpen = format === 'OpenMetrics'
    expect(type).toBe(
      isOpen
        ? 'application/openmetrics-text; version=1.0.0; charset=utf-8'
        : 'text/plain; version=0.0.4; charset=utf-8',
    )
    expect(body.endsWith('\n# EOF\n')).toBe(isOpen)
    for (const metric of SERVICE_METRICS) {
      const name =
        isOpen && metric.type === 'counter' ? metric.name.replace(/_total$/, '') : metric.name
      expect([name, types[name]]).toEqual([name, metric.type])
      expect([name, helps[name]]).toEqual([name, metric.help])
      const own = samples.filter(
        ({ name: sample }) =>
          sample === metric.name ||
          (metric.type === 'histogram' &&
            /_(bucket|sum|count)$/.test(sample) &&
            sample.startsWith(name)),
      )
      const labels = new Set(own.flatMap(sample => Object.keys(sample.labels)))
      labels.delete('le')
      expect([name, [...labels].toSorted()]).toEqual([name, metric.labels.toSorted()])
    }
    for (const name of [
      'process_cpu_seconds_total',
      'nodejs_eventloop_lag_seconds',
      'process_resident_memory_bytes',
    ]) {
      expect(samples.map(sample => sample.name)).toContain(name)
    }
    const keys = samples.map(({ name, labels }) =>
      JSON.stringify([name, Object.entries(labels).sort()]),
    )
    expect(new Set(keys).size).toBe(keys.length)
  },
)

test('each metric of the service has a plain help text', () => {
  for (const { name, help } of SERVICE_METRICS) {
    expect([name, help]).toEqual([name, expect.stringMatching(/^[A-Z][\w ,:.()-]*\.$/)])
    const unit = /_(seconds|bytes)(_total)?$/.exec(name)?.[1] ?? ''
    expect(help).toContain(unit)
  }
})

test('exemplars are in OpenMetrics text only, at the range of their request', async () => {
  const report = await reportOf()
  const plain = await renderMetrics(report, undefined)
  expect(plain.body).not.toContain(TRACE)
  const { samples } = parseMetrics((await renderMetrics(report, OPEN_METRICS)).body)
  const found = samples.filter(({ exemplar }) => exemplar !== undefined)
  expect(found).toEqual([
    {
      name: 'http_request_duration_seconds_bucket',
      labels: { method: 'GET', route: '/users/{id}', status: '200', le: '0.005' },
      value: 1,
      exemplar: { labels: { trace_id: TRACE }, value: 0.003, timestamp: 1_700_000_000.123 },
    },
  ])
})

test.each([
  [undefined, 'text/plain'],
  ['', 'text/plain'],
  ['*/*', 'text/plain'],
  ['text/plain', 'text/plain'],
  ['text/plain;version=0.0.4', 'text/plain'],
  ['application/*', 'application/openmetrics-text'],
  ['application/openmetrics-text', 'application/openmetrics-text'],
  ['application/openmetrics-text;q=0.5, text/plain;q=0.6', 'text/plain'],
  ['application/openmetrics-text;q=0.5, text/plain;q=0.5', 'text/plain'],
  // Prometheus 2 and 3.
  [
    'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1',
    'application/openmetrics-text',
  ],
  [
    'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2',
    'application/openmetrics-text',
  ],
])('for Accept %j the type is %s', async (accept, type) => {
  expect((await renderMetrics(await reportOf(), accept)).type.split(';')[0]).toBe(type)
})

test('promtool accepts the text of Prometheus', async context => {
  if (!hasPromtool) context.skip(NOT_INSTALLED)
  for (const report of [await reportOf(), serviceReport()]) {
    const { body } = await renderMetrics(report, undefined)
    const { stderr, stdout } = spawnSync('promtool', ['check', 'metrics'], { input: body })
    const lines = `${stderr}${stdout}`.split('\n').filter(line => line !== '')
    expect(lines).toEqual([])
  }
})

test('the parser of Prometheus accepts the OpenMetrics text', async context => {
  if (!hasPromtool) context.skip(NOT_INSTALLED)
  const { body } = await renderMetrics(await reportOf(), OPEN_METRICS)
  const folder = temporaryFolder()
  const file = join(folder, 'metrics.om')
  // To make blocks of the samples, promtool wants the time of each one.
  const timed = body.replace(/^([^#].*? \S+)( # \{trace_id.*)?$/gm, '$1 1700000000$2')
  writeFileSync(file, timed)
  const blocks = ['tsdb', 'create-blocks-from', 'openmetrics', file, join(folder, 'data')]
  expect(execFileSync('promtool', blocks, { encoding: 'utf8' })).toContain('BLOCK ULID')
})
