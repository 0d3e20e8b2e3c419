import { aggregateMetrics, type ProcessMetric } from './aggregate-metrics.ts'

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
  readonly to: number
  /** The worst of its readings. */
  readonly metrics: readonly ProcessMetric[]
}

/** `monotonicNow` is in milliseconds. */
export function createRecentLag(monotonicNow: () => number): RecentLag {
  let stretches: readonly Stretch[] = []

  function remember(metrics: readonly ProcessMetric[]): void {
    const now = monotonicNow()
    const kept = stretches.filter(({ to }) => now - to < LAG_WINDOW_MS)
    const last = kept.at(-1)
    stretches =
      last !== undefined && now - last.from < STRETCH_MS
        ? kept.with(-1, {
            from: last.from,
            to: now,
            metrics: aggregateMetrics([...last.metrics, ...metrics]),
          })
        : [...kept, { from: now, to: now, metrics }]
  }

  return {
    add: metrics => {
      remember(metrics.filter(isRecentLag))
      const worst = aggregateMetrics(stretches.flatMap(stretch => stretch.metrics))
      return metrics.map(metric => worst.find(({ name }) => name === metric.name) ?? metric)
    },
  }
}

/** Not the lag at the moment, which has a metric of its own. */
function isRecentLag({ name }: ProcessMetric): boolean {
  return name.startsWith('nodejs_eventloop_lag_') && name !== 'nodejs_eventloop_lag_seconds'
}
