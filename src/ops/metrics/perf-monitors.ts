import perfHooks, { type IntervalHistogram, type PerformanceObserver } from 'node:perf_hooks'

/** What measures in the background until it is stopped. */
export interface PerfMonitors {
  stop(): void
}

/**
 * Runs `create` and returns the monitors of `node:perf_hooks` that it has started. prom-client starts some for its metrics and
 * keeps them to itself, so that they would run until the process ends. While `create` runs, and only then, the module hands out
 * monitors that are remembered here; `create` is synchronous, so that no other code sees that.
 */
export function capturePerfMonitors(create: () => void): PerfMonitors {
  const { monitorEventLoopDelay, PerformanceObserver: Observer } = perfHooks
  const delays: IntervalHistogram[] = []
  const observers: PerformanceObserver[] = []
  perfHooks.monitorEventLoopDelay = options => {
    const delay = monitorEventLoopDelay(options)
    delays.push(delay)
    return delay
  }
  perfHooks.PerformanceObserver = class extends Observer {
    constructor(...parameters: ConstructorParameters<typeof Observer>) {
      super(...parameters)
      observers.push(this)
    }
  }
  try {
    create()
  } finally {
    Object.assign(perfHooks, { monitorEventLoopDelay, PerformanceObserver: Observer })
  }
  return {
    stop: () => {
      for (const delay of delays) delay.disable()
      for (const observer of observers) observer.disconnect()
    },
  }
}
