import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DURATION_BOUNDS, type RequestSeries } from '../../../src/http/request-metrics.ts'
import type { RuleReport } from '../../../src/limits/rule-report.ts'
import { totalOf } from '../../../src/metrics/histogram.ts'
import {
  addCounted,
  type Counted,
  countedBy,
  NOTHING_COUNTED,
} from '../../../src/ops/metrics/counted.ts'
import { mergeReports, type NumberedReport } from '../../../src/ops/metrics/merge-reports.ts'
import type { ProcessReport } from '../../../src/ops/metrics/process-report.ts'
import { COMMIT_SECONDS_BOUNDS, COMMIT_WRITES_BOUNDS } from '../../../src/storage/storage-report.ts'

const count = fc.nat(1_000_000)
const seconds = fc.double({ min: 0, max: 1e6, noNaN: true })

function histogram(bounds: readonly number[]) {
  const ranges = bounds.length + 1
  const counts = fc.array(count, { minLength: ranges, maxLength: ranges })
  return fc.record({ counts, sum: seconds })
}

const exemplar = fc.record({
  traceId: fc.constantFrom('a'.repeat(32), 'b'.repeat(32)),
  seconds,
  at: fc.nat(3),
})

const series: fc.Arbitrary<RequestSeries> = fc.record(
  {
    method: fc.constantFrom('GET', 'POST'),
    route: fc.constantFrom('/users', '/users/{id}', ''),
    status: fc.constantFrom(0, 200, 404),
    seconds: histogram(DURATION_BOUNDS),
    exemplars: fc.dictionary(fc.constantFrom('0', '3'), exemplar, { noNullPrototype: true }),
  },
  { requiredKeys: ['method', 'route', 'status', 'seconds'] },
)

const rule: fc.Arbitrary<RuleReport> = fc.record({
  type: fc.constantFrom('ban' as const, 'throttle' as const),
  rule: fc.constantFrom('posts', 'login'),
  isDryRun: fc.boolean(),
  counted: count,
  passed: count,
  refused: count,
  wouldRefuse: count,
})

const limits = fc.record({
  rules: fc.uniqueArray(rule, { selector: each => `${each.type} ${each.rule}` }),
  bans: count,
  store: fc.constant('memory' as const),
  isStoreUp: fc.boolean(),
})

function metric(name: string, type: string, aggregator: string) {
  return seconds.map(value => ({
    name,
    help: name,
    type,
    aggregator,
    values: [{ value, labels: {} }],
  }))
}

const defaults = fc.tuple(
  metric('process_cpu_seconds_total', 'counter', 'sum'),
  metric('process_start_time_seconds', 'gauge', 'omit'),
  metric('process_resident_memory_bytes', 'gauge', 'sum'),
  metric('nodejs_eventloop_lag_seconds', 'gauge', 'average'),
)

const report: fc.Arbitrary<ProcessReport> = fc.record(
  {
    requests: fc.record({
      series: fc.uniqueArray(series, {
        selector: each => [each.method, each.route, each.status].join(' '),
      }),
      inFlight: count,
      byKey: fc.dictionary(fc.constantFrom('shop', '_other', '__proto__'), count, {
        noNullPrototype: true,
      }),
    }),
    server: fc.record({ connections: count, waitingRequests: count, shedRequests: count }),
    storage: fc.record(
      {
        engine: fc.constant('postgres' as const),
        waitingWrites: count,
        commits: fc.record({
          seconds: histogram(COMMIT_SECONDS_BOUNDS),
          writes: histogram(COMMIT_WRITES_BOUNDS),
        }),
        fileBytes: fc.record({ database: count, wal: count }),
        connections: fc.record({ active: count, idle: count, waiting: count }),
      },
      { requiredKeys: ['engine', 'waitingWrites'] },
    ),
    isStorageUp: fc.boolean(),
    waitingPasswords: count,
    limits,
    process: fc.record({
      pid: count,
      startedAt: count,
      cpuSeconds: seconds,
      memoryBytes: count,
      eventLoopLagSeconds: seconds,
      defaults,
    }),
  },
  {
    requiredKeys: ['requests', 'server', 'storage', 'isStorageUp', 'waitingPasswords', 'process'],
  },
)

const reports: fc.Arbitrary<readonly NumberedReport[]> = fc.uniqueArray(
  fc.record({ worker: fc.integer({ min: 1, max: 64 }), report, at: fc.nat(3) }),
  { minLength: 1, maxLength: 5, selector: ({ worker }) => worker },
)

const shuffled = reports.chain(all =>
  fc.record({
    all: fc.constant(all),
    other: fc.shuffledSubarray([...all], { minLength: all.length }),
  }),
)

test('mergeReports gives the same for any order of the reports', () => {
  const property = fc.property(shuffled, ({ all, other }) => {
    expect(mergeReports(other)).toEqual(mergeReports(all))
  })
  fc.assert(property)
})

test('addCounted gives the same for any grouping', () => {
  const property = fc.property(fc.array(report, { maxLength: 5 }), fc.nat(5), (all, at) => {
    const counted = all.map(countedBy)
    const grouped = [addCounted(counted.slice(0, at)), addCounted(counted.slice(at))]
    expect(addCounted(grouped)).toEqual(addCounted(counted))
    expect(addCounted([addCounted(counted)])).toEqual(addCounted(counted))
  })
  fc.assert(property)
})

