import { expect, test } from 'vitest'
import { createStatusHistory } from '../../../src/ops/management/status-history.ts'
import type { ServiceReport } from '../../../src/ops/metrics/service-report.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import {
  reportOfRequests,
  reportOfRules,
  seriesOf,
  serviceReport,
} from '../../support/service-reports.ts'

const MINUTE_MS = 60_000

/** A history whose service reports what the test gives it, `ms` after its report before. */
function openHistory() {
  const wall = createFakeClock()
  const steady = createFakeClock(0)
  let report = serviceReport()
  const history = createStatusHistory({
    report: async () => report,
    now: wall.now,
    monotonicNow: steady.now,
  })
  const sample = async (next: ServiceReport, ms = 2000) => {
    wall.advance(ms)
    steady.advance(ms)
    report = next
    await history.sample()
    return history.read().samples.at(-1)
  }
  return { history, wall, sample }
}

test('the first sample only begins, and the others have what happened since the one before', async () => {
  const { history, wall, sample } = openHistory()
  expect(await sample(reportOfRequests(100))).toBeUndefined()
  expect(await sample(reportOfRequests(130))).toEqual({
    at: new Date(wall.now()).toISOString(),
    seconds: 2,
    by_status: { '2xx': 30, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 },
    p50_ms: 0.75,
    p90_ms: 0.95,
    p99_ms: 0.995,
    shed: 0,
    refused: 0,
    would_refuse: 0,
    queues: { requests: 0, writes: 0, passwords: 0 },
    cpu: 0,
  })
  expect(history.read().every_seconds).toBe(2)
})

test('a sample has each class of status, and clients that left', async () => {
  const { sample } = openHistory()
  const requestsOf = (counts: Readonly<Record<number, number>>) => {
    const series = Object.entries(counts).map(([status, count]) =>
      seriesOf({ status: Number(status) }, new Array<number>(count).fill(0.01)),
    )
    return serviceReport({ requests: { series, inFlight: 0, byKey: {} } })
  }
  await sample(requestsOf({ 200: 1, 503: 7 }))
  const { by_status } = (await sample(
    requestsOf({ 200: 2, 204: 1, 304: 2, 404: 3, 429: 4, 503: 12, 0: 6 }),
  )) as NonNullable<Awaited<ReturnType<typeof sample>>>
  expect(by_status).toEqual({ '2xx': 2, '3xx': 2, '4xx': 7, '5xx': 5, aborted: 6 })
})

test('percentiles are of the requests that ended since the sample before; null without any', async () => {
  const { sample } = openHistory()
  const slow = seriesOf({ status: 500 }, new Array<number>(1000).fill(5))
  const after = (series: readonly ReturnType<typeof seriesOf>[]) =>
    serviceReport({ requests: { series, inFlight: 0, byKey: {} } })
  await sample(after([slow]))
  expect(await sample(after([slow]))).toMatchObject({ p50_ms: null, p90_ms: null, p99_ms: null })
  const fast = seriesOf({}, [...new Array<number>(98).fill(0.001), 1, 1])
  expect(await sample(after([slow, fast]))).toMatchObject({
    p50_ms: expect.closeTo(0.755, 3),
    p99_ms: 750,
  })
})

test('what waits, what was shed and what the process uses is in a sample', async () => {
  const { sample } = openHistory()
  const busy = (shedRequests: number, cpuSeconds: number) =>
    serviceReport({
      server: { connections: 9, waitingRequests: 4, shedRequests },
      storage: { ...serviceReport().storage, waitingWrites: 5 },
      waitingPasswords: 6,
      process: { ...serviceReport().process, cpuSeconds },
    })
  await sample(busy(10, 100))
  expect(await sample(busy(12, 102))).toMatchObject({
    queues: { requests: 4, writes: 5, passwords: 6 },
    shed: 2,
    cpu: 1,
  })
})

