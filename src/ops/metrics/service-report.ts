import type { CommitReport, StorageReport } from '../../storage/storage-report.ts'
import type { ProcessMetric } from './aggregate-metrics.ts'
import type { ProcessReport, ProcessUse } from './process-report.ts'

/** The reports of all processes of a service together. Counts never decrease: those of processes that have ended stay in. */
export interface ServiceReport
  extends Pick<
    ProcessReport,
    'requests' | 'server' | 'isStorageUp' | 'waitingPasswords' | 'limits'
  > {
  readonly storage: StorageReport & { readonly commits: CommitReport }
  /** The processes that run now. A process that serves alone has the number 1; with several, 0 is the first one. */
  readonly processes: readonly (Omit<ProcessUse, 'defaults'> & {
    readonly worker: number
    readonly requests: number
  })[]
  /** The metrics about the process and Node, of all processes together: sums, and the lag of the event loop that is latest. */
  readonly defaults: readonly ProcessMetric[]
}