test('mergeReports adds up each count', () => {
  const property = fc.property(reports, all => {
    const merged = mergeReports(all)
    const totalOfAll = (amountOf: (report: ProcessReport) => number) =>
      all.reduce((total, each) => total + amountOf(each.report), 0)
    const requestsOf = (of: { readonly requests: ProcessReport['requests'] }) =>
      of.requests.series.reduce((total, each) => total + totalOf(each.seconds), 0)
    const ofKeys = (of: { readonly requests: ProcessReport['requests'] }) =>
      Object.values(of.requests.byKey).reduce((total, each) => total + each, 0)
    expect(requestsOf(merged)).toBe(totalOfAll(requestsOf))
    expect(ofKeys(merged)).toBe(totalOfAll(ofKeys))
    expect(merged.requests.inFlight).toBe(totalOfAll(({ requests }) => requests.inFlight))
    expect(merged.server).toEqual({
      connections: totalOfAll(({ server }) => server.connections),
      waitingRequests: totalOfAll(({ server }) => server.waitingRequests),
      shedRequests: totalOfAll(({ server }) => server.shedRequests),
    })
    expect(totalOf(merged.storage.commits.writes)).toBe(
      totalOfAll(({ storage }) => (storage.commits ? totalOf(storage.commits.writes) : 0)),
    )
    const ofProcesses = merged.processes.reduce((total, each) => total + each.requests, 0)
    expect(ofProcesses).toBe(requestsOf(merged))
    for (const each of merged.limits?.rules ?? []) {
      const refused = totalOfAll(({ limits }) => {
        const same = limits?.rules.find(
          ({ type, rule }) => type === each.type && rule === each.rule,
        )
        return same?.refused ?? 0
      })
      expect(each.refused).toBe(refused)
    }
  })
  fc.assert(property)
})

function countsOf(merged: ReturnType<typeof mergeReports>) {
  const { series, byKey } = merged.requests
  const counters = merged.defaults.filter(({ type }) => type === 'counter')
  const { shedRequests } = merged.server
  return [series, byKey, shedRequests, merged.storage.commits, counters]
}

test('mergeReports keeps each count, to the last digit, when a process ends', () => {
  const property = fc.property(reports, report, fc.nat(), (all, ofFirst, index) => {
    const first = { engine: 'postgres' as const, process: ofFirst.process, ended: NOTHING_COUNTED }
    const before = mergeReports(all, first)
    const gone = all[index % all.length] as NumberedReport
    const ended: Counted = addCounted([NOTHING_COUNTED, countedBy(gone.report)])
    const after = mergeReports(
      all.filter(each => each !== gone),
      { ...first, ended },
    )
    expect(countsOf(after)).toEqual(countsOf(before))
  })
  fc.assert(property)
})

function sample(change: Partial<ProcessReport> = {}): ProcessReport {
  const [first] = fc.sample(report, { numRuns: 1, seed: 1 }) as [ProcessReport]
  return { ...first, ...change }
}

function ruleNamed(name: string, refused: number): RuleReport {
  const counts = { counted: 0, passed: 0, refused, wouldRefuse: 0 }
  return { type: 'throttle', rule: name, isDryRun: false, ...counts }
}

function limitsOf(rules: readonly RuleReport[]) {
  return { rules, bans: 0, store: 'memory' as const, isStoreUp: true }
}

test('mergeReports has the rules of the newest report only, in its order', () => {
  const old = sample({ limits: limitsOf([ruleNamed('went', 5), ruleNamed('kept', 7)]) })
  const latest = sample({ limits: limitsOf([ruleNamed('came', 1), ruleNamed('kept', 2)]) })
  const merged = mergeReports([
    { worker: 1, at: 1, report: old },
    { worker: 2, at: 2, report: latest },
  ])
  expect(merged.limits?.rules.map(({ rule, refused }) => [rule, refused])).toEqual([
    ['came', 1],
    ['kept', 9],
  ])
})

test.each([
  [[true, true], true],
  [[true, false], false],
])('mergeReports: stores that are up %j are together up %j', (each, together) => {
  const all = each.map((isUp, index) => ({
    worker: index + 1,
    report: sample({ isStorageUp: isUp, limits: { ...limitsOf([]), isStoreUp: isUp } }),
  }))
  const merged = mergeReports(all)
  expect([merged.isStorageUp, merged.limits?.isStoreUp]).toEqual([together, together])
})

test('mergeReports sums memory, has the worst lag and the first start', () => {
  const named = (name: string, aggregator: string, value: number) => ({
    name,
    help: name,
    type: 'gauge',
    aggregator,
    values: [{ value, labels: {} }],
  })
  const using = (memory: number, lag: number, start: number) => ({
    ...sample().process,
    defaults: [
      named('process_resident_memory_bytes', 'sum', memory),
      named('nodejs_eventloop_lag_seconds', 'average', lag),
      named('process_start_time_seconds', 'omit', start),
    ],
  })
  const merged = mergeReports(
    [
      { worker: 1, report: sample({ process: using(10, 0.5, 101) }) },
      { worker: 2, report: sample({ process: using(20, 0.1, 102) }) },
    ],
    { engine: 'sqlite', process: using(30, 0.2, 100), ended: NOTHING_COUNTED },
  )
  expect(merged.defaults.map(({ values }) => values[0]?.value)).toEqual([60, 0.5, 100])
  expect(merged.processes.map(({ worker }) => worker)).toEqual([0, 1, 2])
})
