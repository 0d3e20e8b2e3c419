import { DURATION_BOUNDS } from '../../src/http/request-metrics.ts'
import type { RuleReport } from '../../src/limits/rule-report.ts'
import { createHistogram } from '../../src/metrics/histogram.ts'
import type { ProcessReport, ProcessUse } from '../../src/ops/metrics/process-report.ts'

/** A process that has done nothing yet. */
export const PROCESS_USE: ProcessUse = {
  pid: 1,
  startedAt: 0,
  cpuSeconds: 0,
  memoryBytes: 0,
  eventLoopLagSeconds: 0,
  defaults: [],
}

/** The report of a process that has answered `requests` requests, and refused as many by its rules. */
export function reportOf(requests: number, rules: readonly string[] = []): ProcessReport {
  const seconds = createHistogram(DURATION_BOUNDS)
  for (let request = 0; request < requests; request++) seconds.observe(0.001)
  const series = { method: 'GET', route: '/users', status: 200, seconds: seconds.read() }
  return {
    requests: { series: [series], inFlight: 0, byKey: {} },
    server: { connections: 1, waitingRequests: 0, shedRequests: 0 },
    storage: { engine: 'sqlite', waitingWrites: 0 },
    isStorageUp: true,
    waitingPasswords: 0,
    limits: {
      rules: rules.map(rule => ruleOf(rule, requests)),
      bans: 0,
      store: 'memory',
      isStoreUp: true,
    },
    process: PROCESS_USE,
  }
}

/** A rule that has refused requests. */
export function ruleOf(rule: string, refused: number): RuleReport {
  const counts = { counted: 0, passed: 0, refused, wouldRefuse: 0 }
  return { type: 'throttle', rule, isDryRun: false, ...counts }
}
