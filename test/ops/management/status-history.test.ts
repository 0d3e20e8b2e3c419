import { expect, test } from 'vitest'
import type { RuleReport } from '../../../src/limits/rule-report.ts'
import { createStatusHistory } from '../../../src/ops/management/status-history.ts'
import { DURATION_BOUNDS } from '../../../src/ops/metrics/create-metrics.ts'
import type { ServiceCounts } from '../../../src/ops/metrics/service-report.ts'
import { createFakeClock } from '../../support/fake-clock.ts'

/** The report of a service that has done nothing yet, but for `changes`. */
function serviceReport(changes: Partial<ServiceCounts> = {}): ServiceCounts {
  return {
    requests: { inFlight: 0, byClass: {}, durations: [] },
    server: { connections: 0, waitingRequests: 0, shedRequests: 0 },
    storage: { engine: 'sqlite', waitingWrites: 0 },
    ...{ waitingPasswords: 0, wholeLists: 2, limits: undefined },
    feed: { waiting: 0, streaming: 0, deletions: 0 },
    webhooks: [],
    process: { pid: 4711, startedAt: 0, cpuSeconds: 0, memoryBytes: 0, eventLoopLagSeconds: 0 },
    ...changes,
  }
}

/** Requests that each took so many seconds. */
interface Batch {
  readonly status: number
  readonly seconds: number
  readonly count: number
}

const seriesOf = (status: number, seconds: number, count: number): Batch => ({
  status,
  seconds,
  count,
})

function reportOfSeries(...batches: readonly Batch[]): ServiceCounts {
  const byClass: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  const durations = DURATION_BOUNDS.map(() => 0)
  for (const { status, seconds, count } of batches) {
    const name = status === 0 ? 'aborted' : `${String(status)[0]}xx`
    byClass[name] = (byClass[name] ?? 0) + count
    const range = DURATION_BOUNDS.findIndex(bound => seconds <= bound)
    durations[range] = (durations[range] ?? 0) + count
  }
  return serviceReport({ requests: { inFlight: 0, byClass, durations } })
}

const reportOfRequests = (count: number) => reportOfSeries(seriesOf(200, 0.001, count))

/** A report with limits that have done this. */
function reportOfRules(rules: readonly Partial<RuleReport>[]): ServiceCounts {
  const usual = { type: 'throttle', rule: 'posts', isDryRun: false } as const
  const counts = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
  const reports = rules.map(rule => ({ ...usual, ...counts, ...rule }))
  return serviceReport({ limits: { rules: reports, bans: 0, store: 'memory', isStoreUp: true } })
}

/** A history of a service that reports what the test says. */
function openHistory() {
  const wall = createFakeClock()
  const steady = createFakeClock(0)
  let report = async () => serviceReport()
  const history = createStatusHistory(() => report(), { now: wall.now, monotonicNow: steady.now })

  /** Samples this report, `ms` after the sample before, and returns the new sample. */
  async function sample(next: ServiceCounts | Promise<ServiceCounts>, ms = 2000) {
    wall.advance(ms)
    steady.advance(ms)
    report = async () => next
    await history.sample()
    return history.read().samples.at(-1)
  }

  return { history, wall, sample }
}

