import type { RuleReport } from '../../limits/rule-report.ts'
import { readVersion } from '../../platform/package.ts'
import type { ShownWebhook } from '../../webhooks/describe-webhooks.ts'
import type { MetricsReport, RouteCounts } from '../metrics/create-metrics.ts'
import type { ServiceReport } from '../metrics/service-report.ts'
import { quantileMs, rounded, type StatusHistory, sumOf } from './status-history.ts'

/** What `GET /status` answers, and all that the operator's page shows. */
export type ServiceStatus = ReturnType<typeof statusOf>

/** Of requests that ended since the start. */
export type RouteStatus = ReturnType<typeof routeOf>

/** One rule of the limits, as `GET /limits` and `GET /status` answer. */
export type RuleStatus = ReturnType<typeof ruleStatusOf>

/** All numbers are since the start, if not of this moment. Times are ISO 8601; `now` is in milliseconds since the epoch. */
export function statusOf(
  report: ServiceReport,
  {
    counted,
    now,
    history,
  }: {
    readonly counted: MetricsReport & {
      readonly users: number | undefined
      readonly webhooks: readonly ShownWebhook[] | undefined
    }
    readonly now: number
    readonly history: ReturnType<StatusHistory['read']>
  },
) {
  const { readiness, requests, server, limits, process } = report
  return {
    version: readVersion(),
    started_at: new Date(process.startedAt).toISOString(),
    now: new Date(now).toISOString(),
    ready: readiness.isReady,
    checks: readiness.checks,
    requests: {
      total: sumOf(requests.byClass),
      in_flight: requests.inFlight,
      shed: server.shedRequests,
      by_status: requests.byClass,
      /** The most frequent first. */
      by_route: counted.routes.map(routeOf).sort((one, other) => other.count - one.count),
      /** By the name of an API key. */
      by_key: counted.byKey,
    },
    connections: server.connections,
    queues: report.queues,
    storage: storageOf(report, counted.commits),
    process: {
      pid: process.pid,
      memory_bytes: process.memoryBytes,
      event_loop_lag_ms: rounded(process.eventLoopLagSeconds * 1000),
    },
    limits: {
      /** `none` without limits, and with CACHE_STORE=none. */
      store: limits?.store ?? 'none',
      up: limits?.isStoreUp ?? true,
      rules: limits?.rules.map(ruleStatusOf) ?? [],
      /** Of each rule that refused requests in the last 15 minutes, the clients that it refused most, as `GET /bans` names them. */
      refused: limits?.rules.flatMap(refusedBy) ?? [],
    },
    bans: limits?.bans ?? 0,
    /** `null` while the database does not answer. */
    users: counted.users ?? null,
    /** By name; `null` as `users`. */
    webhooks: counted.webhooks ?? null,
    /** The newest first, and at most five of each reason. */
    errors: counted.errors,
    /** The last 15 minutes. */
    history,
  }
}

export function ruleStatusOf({ isDryRun, wouldRefuse, ...report }: RuleReport) {
  const { type, rule, counted, passed, refused } = report
  return { type, rule, dryRun: isDryRun, counted, passed, refused, would_refuse: wouldRefuse }
}

function refusedBy({ type, rule, clients }: RuleReport) {
  const most = clients?.most() ?? []
  return most.length === 0 ? [] : [{ type, rule, clients: most }]
}

function routeOf({ method, route, byStatus, durations }: RouteCounts) {
  return {
    method,
    route,
    count: sumOf(durations),
    p50_ms: quantileMs(durations, 0.5),
    p99_ms: quantileMs(durations, 0.99),
    by_status: byStatus,
  }
}

function storageOf({ storage, readiness }: ServiceReport, commits: MetricsReport['commits']) {
  const { engine, fileBytes, connections } = storage
  const { count, writes, seconds } = commits
  return {
    engine,
    up: readiness.checks.storage.status === 'ok',
    ...(fileBytes && {
      files: { database_bytes: fileBytes.database, wal_bytes: fileBytes.wal },
    }),
    ...(connections && { connections }),
    commits: { count, writes, mean_ms: count === 0 ? null : rounded((seconds / count) * 1000) },
  }
}
