import { randomUUID } from 'node:crypto'
import perfHooks, { type IntervalHistogram, type PerformanceObserver } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { register } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createRequestMetrics } from '../../../src/http/request-metrics.ts'
import { openProcessMeter } from '../../../src/ops/metrics/process-meter.ts'
import { LAG_WINDOW_MS } from '../../../src/ops/metrics/recent-lag.ts'
import { openManagedApp } from '../../support/management-requests.ts'
import { parseMetrics } from '../../support/metrics-text.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { until } from '../../support/until.ts'

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
  const watching = { ...perfHooks }
  onTestFinished(() => {
    Object.assign(perfHooks, { monitorEventLoopDelay, PerformanceObserver: Observer })
  })
  return { delays, observers, disconnected, watching }
}

test('a meter stops all that it has started, and leaves nothing global', async () => {
  const { delays, observers, disconnected, watching } = watchMonitors()
  const meter = openProcessMeter()
  expect(perfHooks.monitorEventLoopDelay).toBe(watching.monitorEventLoopDelay)
  expect(perfHooks.PerformanceObserver).toBe(watching.PerformanceObserver)
  expect([delays.length, observers.length]).toEqual([1, 1])
  meter.close()
  // False because it was disabled already.
  expect(delays.map(delay => delay.disable())).toEqual([false])
  expect(disconnected).toEqual(observers)
  expect(register.getMetricsAsArray()).toEqual([])
  // Once closed, it still answers: the last report of a process is made when it stops.
  expect((await meter.read()).pid).toBe(process.pid)
})

test('a service without a management port measures nothing, and one with it stops when it stops', async () => {
  const { delays, observers, disconnected } = watchMonitors()
  const without = await openTestApp()
  await without.http.get('/users').expect(200)
  await without.stop()
  expect([...delays, ...observers]).toEqual([])
  const app = await openManagedApp()
  await app.stop()
  expect(delays.map(delay => delay.disable())).toEqual(delays.map(() => false))
  expect(disconnected).toEqual(observers)
})

test('meters of one process do not disturb each other', async () => {
  const [one, other] = [openProcessMeter(), openProcessMeter()]
  const names = (metrics: readonly { readonly name: string }[]) => metrics.map(({ name }) => name)
  const ofOne = await one.read()
  one.close()
  const ofOther = await other.read()
  other.close()
  expect(names(ofOther.defaults)).toEqual(names(ofOne.defaults))
  expect(ofOther.cpuSeconds).toBeGreaterThanOrEqual(ofOne.cpuSeconds)
  expect(ofOther.startedAt).toBe(ofOne.startedAt)
})

test('a late event loop stays in the metrics for 30 seconds, however often they are read', async () => {
  let now = 0
  const meter = openProcessMeter(() => now)
  onTestFinished(meter.close)
  const readMost = async () => {
    const { defaults } = await meter.read()
    const most = defaults.find(({ name }) => name === 'nodejs_eventloop_lag_max_seconds')
    return most?.values[0]?.value ?? 0
  }
  // After each reading, the monitor needs a tick of 10 ms before it measures again.
  await until(async () => (await readMost()) > 0)
  await sleep(100)
  const end = performance.now() + 300
  while (performance.now() < end);
  await sleep(50)
  await until(async () => (await readMost()) > 0.2)
  now = LAG_WINDOW_MS - 1
  expect(await readMost()).toBeGreaterThan(0.2)
  // The machine may be busy, but hardly for the same time.
  const before = await readMost()
  now += LAG_WINDOW_MS
  await meter.read()
  expect(await readMost()).not.toBe(before)
})

test('a report survives JSON: every value is a finite number', async () => {
  const meter = openProcessMeter()
  onTestFinished(meter.close)
  // Asked twice within the time in which the monitor of the event loop measures once.
  await meter.read()
  const use = await meter.read()
  expect(JSON.parse(JSON.stringify(use))).toEqual(use)
  const lags = use.defaults.filter(({ name }) => name.startsWith('nodejs_eventloop_lag_'))
  expect(lags).toHaveLength(8)
  for (const { values } of lags) {
    for (const { value } of values) expect(value).toBeLessThan(1e6)
  }
  const lag = lags.find(({ name }) => name === 'nodejs_eventloop_lag_seconds')
  expect(lag?.values).toEqual([{ value: use.eventLoopLagSeconds, labels: {} }])
})

test('GET /metrics has the metrics of prom-client, once each', async () => {
  const { ops } = await openManagedApp()
  const { types, read } = parseMetrics((await ops.get('/metrics').expect(200)).text)
  expect(types).toMatchObject({
    process_cpu_seconds_total: 'counter',
    process_resident_memory_bytes: 'gauge',
    process_start_time_seconds: 'gauge',
    nodejs_eventloop_lag_seconds: 'gauge',
    nodejs_eventloop_lag_p99_seconds: 'gauge',
    nodejs_gc_duration_seconds: 'histogram',
    nodejs_heap_size_used_bytes: 'gauge',
  })
  expect(read('process_resident_memory_bytes')).toBeGreaterThan(1e6)
  expect(read('nodejs_version_info')).toBe(1)
})

test('createRequestMetrics counts at most 200 names of keys, and the rest under _other', () => {
  const metrics = createRequestMetrics()
  const ask = (key: string) => {
    metrics.begin()
    metrics.end({
      ...{ method: 'GET', route: '/users', status: 200, seconds: 0.001 },
      ...{ key, traceId: undefined },
    })
  }
  const names = Array.from({ length: 300 }, () => randomUUID())
  for (const name of names) ask(name)
  for (const name of names) ask(name)
  const { byKey, series, inFlight } = metrics.report()
  expect(byKey).toEqual({
    ...Object.fromEntries(names.slice(0, 200).map(name => [name, 2])),
    _other: 200,
  })
  expect(series).toMatchObject([{ method: 'GET', route: '/users', status: 200 }])
  expect(inFlight).toBe(0)
})
