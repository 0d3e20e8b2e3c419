import {
  DURATION_BOUNDS,
  type RequestLabels,
  type RequestSeries,
} from '../../src/http/request-metrics.ts'
import type { RuleReport } from '../../src/limits/tallies.ts'
import { createHistogram } from '../../src/metrics/histogram.ts'
import type { ServiceReport } from '../../src/ops/metrics/service-report.ts'

/** The report of a service that has done nothing yet, but for `changes`. */
export function serviceReport(changes: Partial<ServiceReport> = {}): ServiceReport {
  const nothing = { counts: [], sum: 0 }
  return {
    requests: { series: [], inFlight: 0, byKey: {} },
    server: { connections: 0, waitingRequests: 0, shedRequests: 0 },
    storage: {
      engine: 'sqlite',
      waitingWrites: 0,
      commits: { seconds: nothing, writes: nothing },
    },
    isStorageUp: true,
    waitingPasswords: 0,
    wholeLists: 2,
    feed: { waiting: 0, streaming: 0, deletions: 0 },
    limits: undefined,
    process: { pid: 4711, startedAt: 0, cpuSeconds: 0, memoryBytes: 0, eventLoopLagSeconds: 0 },
    ...changes,
  }
}

/** Requests, of which each took one of `seconds`. */
export function seriesOf(
  labels: Partial<RequestLabels>,
  seconds: readonly number[],
): RequestSeries {
  const histogram = createHistogram(DURATION_BOUNDS)
  for (const one of seconds) histogram.observe(one)
  return {
    labels: { method: 'GET', route: '/users', status: 200, ...labels },
    seconds: histogram.read(),
    exemplars: new Map(),
  }
}

/** A report of requests that have ended. */
export function reportOfSeries(series: readonly RequestSeries[]): ServiceReport {
  return serviceReport({ requests: { series, inFlight: 0, byKey: {} } })
}

/** `count` requests of a millisecond, reported. */
export function reportOfRequests(count: number): ServiceReport {
  return reportOfSeries([seriesOf({}, new Array<number>(count).fill(0.001))])
}

/** A report with limits that have done this. */
export function reportOfRules(rules: readonly Partial<RuleReport>[]): ServiceReport {
  const counts = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
  return serviceReport({
    limits: {
      rules: rules.map(rule => ({
        type: 'throttle',
        rule: 'posts',
        isDryRun: false,
        ...counts,
        ...rule,
      })),
      bans: 0,
      store: 'memory',
      isStoreUp: true,
    },
  })
}
