import type { RequestMetrics } from '../../http/request-metrics.ts'
import type { LimitsReport } from '../../limits/rule-report.ts'
import type { Storage } from '../../storage/storage.ts'
import { createPatientWaits } from '../../waiting/patient-waits.ts'
import { openProcessMeter } from './process-meter.ts'
import type { ServiceReport } from './service-report.ts'

/** Puts together what a process reports about itself, apart from its server. */
export interface ProcessReporter {
  /** Resolves within about `PING_TIMEOUT_MS`, even while the database does not answer. */
  report(): Promise<Omit<ServiceReport, 'server'>>
  close(): Promise<void>
}

export interface ProcessReporterOptions {
  readonly metrics: RequestMetrics
  readonly storage: Pick<Storage, 'report' | 'users'>
  readonly passwords: { waiting(): number }
  readonly wholeLists: { running(): number }
  /** `undefined` without limits. */
  readonly limitsReport: () => LimitsReport | undefined
}

/** A database that takes longer counts as down: a scrape must not wait. */
const PING_TIMEOUT_MS = 500

export function openProcessReporter({
  metrics,
  storage,
  passwords,
  wholeLists,
  limitsReport,
}: ProcessReporterOptions): ProcessReporter {
  const meter = openProcessMeter()
  const isStorageUp = createStorageCheck(storage.users.ping)
  return {
    report: async () => {
      const [isUp, ofStorage, process] = await Promise.all([
        isStorageUp(),
        storage.report(),
        meter.read(),
      ])
      const limits = limitsReport()
      return {
        requests: metrics.report(),
        storage: ofStorage,
        isStorageUp: isUp,
        waitingPasswords: passwords.waiting(),
        wholeLists: wholeLists.running(),
        ...(limits && { limits }),
        process,
      }
    },
    close: async () => meter.close(),
  }
}

/** Asks whether the database answers in time. One that does not is not asked again before it has answered or failed. */
function createStorageCheck(ping: () => Promise<void>): () => Promise<boolean> {
  const waits = createPatientWaits(PING_TIMEOUT_MS)
  let answer: Promise<boolean> | undefined
  return () => {
    answer ??= ping()
      .then(() => true)
      .finally(() => {
        answer = undefined
      })
    return waits.wait(answer, false)
  }
}
