import { createHistogram, type HistogramCounts } from '../metrics/histogram.ts'

/** Upper bounds for the duration of a commit, in seconds. */
export const COMMIT_SECONDS_BOUNDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
]

/** Upper bounds for the number of writes in a commit. */
export const COMMIT_WRITES_BOUNDS: readonly number[] = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000,
]

/**
 * Transactions that have been committed since the start, at least one write in each. Those that failed, or whose outcome is
 * unknown, do not count.
 */
export interface CommitReport {
  /** From BEGIN to the end of COMMIT, with the round trips to a server and the waits for its locks. */
  readonly seconds: HistogramCounts
  /**
   * Writes that shared one transaction. Their sum is the number of writes that callers were told are done. A write that was
   * refused, such as one with a taken e-mail, does not count, because it has changed nothing. Nor does an update on
   * PostgreSQL of a user who is already as asked, because it needs no transaction.
   */
  readonly writes: HistogramCounts
}

/** How one process uses its database. */
export interface StorageReport {
  readonly engine: 'sqlite' | 'postgres'
  /** Writes that were asked for and have not ended. */
  readonly waitingWrites: number
  readonly commits: CommitReport
  /**
   * Sizes of the files of an embedded database, in bytes. Absent in memory, for a database server, and while the files
   * cannot be found.
   */
  readonly fileBytes?: { readonly database: number; readonly wal: number }
  /** Connections to a database server. */
  readonly connections?: {
    readonly active: number
    readonly idle: number
    /** Work that waits for a connection. */
    readonly waiting: number
  }
}

/** Counts the transactions of one process. */
export function createCommitRecorder() {
  const seconds = createHistogram(COMMIT_SECONDS_BOUNDS)
  const writesOfOne = createHistogram(COMMIT_WRITES_BOUNDS)
  return {
    /**
     * Call it once a transaction has been committed, before its writes are answered. `startedAt` is when it began, by
     * `performance.now()`. Without `writes`, nothing is recorded.
     */
    record: ({ startedAt, writes }: { readonly startedAt: number; readonly writes: number }) => {
      if (writes === 0) return
      seconds.observe((performance.now() - startedAt) / 1000)
      writesOfOne.observe(writes)
    },
    read: (): CommitReport => ({ seconds: seconds.read(), writes: writesOfOne.read() }),
  }
}
