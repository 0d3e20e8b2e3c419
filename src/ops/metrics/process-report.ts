import type { RequestReport } from '../../http/request-metrics.ts'
import type { ServerReport } from '../../http/server/server-report.ts'
import type { LimitsReport } from '../../limits/rule-report.ts'
import type { StorageReport } from '../../storage/storage-report.ts'
import type { ProcessMetric } from './aggregate-metrics.ts'

/** What one process has counted since its start, and how it is now. JSON, so that a worker can send it. */
export interface ProcessReport {
  readonly requests: RequestReport
  readonly server: ServerReport
  readonly storage: StorageReport
  /** Whether the database has answered just now. */
  readonly isStorageUp: boolean
  /** Passwords that wait to be hashed or verified. */
  readonly waitingPasswords: number
  /** `undefined` without limits. */
  readonly limits?: LimitsReport
  readonly process: ProcessUse
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
  /** The metrics that prom-client collects by itself about the process and Node, as its `getMetricsAsJSON` returns them. */
  readonly defaults: readonly ProcessMetric[]
}
