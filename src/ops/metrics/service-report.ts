import type { LimitsReport } from '../../limits/rule-report.ts'
import { nextTurn, performance } from '../../platform/timers.ts'
import type { HttpServer } from '../../server/server.ts'
import type { Storage } from '../../storage/storage.ts'
import type { WebhookRunner } from '../../webhooks/webhook-runner.ts'
import type { CheckReadiness } from '../health.ts'

/** What tells the counted requests apart. `route` is empty for paths without one; `status` is 0 if the client left before. */
export type RequestLabels = {
  readonly method: string
  readonly route: string
  readonly status: number
}

/** The observations of a histogram that have the same labels. */
export interface Series<Labels = unknown> {
  readonly labels: Labels
  /**
   * For each bound, how many values are at most this one and above the previous one. The last number counts those
   * above all bounds.
   */
  readonly counts: readonly number[]
  readonly count: number
  readonly sum: number
}

type Reporter = ReturnType<typeof createReporter>

/** What the service has done since its start, and how it is now. */
export type ServiceReport = Awaited<ReturnType<Reporter['report']>>

/** What is cheap of it: it does not ask the database. */
export type ServiceCounts = Awaited<ReturnType<Reporter['count']>>

/** What waits at the moment: requests, writes and passwords. */
export function queuesOf({ server, storage, waitingPasswords }: ServiceCounts) {
  return {
    requests: server.waitingRequests,
    writes: storage.waitingWrites,
    passwords: waitingPasswords,
  }
}

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
      /** By range of their durations, as `Series`. */
      readonly durations: readonly number[]
    }
  }
  readonly storage: Pick<Storage, 'report'>
  readonly passwords: { waiting(): number }
  readonly wholeLists: { running(): number }
  /** Requests that wait for a change, streams of events, and deletions that were kept when they were last counted. */
  readonly feed: () => Readonly<Record<'waiting' | 'streaming' | 'deletions', number>>
  readonly webhooks: WebhookRunner['report']
  /** `undefined` without limits. */
  readonly limits: () => LimitsReport | undefined
}

/** A database that takes longer counts as down: monitoring must see one that hangs, and not hang with it. */
const PING_TIMEOUT_MS = 500

/** Returns what reports about a service. A report takes little longer than `PING_TIMEOUT_MS`. */
export function createReporter(sources: ReportSources) {
  const { checks, server, metrics, storage, passwords, wholeLists, feed, limits } = sources

  async function count() {
    const eventLoopLagSeconds = await measureLag()
    const { user, system } = process.cpuUsage()
    return {
      requests: metrics.count(),
      server: server.report(),
      storage: storage.report(),
      waitingPasswords: passwords.waiting(),
      wholeLists: wholeLists.running(),
      feed: feed(),
      webhooks: sources.webhooks(),
      limits: limits(),
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
