import { DURATION_BOUNDS, type RequestSeries } from '../../http/request-metrics.ts'
import type { RuleReport } from '../../limits/tallies.ts'
import { quantileOf, totalOf } from '../../metrics/histogram.ts'
import { queuesOf, type ServiceReport } from '../metrics/service-report.ts'

const SAMPLE_MS = 2000
const KEPT_MS = 15 * 60_000

export interface StatusHistoryOptions {
  readonly report: () => Promise<ServiceReport>
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds since some moment. Never goes back and never jumps. */
  readonly monotonicNow: () => number
}

/** What happened since the sample before. */
export type HistorySample = ReturnType<typeof sampleBetween>

/** What the service did in the last 15 minutes, in memory. */
export interface StatusHistory {
  /**
   * The samples of the last 15 minutes after a time, in milliseconds since the epoch; the oldest first, each with a later time than
   * the one before it.
   */
  read(since?: number): {
    readonly every_seconds: number
    readonly samples: readonly HistorySample[]
  }
  /**
   * Adds a sample of what happened since the one before; the first call only begins. Rejects if the service cannot report;
   * the next sample then covers the time of this one too.
   */
  sample(): Promise<void>
  /** Samples every 2 seconds from now on. The timer does not keep the process alive. */
  start(): void
  close(): void
}

export function createStatusHistory(options: StatusHistoryOptions): StatusHistory {
  let samples: readonly HistorySample[] = []
  let last: Moment | undefined
  let timer: NodeJS.Timeout | undefined

  async function sample(): Promise<void> {
    const report = await options.report()
    const next = { report, at: options.monotonicNow(), wallMs: options.now() }
    if (last !== undefined && next.at > last.at) {
      const added = sampleBetween(last, next)
      // A clock that was set back leaves samples of the future.
      const kept = samples.filter(({ at }) => at < added.at)
      samples = [...kept, added].slice(-KEPT_MS / SAMPLE_MS)
    }
    last = next
  }

  return {
    read: (since = -Infinity) => {
      // While the machine is suspended, nothing removes old samples.
      const after = Math.max(since, options.now() - KEPT_MS)
      return {
        every_seconds: SAMPLE_MS / 1000,
        samples: samples.filter(({ at }) => Date.parse(at) > after),
      }
    },
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

/** The service at a moment. */
interface Moment {
  readonly report: ServiceReport
  /** By the clock that does not jump. */
  readonly at: number
  readonly wallMs: number
}

function sampleBetween(from: Moment, to: Moment) {
  const seconds = (to.at - from.at) / 1000
  const growth = (numberIn: (report: ServiceReport) => number) =>
    numberIn(to.report) - numberIn(from.report)
  const rulesBefore = new Map(rulesIn(from.report).map(rule => [nameOf(rule), rule]))
  // Rule by rule, because a reload may remove one, or begin one again at zero.
  const decisions = (name: 'refused' | 'wouldRefuse') =>
    rulesIn(to.report)
      .map(rule => Math.max(0, rule[name] - (rulesBefore.get(nameOf(rule))?.[name] ?? 0)))
      .reduce((sum, count) => sum + count, 0)
  const before = durationsOf(from.report.requests.series)
  const durations = durationsOf(to.report.requests.series).map(
    (count, range) => count - (before[range] ?? 0),
  )
  const ended = countByClass(from.report.requests.series)
  const byStatus = Object.entries(countByClass(to.report.requests.series)).map(
    ([name, count]) => [name, count - (ended[name] ?? 0)] as const,
  )
  return {
    at: new Date(to.wallMs).toISOString(),
    /** The time since the sample before, by a clock that does not jump. Rates are the counts divided by it. */
    seconds: rounded(seconds),
    /** Requests that ended, by class of status. */
    by_status: Object.fromEntries(byStatus),
    /** Of the requests that ended; `null` without any. */
    p50_ms: quantileMs(durations, 0.5),
    p90_ms: quantileMs(durations, 0.9),
    p99_ms: quantileMs(durations, 0.99),
    /** Requests that were refused because the service was overloaded. */
    shed: growth(({ server }) => server.shedRequests),
    /** Requests that rules refused, and would have refused but for a dry run. */
    refused: decisions('refused'),
    would_refuse: decisions('wouldRefuse'),
    /** What waited at that moment. */
    queues: queuesOf(to.report),
    /** CPU seconds that the process used, for each second. */
    cpu: rounded(growth(({ process }) => process.cpuSeconds) / seconds),
  }
}

function rulesIn({ limits }: ServiceReport): readonly RuleReport[] {
  return limits?.rules ?? []
}

function nameOf({ type, rule }: RuleReport): string {
  return `${type} ${rule}`
}

/** Requests by class of status; every class is present. */
export function countByClass(series: readonly RequestSeries[]): Record<string, number> {
  const counts: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  for (const { labels, seconds } of series) {
    const name = labels.status === 0 ? 'aborted' : `${Math.floor(labels.status / 100)}xx`
    counts[name] = (counts[name] ?? 0) + totalOf(seconds)
  }
  return counts
}

/** How many of all these requests fell into each range of durations. */
export function durationsOf(series: readonly RequestSeries[]): readonly number[] {
  return Array.from({ length: DURATION_BOUNDS.length + 1 }, (_, range) =>
    series.reduce((sum, { seconds }) => sum + (seconds.counts[range] ?? 0), 0),
  )
}

/** The duration that the share `q` (0 to 1) of requests did not exceed, in milliseconds; `null` without requests. */
export function quantileMs(durations: readonly number[], q: number): number | null {
  const seconds = quantileOf(durations, DURATION_BOUNDS, q)
  return seconds === undefined ? null : rounded(seconds * 1000)
}

/** To three digits after the point, because more only lengthen the response. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}
