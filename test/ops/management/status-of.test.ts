import { expect, test } from 'vitest'
import { statusOf } from '../../../src/ops/management/status-of.ts'
import type { ServiceReport } from '../../../src/ops/metrics/service-report.ts'
import { reportOfSeries, seriesOf, serviceReport } from '../../support/service-reports.ts'

function statusFrom(report: ServiceReport) {
  const history = { every_seconds: 2, samples: [] }
  return statusOf(report, { version: '1.2.3', now: 1, isReady: true, checks: {}, history })
}

test('routes have all their statuses, and clients that left; the most frequent first', () => {
  const { requests } = statusFrom(
    reportOfSeries([
      seriesOf({ route: '/users/{id}' }, [0.001]),
      seriesOf({ status: 200 }, [0.002, 0.002]),
      seriesOf({ status: 404 }, [0.004]),
      seriesOf({ status: 0 }, [0.008]),
      seriesOf({ method: 'POST' }, [1, 1]),
    ]),
  )
  expect(requests.total).toBe(7)
  expect(requests.by_route).toMatchObject([
    ...[{ method: 'GET', route: '/users', count: 4, mean_ms: 4 }],
    ...[{ method: 'POST', route: '/users', count: 2, mean_ms: 1000 }],
    ...[{ method: 'GET', route: '/users/{id}', count: 1, mean_ms: 1 }],
  ])
  expect(requests.by_route[0]?.by_status).toEqual({ 200: 2, 404: 1, aborted: 1 })
})

test('the mean of the commits is null without any', () => {
  const { storage } = serviceReport()
  const commits = { seconds: { counts: [3, 1], sum: 0.01 }, writes: { counts: [4], sum: 20 } }
  const meanOf = (report: ServiceReport) => statusFrom(report).storage.commits
  expect(meanOf(serviceReport())).toEqual({ count: 0, writes: 0, mean_ms: null })
  expect(meanOf(serviceReport({ storage: { ...storage, commits } }))).toEqual({
    ...{ count: 4, writes: 20, mean_ms: 2.5 },
  })
})

test('storage is up as the report says', () => {
  expect(statusFrom(serviceReport({ isStorageUp: false })).storage.up).toBe(false)
})
