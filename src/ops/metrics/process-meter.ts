import { setImmediate } from 'node:timers/promises'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { capturePerfMonitors } from './perf-monitors.ts'
import { createRecentLag } from './recent-lag.ts'
import type { ProcessMetric, ProcessUse } from './service-report.ts'

/** Measures what this process uses of the machine. */
export interface ProcessMeter {
  read(): Promise<ProcessUse>
  /** Stops what measures in the background. */
  close(): void
}

const LAG = 'nodejs_eventloop_lag_seconds'

/** Gauges of prom-client whose names are those of counters. Each is the sum over the types of another metric. */
const MISNAMED = ['handles', 'requests', 'resources'].map(kind => `nodejs_active_${kind}_total`)

/** `monotonicNow` is in milliseconds. */
export function openProcessMeter(
  monotonicNow: () => number = () => performance.now(),
): ProcessMeter {
  const registry = new Registry()
  const recentLag = createRecentLag(monotonicNow)
  const monitors = capturePerfMonitors(() => collectDefaultMetrics({ register: registry }))
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  return {
    read: async () => {
      const metrics = (await registry.getMetricsAsJSON()) as unknown as readonly ProcessMetric[]
      const eventLoopLagSeconds = await measureLag()
      const { user, system } = process.cpuUsage()
      return {
        pid: process.pid,
        startedAt: Math.round(performance.timeOrigin),
        cpuSeconds: (user + system) / 1e6,
        memoryBytes: process.memoryUsage.rss(),
        eventLoopLagSeconds,
        defaults: recentLag.add(metrics.map(metric => withLag(metric, eventLoopLagSeconds))),
      }
    },
    close: monitors.stop,
  }
}

/** The time until a callback runs that could run now, in seconds. */
async function measureLag(): Promise<number> {
  const startedAt = performance.now()
  await setImmediate()
  return (performance.now() - startedAt) / 1000
}

/**
 * A metric with the lag of the event loop that was measured for it: prom-client reports the one that it measured when it was
 * asked before.
 */
function withLag(metric: ProcessMetric, lag: number): ProcessMetric {
  if (metric.name === LAG) return { ...metric, values: [{ value: lag, labels: {} }] }
  if (!metric.name.startsWith('nodejs_eventloop_lag_')) return metric
  const values = metric.values.map(({ value, ...rest }) => ({ ...rest, value: asLag(value) }))
  return { ...metric, values }
}

/** A monitor of Node says NaN, or 2^63 nanoseconds, while it has measured nothing. */
function asLag(seconds: number): number {
  return seconds < 1e9 ? seconds : 0
}
