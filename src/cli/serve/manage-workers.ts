import type { FlushableLogger } from '../../ops/logger.ts'
import type { Operations } from '../../ops/management/operations.ts'
import { createOperationsOfWorkers } from '../../ops/management/operations-of-workers.ts'
import type { FirstProcess } from '../../ops/metrics/merge-reports.ts'
import { openProcessMeter } from '../../ops/metrics/process-meter.ts'
import { createWorkerReports } from '../../ops/metrics/worker-reports.ts'
import type { prepareStorage } from '../../wiring/open-storage.ts'
import type { PoolMember } from '../../workers/worker-pool.ts'
import { logManagementAddress, openManagementPort } from './open-management-port.ts'
import type { ServeParts } from './serve.ts'

/** The management port of the first process, for all workers. */
export interface WorkersManagement {
  /** Handles the reports of a worker that has just been started. */
  answer(member: PoolMember): void
  /** Call it when a worker has ended and its calls are closed. */
  remove(member: PoolMember): void
  /** From now on the service is not ready. */
  beginStop(): void
  /** Call it after the line about the public port. */
  logAddress(): void
  /** Waits for the requests of operators that still run. Call it when the workers have ended. */
  close(): Promise<void>
}

export interface WorkersManagementOptions {
  readonly writer: Awaited<ReturnType<typeof prepareStorage>>
  /** The workers that serve now. */
  readonly serving: () => readonly PoolMember[]
  /** Reloads the rules in all workers. */
  readonly reloadLimits: Operations['reloadLimits']
}

/** Opens the management port. Throws `OperatorError` when it cannot be opened. */
export async function openWorkersManagement(
  { config, logger: { log } }: Pick<ServeParts, 'config'> & { readonly logger: FlushableLogger },
  { writer, serving, reloadLimits }: WorkersManagementOptions,
): Promise<WorkersManagement> {
  let isStopping = false
  const meter = openProcessMeter()
  const reports = createWorkerReports({
    readFirst: async () => {
      const [process, ofWriter] = await Promise.all([meter.read(), writer?.report()])
      return { ...ofWriter, engine: config.database.kind, process } satisfies Omit<
        FirstProcess,
        'ended'
      >
    },
    onFailure: err => log.error({ err }, 'cannot collect the reports of the workers'),
  })

  function closeReports(): void {
    reports.close()
    meter.close()
  }

  const operations = createOperationsOfWorkers({
    report: reports.report,
    reloadLimits,
    serving: () => serving().map(({ calls }) => calls),
    isStopping: () => isStopping,
  })
  try {
    const port = await openManagementPort({ config, log, operations })
    return {
      answer: ({ calls, number }) => reports.answer(calls, number),
      remove: ({ number }) => reports.remove(number),
      beginStop: () => {
        isStopping = true
      },
      logAddress: () => {
        if (port !== undefined) logManagementAddress(log, config, port.address)
      },
      close: async () => {
        await port?.close()
        closeReports()
      },
    }
  } catch (error) {
    closeReports()
    throw error
  }
}
