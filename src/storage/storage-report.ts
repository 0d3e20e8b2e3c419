import type { HistogramCounts } from '../metrics/histogram.ts'

/** Upper bounds for the duration of a commit, in seconds. */
export const COMMIT_SECONDS_BOUNDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
]

/** Upper bounds for the number of writes in a commit. */
export const COMMIT_WRITES_BOUNDS: readonly number[] = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000,
]

/** Transactions that have ended well since the start. */
export interface CommitReport {
  readonly seconds: HistogramCounts
  /** Writes that shared one transaction. */
  readonly writes: HistogramCounts
}

/** How one process uses its database. */
export interface StorageReport {
  readonly engine: 'sqlite' | 'postgres'
  /** Writes that were asked for and have not ended. */
  readonly waitingWrites: number
  /** `undefined` if another process or thread writes for this one. */
  readonly commits?: CommitReport
  /** Sizes of the files of an embedded database, in bytes. Absent in memory and for a database server. */
  readonly fileBytes?: { readonly database: number; readonly wal: number }
  /** Connections to a database server. */
  readonly connections?: {
    readonly active: number
    readonly idle: number
    /** Work that waits for a connection. */
    readonly waiting: number
  }
}
