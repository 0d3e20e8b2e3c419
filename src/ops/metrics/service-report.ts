import type { LimitsReport } from '../../limits/rule-report.ts'
import { nextTurn, performance } from '../../platform/timers.ts'
import type { HttpServer } from '../../server/server.ts'
import type { Storage } from '../../storage/storage.ts'
import type { WebhookRunner } from '../../webhooks/webhook-runner.ts'
import type { CheckReadiness } from '../health.ts'

type Reporter = ReturnType<typeof createReporter>

/** What the service has done since its start, and how it is now. */
export type ServiceReport = Awaited<ReturnType<Reporter['report']>>

/** What is cheap of it: it does not ask the database. */
export type ServiceCounts = Awaited<ReturnType<Reporter['count']>>

export interface ReportSources {
  readonly checks: CheckReadiness
  readonly server: Pick<HttpServer, 'report'>
  /** All requests since the start together. */
  readonly metrics: {
    count(): {
      /** Requests that have begun and have not ended. */
      readonly inFlight: number
      /** By class of status: `2xx` to `5xx`, and `aborted` if the client left before the response. */
      readonly byClass: Readonly<Record<string, number>>
      /** How many took at most as long as each of `DURATION_BOUNDS`, and longer than the one before it; last those above all. */
      readonly durations: readonly number[]
    }
  }
  readonly storage: Pick<Storage, 'report'>
  readonly passwords: { waiting(): number }
  readonly users: { readonly whole: { running(): number } }
  /** Requests that wait for a change, and streams of events. */
  readonly changes: { report(): Readonly<Record<'waiting' | 'streaming', number>> }
  /** How many deletions the feed had when they were last counted. */
  readonly deletions: () => number
  readonly webhooks: WebhookRunner['report']
  /** `undefined` without limits. */
  readonly limits: { report(): LimitsReport | undefined }
}

/** A database that takes longer counts as down: monitoring must see one that hangs, and not hang with it. */
const PING_TIMEOUT_MS = 500

/** Returns what reports about a service. A report takes little longer than `PING_TIMEOUT_MS`. */
export function createReporter(sources: ReportSources) {
  const { checks, metrics, passwords, users, changes, limits } = sources

  async function count() {
    const eventLoopLagSeconds = await measureLag()
    const { user, system } = process.cpuUsage()
    const [server, storage] = [sources.server.report(), sources.storage.report()]
    return {
      ...{ server, storage, requests: metrics.count() },
      /** What waits at the moment. */
      queues: {
        requests: server.waitingRequests,
        writes: storage.waitingWrites,
        passwords: passwords.waiting(),
      },
      wholeLists: users.whole.running(),
      feed: { ...changes.report(), deletions: sources.deletions() },
      webhooks: sources.webhooks(),
      limits: limits.report(),
      process: {
        pid: process.pid,
        /** Milliseconds since the epoch. */
        startedAt: Math.round(performance.timeOrigin),
        /** CPU time in seconds since the start, in user and system mode together. */
        cpuSeconds: (user + system) / 1e6,
        memoryBytes: process.memoryUsage.rss(),
        eventLoopLagSeconds,
      },
    }
  }

  return {
    count,
    report: async () => {
      const [readiness, counts] = await Promise.all([checks(PING_TIMEOUT_MS), count()])
      return { readiness, ...counts }
    },
  }
}

/** The time until a callback runs that could run now, in seconds. */
async function measureLag(): Promise<number> {
  const startedAt = performance.now()
  await nextTurn()
  return (performance.now() - startedAt) / 1000
}
