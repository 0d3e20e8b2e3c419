import type { RequestSeries } from '../../http/request-metrics.ts'
import type { RuleReport } from '../../limits/rule-report.ts'
import type { ServiceReport } from '../metrics/service-report.ts'
import type { History, HistorySample } from './service-status.ts'
import { countByClass, durationsOf, quantileMs, queuesOf, rounded, timeOf } from './status-of.ts'

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

/** What a sample is the difference to. */
interface Mark {
  /** By the clock that does not jump. */
  readonly at: number
  readonly report: ServiceReport
}

export function createStatusHistory(options: StatusHistoryOptions): StatusHistory {
  const { now, monotonicNow } = options
  let samples: readonly HistorySample[] = []
  let last: Mark | undefined
  let isSampling = false
  let timer: NodeJS.Timeout | undefined

  function add(report: ServiceReport): void {
    const mark = { at: monotonicNow(), report }
    const wallMs = now()
    if (last !== undefined && mark.at > last.at) {
      const kept = samples.filter(({ at }) => isKept(Date.parse(at), wallMs))
      samples = [...kept, sampleOf(timeOf(wallMs), last, mark)].slice(-MAX_SAMPLES)
    }
    last = mark
  }

  const sample = async () => {
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
      const attempt = () => {
        // A service that cannot report leaves a gap, which the next sample covers.
        sample().catch(() => {})
      }
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

function sampleOf(at: string, from: Mark, to: Mark): HistorySample {
  const seconds = (to.at - from.at) / 1000
  const { report } = to
  const ended = subtractSeries(report.requests.series, from.report.requests.series)
  const durations = durationsOf(ended)
  return {
    at,
    seconds: rounded(seconds),
    by_status: countByClass(ended),
    p50_ms: quantileMs(durations, 0.5),
    p90_ms: quantileMs(durations, 0.9),
    p99_ms: quantileMs(durations, 0.99),
    shed: growth(report.server.shedRequests, from.report.server.shedRequests),
    ...refusalsBetween(from.report, report),
    queues: queuesOf(report),
    cpu: rounded((report.process.cpuSeconds - from.report.process.cpuSeconds) / seconds),
  }
}

/** Requests that ended between two reports. */
function subtractSeries(
  series: readonly RequestSeries[],
  previous: readonly RequestSeries[],
): readonly RequestSeries[] {
  const before = new Map(previous.map(one => [keyOfSeries(one), one.seconds]))
  return series.map(({ method, route, status, seconds }) => {
    const known = before.get(keyOfSeries({ method, route, status }))
    const counts = seconds.counts.map((count, index) => growth(count, known?.counts[index]))
    return { method, route, status, seconds: { counts, sum: growth(seconds.sum, known?.sum) } }
  })
}

/** By rule, because a reload may remove a rule with its counts. */
function refusalsBetween(from: ServiceReport, to: ServiceReport) {
  const before = new Map(from.limits?.rules.map(rule => [keyOfRule(rule), rule]))
  let refused = 0
  let wouldRefuse = 0
  for (const rule of to.limits?.rules ?? []) {
    const known = before.get(keyOfRule(rule))
    refused += growth(rule.refused, known?.refused)
    wouldRefuse += growth(rule.wouldRefuse, known?.wouldRefuse)
  }
  return { refused, would_refuse: wouldRefuse }
}

/** What tells rules apart: their names are unique within a type. */
function keyOfRule({ type, rule }: Pick<RuleReport, 'type' | 'rule'>): string {
  return `${type} ${rule}`
}

/** What tells series apart: their labels. */
function keyOfSeries({
  method,
  route,
  status,
}: Pick<RequestSeries, 'method' | 'route' | 'status'>): string {
  return `${route} ${method} ${status}`
}

/** Counts that went back, as those of a rule that was removed and came again, have begun at 0. */
function growth(count: number, before = 0): number {
  return count >= before ? count - before : count
}
