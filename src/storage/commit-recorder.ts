import { createHistogram } from '../metrics/histogram.ts'
import { COMMIT_SECONDS_BOUNDS, COMMIT_WRITES_BOUNDS, type CommitReport } from './storage-report.ts'

/** Counts the transactions of one process. */
export interface CommitRecorder {
  /**
   * Call it once a transaction has been committed, before its writes are answered. `startedAt` is when it began, by
   * `performance.now()`. Without `writes`, nothing is recorded.
   */
  record(transaction: { readonly startedAt: number; readonly writes: number }): void
  read(): CommitReport
}

/** Nothing has been committed yet. */
export function createCommitRecorder(): CommitRecorder {
  const seconds = createHistogram(COMMIT_SECONDS_BOUNDS)
  const writesOfOne = createHistogram(COMMIT_WRITES_BOUNDS)
  return {
    record: ({ startedAt, writes }) => {
      if (writes === 0) return
      seconds.observe((performance.now() - startedAt) / 1000)
      writesOfOne.observe(writes)
    },
    read: () => ({ seconds: seconds.read(), writes: writesOfOne.read() }),
  }
}
