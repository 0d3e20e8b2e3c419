import type { RequestMetrics } from '../http/request-metrics.ts'
import type { LimitsReport } from '../limits/rule-report.ts'
import type { ServiceReport } from '../ops/metrics/service-report.ts'
import type { Storage } from '../storage/storage.ts'
import type { PasswordHasher } from '../users/passwords/hasher.ts'
import { createPatientWaits } from '../waiting/patient-waits.ts'

/** Puts together what a process reports about itself, apart from its server. */
export interface ProcessReporter {
  /** Resolves within about `PING_TIMEOUT_MS`, even while the database does not answer. */
  report(): Promise<AppReport>
  close(): Promise<void>
}

export type AppReport = Omit<ServiceReport, 'server'>

export interface ProcessReporterOptions {
  readonly metrics: RequestMetrics
  readonly storage: Pick<Storage, 'report' | 'users'>
  readonly passwords: Pick<PasswordHasher, 'waiting'>
  /** `undefined` without limits. */
  readonly limitsReport: () => LimitsReport | undefined
}

/** A database that takes longer counts as down: a scrape must not wait. */
const PING_TIMEOUT_MS = 500

export async function openProcessReporter({
  metrics,
  storage,
  passwords,
  limitsReport,
}: ProcessReporterOptions): Promise<ProcessReporter> {
  // Only where reports are asked for: prom-client is not needed otherwise.
  const { openProcessMeter } = await import('../ops/metrics/process-meter.ts')
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
