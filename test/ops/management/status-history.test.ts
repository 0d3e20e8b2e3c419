import { expect, test } from 'vitest'
import { createStatusHistory } from '../../../src/ops/management/status-history.ts'
import type { ServiceReport } from '../../../src/ops/metrics/service-report.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import {
  reportOfRequests,
  reportOfRules,
  reportOfSeries,
  seriesOf,
  serviceReport,
} from '../../support/service-reports.ts'

/** A history of a service that reports what the test says. */
function openHistory() {
  const wall = createFakeClock()
  const steady = createFakeClock(0)
  let report = async () => serviceReport()
  const history = createStatusHistory({
    report: () => report(),
    now: wall.now,
    monotonicNow: steady.now,
  })

  /** Samples this report, `ms` after the sample before, and returns the new sample. */
  async function sample(next: ServiceReport | Promise<ServiceReport>, ms = 2000) {
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
  expect(await sample(reportOfRequests(100))).toBeUndefined()
  expect(await sample(reportOfRequests(130))).toEqual({
    at: new Date(wall.now()).toISOString(),
    seconds: 2,
    by_status: { '2xx': 30, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 },
    ...{ p50_ms: 0.75, p90_ms: 0.95, p99_ms: 0.995 },
    ...{ shed: 0, refused: 0, would_refuse: 0, cpu: 0 },
    queues: { requests: 0, writes: 0, passwords: 0 },
  })
  expect(history.read().every_seconds).toBe(2)
})

test('a sample has each class of status, and clients that left', async () => {
  const { sample } = openHistory()
  const requestsOf = (counts: Readonly<Record<number, number>>) =>
    reportOfSeries(
      Object.entries(counts).map(([status, count]) =>
        seriesOf({ status: Number(status) }, new Array<number>(count).fill(0.01)),
      ),
    )
  await sample(requestsOf({ 200: 1, 503: 7 }))
  const counts = { 200: 2, 204: 1, 304: 2, 404: 3, 429: 4, 503: 12, 0: 6 }
  expect((await sample(requestsOf(counts)))?.by_status).toEqual({
    ...{ '2xx': 2, '3xx': 2, '4xx': 7, '5xx': 5, aborted: 6 },
  })
})

test('percentiles are of the requests that ended since the sample before; null without any', async () => {
  const { sample } = openHistory()
  const slow = seriesOf({ status: 500 }, new Array<number>(1000).fill(5))
  await sample(reportOfSeries([slow]))
  const none = { p50_ms: null, p90_ms: null, p99_ms: null }
  expect(await sample(reportOfSeries([slow]))).toMatchObject(none)
  const fast = seriesOf({}, [...new Array<number>(98).fill(0.001), 1, 1])
  expect(await sample(reportOfSeries([slow, fast]))).toMatchObject({
    ...{ p50_ms: expect.closeTo(0.755, 3), p99_ms: 750 },
  })
})

test('what waits, what was shed and what the process uses is in a sample', async () => {
  const { sample } = openHistory()
  const { storage, process } = serviceReport()
  const busy = (shedRequests: number, cpuSeconds: number) =>
    serviceReport({
      server: { connections: 9, waitingRequests: 4, shedRequests },
      storage: { ...storage, waitingWrites: 5 },
      waitingPasswords: 6,
      process: { ...process, cpuSeconds },
    })
  await sample(busy(10, 100))
  const queues = { requests: 4, writes: 5, passwords: 6 }
  expect(await sample(busy(12, 102))).toMatchObject({ queues, shed: 2, cpu: 1 })
})

test('a late sample is about a longer time, and nothing is counted twice', async () => {
  const { history, sample } = openHistory()
  for (const count of [0, 10]) await sample(reportOfRequests(count))
  expect(await sample(reportOfRequests(40), 8500)).toMatchObject({ seconds: 8.5 })
  const counts = history.read().samples.map(({ by_status }) => by_status['2xx'])
  expect(counts).toEqual([10, 30])
})

test('a service that cannot report leaves a gap, which the next sample covers', async () => {
  const { history, sample } = openHistory()
  await sample(reportOfRequests(0))
  await expect(sample(Promise.reject(new Error('no answer')))).rejects.toThrow('no answer')
  await sample(reportOfRequests(12))
  expect(history.read().samples).toMatchObject([{ seconds: 4, by_status: { '2xx': 12 } }])
})

test('samples never overlap, however long the service takes to report', async () => {
  const { history, sample } = openHistory()
  let report = (_report: ServiceReport) => {}
  const first = sample(
    new Promise<ServiceReport>(resolve => {
      report = resolve
    }),
  )
  await sample(reportOfRequests(99))
  report(reportOfRequests(1))
  await first
  await sample(reportOfRequests(4))
  expect(history.read().samples).toMatchObject([{ seconds: 2, by_status: { '2xx': 3 } }])
})

test('after the clock was set back the times still grow, and no rate changes', async () => {
  const { history, wall, sample } = openHistory()
  for (const count of [0, 10, 20, 30]) await sample(reportOfRequests(count))
  wall.advance(-5000)
  const last = await sample(reportOfRequests(44))
  const times = history.read().samples.map(({ at }) => at)
  expect(times).toEqual([...new Set(times)].toSorted())
  const at = new Date(wall.now()).toISOString()
  expect(last).toMatchObject({ at, seconds: 2, by_status: { '2xx': 14 } })
})

test('after the clock was set forward what is too old is gone, and no rate changes', async () => {
  const { history, wall, sample } = openHistory()
  for (const count of [0, 10]) await sample(reportOfRequests(count))
  wall.advance(60 * 60_000)
  await sample(reportOfRequests(25))
  expect(history.read().samples).toMatchObject([{ seconds: 2, by_status: { '2xx': 15 } }])
})

test('counts that went back are no negative numbers: a rule that was removed, and one that came again', async () => {
  const { sample } = openHistory()
  const b = { rule: 'b', refused: 9 }
  await sample(
    reportOfRules([
      { rule: 'a', refused: 50 },
      { ...b, refused: 8 },
    ]),
  )
  expect(await sample(reportOfRules([b]))).toMatchObject({ refused: 1 })
  const anew = { ...b, refused: 2, wouldRefuse: 1 }
  expect(await sample(reportOfRules([anew, { rule: 'c', refused: 3 }]))).toMatchObject({
    ...{ refused: 5, would_refuse: 1 },
  })
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
