import { setImmediate } from 'node:timers/promises'
import type { RequestMetrics, RequestReport } from '../../http/request-metrics.ts'
import type { LimitsReport } from '../../limits/tallies.ts'
import type { ServerReport } from '../../server/server.ts'
import type { Storage } from '../../storage/storage.ts'
import type { StorageReport } from '../../storage/storage-report.ts'
import { withinPatience } from '../../waiting/patience.ts'

/** What the service has counted since its start, and how it is now. */
export interface ServiceReport {
  readonly requests: RequestReport
  readonly server: ServerReport
  readonly storage: StorageReport
  /** Whether the database has answered just now. */
  readonly isStorageUp: boolean
  /** Passwords that wait to be hashed or verified. */
  readonly waitingPasswords: number
  /** Whole lists that are being sent. */
  readonly wholeLists: number
  readonly feed: FeedReport
  /** `undefined` without limits. */
  readonly limits: LimitsReport | undefined
  readonly process: ProcessUse
}

/** The feed of changes. */
export interface FeedReport {
  /** Requests that wait for a change, and streams of events. */
  readonly waiting: number
  readonly streaming: number
  /** Deletions that were kept when they were last counted. */
  readonly deletions: number
}

/** What a process uses of the machine. */
export interface ProcessUse {
  readonly pid: number
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  /** CPU time in seconds since the start, in user and system mode together. */
  readonly cpuSeconds: number
  /** Resident memory. */
  readonly memoryBytes: number
  /** How late the event loop is at the moment. */
  readonly eventLoopLagSeconds: number
}

/** What waits at the moment: requests, writes and passwords. */
export function queuesOf({ server, storage, waitingPasswords }: ServiceReport) {
  return {
    requests: server.waitingRequests,
    writes: storage.waitingWrites,
    passwords: waitingPasswords,
  }
}

export interface ReportSources {
  readonly metrics: RequestMetrics
  readonly storage: Pick<Storage, 'report' | 'users'>
  readonly passwords: { waiting(): number }
  readonly wholeLists: { running(): number }
  readonly feed: () => FeedReport
  readonly limits: () => LimitsReport | undefined
}

/** A database that takes longer counts as down: monitoring must see one that hangs, and not hang with it. */
const PING_TIMEOUT_MS = 500

/** Returns what reports about a service, apart from its server. A report takes little longer than `PING_TIMEOUT_MS`. */
export function createReporter({
  metrics,
  storage,
  passwords,
  wholeLists,
  feed,
  limits,
}: ReportSources): () => Promise<Omit<ServiceReport, 'server'>> {
  let answer: Promise<boolean> | undefined

  /** A database that does not answer is not asked again before it has answered or failed. */
  function isStorageUp(): Promise<boolean> {
    answer ??= storage.users
      .ping()
      .then(() => true)
      .finally(() => {
        answer = undefined
      })
    return withinPatience(PING_TIMEOUT_MS, answer).catch(() => false)
  }

  return async () => {
    const [isUp, eventLoopLagSeconds] = await Promise.all([isStorageUp(), measureLag()])
    const { user, system } = process.cpuUsage()
    return {
      requests: metrics.report(),
      storage: storage.report(),
      isStorageUp: isUp,
      waitingPasswords: passwords.waiting(),
      wholeLists: wholeLists.running(),
      feed: feed(),
      limits: limits(),
      process: {
        pid: process.pid,
        startedAt: Math.round(performance.timeOrigin),
        cpuSeconds: (user + system) / 1e6,
        memoryBytes: process.memoryUsage.rss(),
        eventLoopLagSeconds,
      },
    }
  }
}

/** The time until a callback runs that could run now, in seconds. */
async function measureLag(): Promise<number> {
  const startedAt = performance.now()
  await setImmediate()
  return (performance.now() - startedAt) / 1000
}
