import perfHooks, { type IntervalHistogram, type PerformanceObserver } from 'node:perf_hooks'
import { register } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createRequestMetrics } from '../../../src/http/request-metrics.ts'
import { createRecentLag, LAG_WINDOW_MS } from '../../../src/ops/metrics/recent-lag.ts'
import { openManagedApp } from '../../support/management-requests.ts'
import { openTestApp } from '../../support/open-test-app.ts'

/** Records the monitors that are started from now on. */
function watchMonitors() {
  const { monitorEventLoopDelay, PerformanceObserver: Observer } = perfHooks
  const delays: IntervalHistogram[] = []
  const observers: PerformanceObserver[] = []
  const disconnected: PerformanceObserver[] = []
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
    override disconnect(): void {
      disconnected.push(this)
      super.disconnect()
    }
  }
  onTestFinished(() => {
    Object.assign(perfHooks, { monitorEventLoopDelay, PerformanceObserver: Observer })
  })
  return { delays, observers, disconnected }
}

test('a service without a management port measures nothing, and one with it stops when it stops', async () => {
  const { delays, observers, disconnected } = watchMonitors()
  const without = await openTestApp()
  await without.http.get('/users').expect(200)
  await without.stop()
  expect([...delays, ...observers]).toEqual([])
  const app = await openManagedApp()
  await app.stop()
  expect([delays.length, observers.length]).toEqual([1, 1])
  // False because it was disabled already.
  expect(delays.map(delay => delay.disable())).toEqual([false])
  expect(disconnected).toEqual(observers)
  expect(register.getMetricsAsArray()).toEqual([])
})

test.each([10, 999, 1000, 2500])(
  'the worst lag of the event loop is in the metrics for 30 seconds, read every %i ms',
  everyMs => {
    let now = 0
    const recent = createRecentLag(() => now)
    const metric = { name: 'nodejs_eventloop_lag_max_seconds', help: 'Lag', type: 'gauge' }
    const read = (value: number) =>
      recent.add([{ ...metric, aggregator: 'max', values: [{ value, labels: {} }] }])[0]?.values[0]
        ?.value
    read(1)
    for (now = everyMs; now < LAG_WINDOW_MS; now += everyMs) expect(read(0.01)).toBe(1)
    // What is kept together ends together, within a second.
    for (; now < LAG_WINDOW_MS + 1000; now += everyMs) read(0.01)
    expect(read(0.01)).toBe(0.01)
  },
)

test('requests are counted by at most 200 names of keys, and the rest under _other', () => {
  const metrics = createRequestMetrics()
  const names = Array.from({ length: 300 }, (_, index) => `key-${index}`)
  for (const key of [...names, ...names]) {
    metrics.begin()
    const request = { method: 'GET', route: '/users', status: 200, seconds: 0.001 }
    metrics.end({ ...request, key, traceId: undefined })
  }
  const counted = Object.fromEntries(names.slice(0, 200).map(name => [name, 2]))
  expect(metrics.report()).toMatchObject({ byKey: { ...counted, _other: 200 }, inFlight: 0 })
})