test('a late sample is about a longer time, and nothing is counted twice', async () => {
  const { history, sample } = openHistory()
  await sample(reportOfRequests(0))
  await sample(reportOfRequests(10))
  expect(await sample(reportOfRequests(40), 8500)).toMatchObject({ seconds: 8.5 })
  const counts = history.read().samples.map(({ by_status }) => by_status['2xx'])
  expect(counts).toEqual([10, 30])
})

test('a service that cannot report leaves a gap, which the next sample covers', async () => {
  const steady = createFakeClock(0)
  let isBroken = false
  let count = 0
  const history = createStatusHistory({
    report: async () => {
      if (isBroken) throw new Error('the storage does not answer')
      return reportOfRequests(count)
    },
    now: steady.now,
    monotonicNow: steady.now,
  })
  for (const [requests, broken] of [
    [0, false],
    [5, true],
    [12, false],
  ] as const) {
    steady.advance(2000)
    count = requests
    isBroken = broken
    await history.sample().catch(() => {})
  }
  const { samples } = history.read()
  expect(samples).toMatchObject([{ seconds: 4, by_status: { '2xx': 12 } }])
})

test('samples never overlap, however long the service takes to report', async () => {
  const clock = createFakeClock()
  const waiting: ((report: ServiceReport) => void)[] = []
  const history = createStatusHistory({
    report: () => new Promise(resolve => waiting.push(resolve)),
    now: clock.now,
    monotonicNow: clock.now,
  })
  const first = history.sample()
  await history.sample()
  expect(waiting.length).toBe(1)
  waiting[0]?.(reportOfRequests(1))
  await first
  clock.advance(2000)
  const second = history.sample()
  expect(waiting.length).toBe(2)
  waiting[1]?.(reportOfRequests(4))
  await second
  expect(history.read().samples).toMatchObject([{ by_status: { '2xx': 3 } }])
})

test('after the clock was set back the times still grow, and no rate changes', async () => {
  const { history, wall, sample } = openHistory()
  await sample(reportOfRequests(0))
  for (const count of [10, 20, 30]) await sample(reportOfRequests(count))
  wall.advance(-5000)
  await sample(reportOfRequests(44))
  const { samples } = history.read()
  const times = samples.map(({ at }) => at)
  expect(times).toEqual([...new Set(times)].toSorted())
  expect(Date.parse(times.at(-1) ?? '')).toBe(wall.now())
  expect(samples.at(-1)).toMatchObject({ seconds: 2, by_status: { '2xx': 14 } })
})

test('after the clock was set forward what is too old is gone, and no rate changes', async () => {
  const { history, wall, sample } = openHistory()
  await sample(reportOfRequests(0))
  await sample(reportOfRequests(10))
  wall.advance(60 * MINUTE_MS)
  await sample(reportOfRequests(25))
  expect(history.read().samples).toMatchObject([{ seconds: 2, by_status: { '2xx': 15 } }])
})

test('counts that went back are no negative numbers: a rule that was removed, and one that came again', async () => {
  const { sample } = openHistory()
  await sample(
    reportOfRules([
      { rule: 'a', refused: 50 },
      { rule: 'b', refused: 8 },
    ]),
  )
  expect(await sample(reportOfRules([{ rule: 'b', refused: 9 }]))).toMatchObject({ refused: 1 })
  expect(
    await sample(
      reportOfRules([
        { rule: 'b', refused: 2, wouldRefuse: 1 },
        { rule: 'c', refused: 3 },
      ]),
    ),
  ).toMatchObject({ refused: 5, would_refuse: 1 })
})

test('15 minutes are kept, and since gives only what is newer', async () => {
  const { history, sample } = openHistory()
  for (let count = 0; count <= 500; count++) await sample(reportOfRequests(count))
  const { samples } = history.read()
  expect(samples.length).toBe(450)
  const since = samples[446]?.at ?? ''
  expect(history.read(Date.parse(since)).samples).toEqual(samples.slice(447))
  expect(history.read(Date.parse(samples.at(-1)?.at ?? '')).samples).toEqual([])
})