test('the first sample only begins, and the others have what happened since the one before', async () => {
  const { history, wall, sample } = openHistory()
  const { storage, process } = serviceReport()
  const reportOf = (shedRequests: number, ...series: Batch[]) => ({
    ...reportOfSeries(...series),
    server: { connections: 9, waitingRequests: 4, shedRequests },
    storage: { ...storage, waitingWrites: 5 },
    waitingPasswords: 6,
    wholeLists: 2,
    process: { ...process, cpuSeconds: shedRequests },
  })
  expect(await sample(reportOf(10, seriesOf(200, 5, 900), seriesOf(503, 0.001, 7)))).toBeUndefined()
  const busy = [seriesOf(200, 5, 900), seriesOf(204, 0.001, 98), seriesOf(304, 0.001, 2)]
  const wrong = [seriesOf(404, 0.001, 3), seriesOf(503, 0.001, 12), seriesOf(0, 0.001, 6)]
  expect(await sample(reportOf(12, ...busy, ...wrong))).toEqual({
    at: new Date(wall.now()).toISOString(),
    seconds: 2,
    by_status: { '2xx': 98, '3xx': 2, '4xx': 3, '5xx': 5, aborted: 6 },
    // Of the new requests only: the old ones took five seconds.
    ...{ p50_ms: 0.75, p90_ms: 0.95, p99_ms: 0.995 },
    ...{ shed: 2, refused: 0, would_refuse: 0, cpu: 1 },
    queues: { requests: 4, writes: 5, passwords: 6 },
  })
  expect(await sample(reportOf(12, ...busy, ...wrong))).toMatchObject({ p50_ms: null, shed: 0 })
  expect(history.read().every_seconds).toBe(2)
})

test('a late sample, and one after a service that could not report, are about a longer time', async () => {
  const { history, sample } = openHistory()
  for (const count of [0, 10]) await sample(reportOfRequests(count))
  await sample(reportOfRequests(40), 8500)
  await expect(sample(Promise.reject(new Error('no answer')))).rejects.toThrow('no answer')
  await sample(reportOfRequests(52))
  const seen = history.read().samples.map(({ seconds, by_status }) => [seconds, by_status['2xx']])
  expect(seen).toEqual([
    [2, 10],
    [8.5, 30],
    [4, 12],
  ])
})

test('after the clock was set back the times still grow, and no rate changes', async () => {
  const { history, wall, sample } = openHistory()
  for (const count of [0, 10, 20, 30]) await sample(reportOfRequests(count))
  wall.advance(-5000)
  expect(await sample(reportOfRequests(44))).toMatchObject({ seconds: 2, by_status: { '2xx': 14 } })
  const times = history.read().samples.map(({ at }) => at)
  expect(times).toEqual([...new Set(times)].toSorted())
})

test('the decisions of all rules count, also while a reload removes a rule or begins one again', async () => {
  const { sample } = openHistory()
  const [one, other] = [
    { rule: 'a', refused: 50 },
    { rule: 'b', refused: 8, wouldRefuse: 1 },
  ]
  await sample(reportOfRules([one, other]))
  const grown = [
    { ...one, refused: 53 },
    { ...other, refused: 10, wouldRefuse: 2 },
  ]
  expect(await sample(reportOfRules(grown))).toMatchObject({ refused: 5, would_refuse: 1 })
  const left = { ...other, refused: 14, wouldRefuse: 5 }
  expect(await sample(reportOfRules([left]))).toMatchObject({ refused: 4, would_refuse: 3 })
  const begun = { ...one, refused: 2 }
  const ofOtherType = { rule: 'b', type: 'ban', refused: 1 } as const
  const reloaded = [begun, { ...left, refused: 0 }, ofOtherType]
  expect(await sample(reportOfRules(reloaded))).toMatchObject({ refused: 3, would_refuse: 0 })
})

test('15 minutes are kept, and since gives only what is newer', async () => {
  const { history, sample } = openHistory()
  for (let count = 0; count <= 500; count++) await sample(reportOfRequests(count))
  const { samples } = history.read()
  expect(samples.length).toBe(450)
  const since = (index: number) => history.read(Date.parse(samples.at(index)?.at ?? '')).samples
  expect(since(446)).toEqual(samples.slice(447))
  expect(since(-1)).toEqual([])
})

test('after a suspend of the machine the samples of before it are gone', async () => {
  const { history, wall, sample } = openHistory()
  for (const count of [0, 10, 20]) await sample(reportOfRequests(count))
  wall.advance(14 * 60_000)
  expect(history.read().samples).toHaveLength(2)
  wall.advance(60_000)
  expect(history.read().samples).toEqual([])
  await sample(reportOfRequests(26))
  expect(history.read().samples).toMatchObject([{ seconds: 2, by_status: { '2xx': 6 } }])
})
