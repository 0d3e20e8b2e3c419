import { queuesOf, type ServiceReport } from '../metrics/service-report.ts'
import type { History, HistorySample } from './service-status.ts'
import { countByClass, durationsOf, quantileMs, rounded, sumOf } from './status-numbers.ts'

const SAMPLE_MS = 2000
const KEPT_MS = 15 * 60_000
const MAX_SAMPLES = KEPT_MS / SAMPLE_MS

export interface StatusHistoryOptions {
  readonly report: () => Promise<ServiceReport>
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds since some moment. Never goes back and never jumps. */
  readonly monotonicNow: () => number
}

/** What the service did in the last 15 minutes, in memory. */
export interface StatusHistory {
  /** The samples after a time, in milliseconds since the epoch. */
  read(since?: number): History
  /**
   * Adds a sample of what happened since the one before; the first call only begins. Does nothing while an earlier call
   * still runs. Rejects if the service cannot report; the next sample then covers the time of this one too.
   */
  sample(): Promise<void>
  /** Samples every 2 seconds from now on. The timer does not keep the process alive. */
  start(): void
  close(): void
}

export function createStatusHistory(options: StatusHistoryOptions): StatusHistory {
  const { now, monotonicNow } = options
  let samples: readonly HistorySample[] = []
  let last: Totals | undefined
  let isSampling = false
  let timer: NodeJS.Timeout | undefined

  function add(report: ServiceReport): void {
    const totals = totalsOf(report, monotonicNow())
    const wallMs = now()
    if (last !== undefined && totals.at > last.at) {
      const kept = samples.filter(({ at }) => isKept(Date.parse(at), wallMs))
      const at = new Date(wallMs).toISOString()
      const added = { at, ...differenceOf(last, totals), queues: queuesOf(report) }
      samples = [...kept, added].slice(-MAX_SAMPLES)
    }
    last = totals
  }

  async function sample(): Promise<void> {
    if (isSampling) return
    isSampling = true
    try {
      add(await options.report())
    } finally {
      isSampling = false
    }
  }

  return {
    read: (since = -Infinity) => ({
      every_seconds: SAMPLE_MS / 1000,
      samples: samples.filter(({ at }) => Date.parse(at) > since),
    }),
    sample,
    start: () => {
      // A service that cannot report leaves a gap, which the next sample covers.
      const attempt = () => void sample().catch(() => {})
      attempt()
      timer = setInterval(attempt, SAMPLE_MS).unref()
    },
    close: () => clearInterval(timer),
  }
}

/** A clock that was set back leaves samples of the future. They go, so that times only grow. */
function isKept(atMs: number, nowMs: number): boolean {
  return atMs < nowMs && nowMs - atMs < KEPT_MS
}

/** What a sample is the difference of. */
interface Totals {
  /** Milliseconds, by the clock that does not jump. */
  readonly at: number
  readonly byStatus: Readonly<Record<string, number>>
  readonly durations: readonly number[]
  readonly shed: number
  readonly cpuSeconds: number
  /** By type and name of the rule. */
  readonly refused: Readonly<Record<string, number>>
  readonly wouldRefuse: Readonly<Record<string, number>>
}

function totalsOf({ requests, server, process, limits }: ServiceReport, at: number): Totals {
  const rules = limits?.rules ?? []
  const ofRules = (name: 'refused' | 'wouldRefuse') =>
    Object.fromEntries(rules.map(rule => [`${rule.type} ${rule.rule}`, rule[name]]))
  return {
    at,
    byStatus: countByClass(requests.series),
    durations: durationsOf(requests.series),
    shed: server.shedRequests,
    cpuSeconds: process.cpuSeconds,
    refused: ofRules('refused'),
    wouldRefuse: ofRules('wouldRefuse'),
  }
}

function differenceOf(from: Totals, to: Totals): Omit<HistorySample, 'at' | 'queues'> {
  const seconds = (to.at - from.at) / 1000
  const durations = to.durations.map((count, range) => count - (from.durations[range] ?? 0))
  return {
    seconds: rounded(seconds),
    by_status: growth(from.byStatus, to.byStatus),
    p50_ms: quantileMs(durations, 0.5),
    p90_ms: quantileMs(durations, 0.9),
    p99_ms: quantileMs(durations, 0.99),
    shed: to.shed - from.shed,
    refused: sumOf(growth(from.refused, to.refused)),
    would_refuse: sumOf(growth(from.wouldRefuse, to.wouldRefuse)),
    cpu: rounded((to.cpuSeconds - from.cpuSeconds) / seconds),
  }
}

type Counts = Readonly<Record<string, number>>

/** Counts that went back, as those of a rule that was removed and came again, have begun at 0. */
function growth(from: Counts, to: Counts): Counts {
  const grown = Object.entries(to).map(([name, count]) => {
    const before = from[name] ?? 0
    return [name, count >= before ? count - before : count]
  })
  return Object.fromEntries(grown)
}
