import type { ProcessMetric } from './service-report.ts'

/** Remembers what recent readings said about the lag of the event loop. */
export interface RecentLag {
  /** The metrics of a new reading, with the worst of all readings of the last `LAG_WINDOW_MS` in place of its own lag. */
  add(metrics: readonly ProcessMetric[]): readonly ProcessMetric[]
}

/**
 * prom-client forgets what it has measured whenever it is read, and is read by the operator's page every other second. Without
 * this, monitoring would see the last of these seconds only.
 */
export const LAG_WINDOW_MS = 30_000

/** Readings within this time are kept as one, so that a reading takes no longer after many others. */
const STRETCH_MS = 1000

interface Stretch {
  /** When its first and its last reading were made, by `monotonicNow`. */
  readonly from: number
  to: number
  /** The worst value of each metric in its readings. */
  readonly worst: Map<string, number>
}

/** `monotonicNow` is in milliseconds. */
export function createRecentLag(monotonicNow: () => number): RecentLag {
  let stretches: readonly Stretch[] = []

  /** The stretch of a reading that is made now. */
  function enterStretch(): Stretch {
    const now = monotonicNow()
    stretches = stretches.filter(({ to }) => now - to < LAG_WINDOW_MS)
    const last = stretches.at(-1)
    if (last !== undefined && now - last.from < STRETCH_MS) {
      last.to = now
      return last
    }
    const next: Stretch = { from: now, to: now, worst: new Map() }
    stretches = [...stretches, next]
    return next
  }

  return {
    add: metrics => {
      const { worst } = enterStretch()
      return metrics.map(metric => {
        const [own] = metric.values
        if (own === undefined || !isRecentLag(metric)) return metric
        const { name } = metric
        worst.set(name, worseOf(metric, [own.value, worst.get(name)]))
        const value = worseOf(
          metric,
          stretches.map(stretch => stretch.worst.get(name)),
        )
        return { ...metric, values: [{ ...own, value }] }
      })
    },
  }
}

/** Not the lag at the moment, which has a metric of its own. */
function isRecentLag({ name }: ProcessMetric): boolean {
  return name.startsWith('nodejs_eventloop_lag_') && name !== 'nodejs_eventloop_lag_seconds'
}

/** The shortest lag of a time is the least of the shortest ones of its parts; the longest is worst everywhere else. */
function worseOf({ aggregator }: ProcessMetric, values: readonly (number | undefined)[]): number {
  const known = values.filter(value => value !== undefined)
  return aggregator === 'min' ? Math.min(...known) : Math.max(...known)
}
