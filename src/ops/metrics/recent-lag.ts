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

interface Reading {
  /** By `monotonicNow`. */
  readonly at: number
  readonly metrics: readonly ProcessMetric[]
}

/** `monotonicNow` is in milliseconds. */
export function createRecentLag(monotonicNow: () => number): RecentLag {
  let readings: Reading[] = []
  return {
    add: metrics => {
      const now = monotonicNow()
      const ofLag = metrics.filter(isRecentLag)
      readings = [
        ...readings.filter(({ at }) => now - at < LAG_WINDOW_MS),
        { at: now, metrics: ofLag },
      ]
      const worst = aggregateMetrics(readings.flatMap(reading => reading.metrics))
      return metrics.map(metric => worst.find(({ name }) => name === metric.name) ?? metric)
    },
  }
}

/** Not the lag at the moment, which has a metric of its own. */
function isRecentLag({ name }: ProcessMetric): boolean {
  return name.startsWith('nodejs_eventloop_lag_') && name !== 'nodejs_eventloop_lag_seconds'
}
