import type { RequestReport } from '../../http/request-metrics.ts'
import type { LimitsReport } from '../../limits/rule-report.ts'
import type { ServerReport } from '../../server/server.ts'
import type { StorageReport } from '../../storage/storage-report.ts'
import type { Labels } from './keep-labels.ts'

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
  /** The metrics that prom-client collects by itself about the process and Node. */
  readonly defaults: readonly ProcessMetric[]
}

/** A metric about the process or Node, as `getMetricsAsJSON` of prom-client returns it. */
export interface ProcessMetric {
  readonly name: string
  readonly help: string
  readonly type: string
  /** How the values of several readings become one. */
  readonly aggregator?: string | undefined
  readonly values: readonly {
    readonly value: number
    readonly labels: Labels
    /** Of a histogram: `_bucket`, `_sum` or `_count` after the name of the metric. */
    readonly metricName?: string
  }[]
}
