import { DURATION_BOUNDS, type RequestSeries } from '../../http/request-metrics.ts'
import { groupBy } from '../../metrics/group-by.ts'
import { addCounts, type HistogramCounts, quantileOf, totalOf } from '../../metrics/histogram.ts'
import type { ServiceReport } from '../metrics/service-report.ts'
import { representRule } from './limits-router.ts'
import type { ReadinessChecks } from './operations.ts'
import type { History, RouteStatus, ServiceStatus } from './service-status.ts'

/** What a status has beside the report of the service. */
export interface StatusContext extends ReadinessChecks {
  readonly version: string
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly history: History
}

/** The answer of `GET /status`. */
export function statusOf(report: ServiceReport, context: StatusContext): ServiceStatus {
  const { version, now, isReady, checks, history } = context
  const { requests, server, storage, limits, process } = report
  return {
    version,
    started_at: timeOf(Math.min(now, process.startedAt)),
    now: timeOf(now),
    ready: isReady,
    checks,
    requests: {
      total: requests.series.reduce((total, { seconds }) => total + totalOf(seconds), 0),
      in_flight: requests.inFlight,
      shed: server.shedRequests,
      by_status: countByClass(requests.series),
      by_route: routesOf(requests.series),
      by_key: requests.byKey,
    },
    connections: server.connections,
    queues: queuesOf(report),
    storage: storageOf(storage, report.isStorageUp),
    process: {
      pid: process.pid,
      cpu_seconds: rounded(process.cpuSeconds),
      memory_bytes: process.memoryBytes,
      event_loop_lag_ms: rounded(process.eventLoopLagSeconds * 1000),
    },
    limits: {
      store: limits?.store ?? 'none',
      up: limits?.isStoreUp ?? true,
      rules: limits?.rules.map(representRule) ?? [],
    },
    bans: limits?.bans ?? 0,
    history,
  }
}

/** Requests by class of status; every class is present. */
export function countByClass(series: readonly RequestSeries[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  for (const { status, seconds } of series) {
    const name = status === 0 ? 'aborted' : `${Math.floor(status / 100)}xx`
    counts[name] = (counts[name] ?? 0) + totalOf(seconds)
  }
  return counts
}

/** What waits at the moment. */
export function queuesOf(report: ServiceReport): ServiceStatus['queues'] {
  return {
    requests: report.server.waitingRequests,
    writes: report.storage.waitingWrites,
    passwords: report.waitingPasswords,
  }
}

const NOTHING: HistogramCounts = {
  counts: new Array<number>(DURATION_BOUNDS.length + 1).fill(0),
  sum: 0,
}

/** The durations of all requests together. */
export function durationsOf(series: readonly RequestSeries[]): HistogramCounts {
  return series.reduce((sum, { seconds }) => addCounts(sum, seconds), NOTHING)
}

/** The duration that the share `q` (0 to 1) of requests did not exceed, in milliseconds; `null` without requests. */
export function quantileMs(durations: HistogramCounts, q: number): number | null {
  const seconds = quantileOf(durations, DURATION_BOUNDS, q)
  return seconds === undefined ? null : rounded(seconds * 1000)
}

/** ISO 8601 of milliseconds since the epoch. */
export function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}

/** To three digits after the point, because more only lengthen the response. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}

function routesOf(series: readonly RequestSeries[]): readonly RouteStatus[] {
  return [...groupBy(series, ({ method, route }) => `${method} ${route}`).values()]
    .map(routeOf)
    .sort((one, other) => other.count - one.count)
}

function routeOf(ofRoute: readonly [RequestSeries, ...RequestSeries[]]): RouteStatus {
  const [{ method, route }] = ofRoute
  const durations = durationsOf(ofRoute)
  const count = totalOf(durations)
  const byStatus: Record<string, number> = {}
  for (const { status, seconds } of ofRoute) {
    byStatus[status === 0 ? 'aborted' : status] = totalOf(seconds)
  }
  return {
    method,
    route,
    count,
    mean_ms: meanMs(durations.sum, count),
    p50_ms: quantileMs(durations, 0.5),
    p99_ms: quantileMs(durations, 0.99),
    by_status: byStatus,
  }
}

function meanMs(seconds: number, count: number): number | null {
  return count === 0 ? null : rounded((seconds / count) * 1000)
}

function storageOf(storage: ServiceReport['storage'], isUp: boolean): ServiceStatus['storage'] {
  const { engine, fileBytes, connections, commits } = storage
  const count = totalOf(commits.seconds)
  return {
    engine,
    up: isUp,
    ...(fileBytes && {
      files: { database_bytes: fileBytes.database, wal_bytes: fileBytes.wal },
    }),
    ...(connections && { connections }),
    commits: {
      count,
      writes: commits.writes.sum,
      mean_ms: meanMs(commits.seconds.sum, count),
    },
  }
}
