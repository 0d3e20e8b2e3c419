import type { Clocks } from '../../platform/clocks.ts'
import { repeat } from '../../platform/follow.ts'
import { DURATION_BOUNDS } from '../metrics/create-metrics.ts'
import type { ServiceCounts } from '../metrics/service-report.ts'

const SAMPLE_MS = 2000
const KEPT_MS = 15 * 60_000

/** What happened since the sample before. */
export type HistorySample = ReturnType<typeof sampleBetween>

export type StatusHistory = ReturnType<typeof createStatusHistory>

/** What the service did in the last 15 minutes, in memory: a sample every 2 seconds from now on. */
export function createStatusHistory(
  count: () => Promise<ServiceCounts>,
  { now, monotonicNow }: Pick<Clocks, 'now' | 'monotonicNow'>,
) {
  let samples: readonly HistorySample[] = []
  let last: Moment | undefined

  /** Adds a sample of what happened since the last call; the first call adds none. Rejects if the service cannot count. */
  async function sample(): Promise<void> {
    const next = { counts: await count(), at: monotonicNow(), wallMs: now() }
    if (last !== undefined && next.at > last.at) {
      const added = sampleBetween(last, next)
      // A clock that was set back leaves samples of the future.
      const kept = samples.filter(({ at }) => at < added.at)
      samples = [...kept, added].slice(-KEPT_MS / SAMPLE_MS)
    }
    last = next
  }

  // After a failure, the next sample covers this time too.
  const sampling = repeat({ work: sample, everyMs: SAMPLE_MS, onFailure: () => {} })
  void sampling.run()

  return {
    /**
     * The samples of the last 15 minutes after a time, in milliseconds since the epoch; the oldest first, each with a later time
     * than the one before it.
     */
    read: (since = -Infinity) => {
      // While the machine is suspended, nothing removes old samples.
      const after = Math.max(since, now() - KEPT_MS)
      return {
        every_seconds: SAMPLE_MS / 1000,
        samples: samples.filter(({ at }) => Date.parse(at) > after),
      }
    },
    close: sampling.close,
  }
}

interface Moment {
  readonly counts: ServiceCounts
  /** By the clock that does not jump. */
  readonly at: number
  readonly wallMs: number
}

function sampleBetween(from: Moment, to: Moment) {
  const seconds = (to.at - from.at) / 1000
  const [before, after] = [from.counts, to.counts]
  const durations = after.requests.durations.map(
    (count, range) => count - (before.requests.durations[range] ?? 0),
  )
  const ofRules = (name: 'refused' | 'wouldRefuse') =>
    sumOf(growthOf(byRule(before, name), byRule(after, name)))
  return {
    at: new Date(to.wallMs).toISOString(),
    /** The time since the sample before, by a clock that does not jump. Rates are the counts divided by it. */
    seconds: rounded(seconds),
    /** Requests that ended, by class of status. */
    by_status: growthOf(before.requests.byClass, after.requests.byClass),
    /** Of the requests that ended; `null` without any. */
    p50_ms: quantileMs(durations, 0.5),
    p90_ms: quantileMs(durations, 0.9),
    p99_ms: quantileMs(durations, 0.99),
    /** Requests that were refused because the service was overloaded. */
    shed: after.server.shedRequests - before.server.shedRequests,
    /** Requests that rules refused, and would have refused but for a dry run. */
    refused: ofRules('refused'),
    would_refuse: ofRules('wouldRefuse'),
    /** What waited at that moment. */
    queues: after.queues,
    /** CPU seconds that the process used, for each second. */
    cpu: rounded((after.process.cpuSeconds - before.process.cpuSeconds) / seconds),
  }
}

function byRule({ limits }: ServiceCounts, name: 'refused' | 'wouldRefuse'): Counts {
  const rules = limits?.rules ?? []
  return Object.fromEntries(rules.map(rule => [`${rule.type} ${rule.rule}`, rule[name]]))
}

type Counts = Readonly<Record<string, number>>

/**
 * How much each count has grown. A new count has grown from zero; one that is now smaller, because a reload began it
 * again, not at all.
 */
function growthOf(before: Counts, after: Counts): Counts {
  const grown = Object.entries(after).map(
    ([name, count]) => [name, Math.max(0, count - (before[name] ?? 0))] as const,
  )
  return Object.fromEntries(grown)
}

export function sumOf(counts: Counts | readonly number[]): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}

/**
 * The duration that the share `q` (0 to 1) of requests did not exceed, in milliseconds, linear within its range; the highest
 * bound if it is above all bounds. `null` without requests.
 */
export function quantileMs(durations: readonly number[], q: number): number | null {
  const rank = q * sumOf(durations)
  let below = 0
  for (const [range, count] of durations.entries()) {
    if (count > 0 && below + count >= rank) {
      const lower = DURATION_BOUNDS[range - 1] ?? 0
      const upper = DURATION_BOUNDS[range] ?? lower
      return rounded((lower + ((upper - lower) * (rank - below)) / count) * 1000)
    }
    below += count
  }
  return null
}

/** To three digits after the point, because more only lengthen the response. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}
