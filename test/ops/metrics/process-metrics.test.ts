import perfHooks from 'node:perf_hooks'
import { expect, onTestFinished, test } from 'vitest'
import { openManagedApp } from '../../support/management-requests.ts'
import { parseMetrics } from '../../support/metrics-text.ts'
import { openTestApp } from '../../support/open-test-app.ts'

test('a service without a management port measures nothing', async () => {
  const { monitorEventLoopDelay, PerformanceObserver: Observer } = perfHooks
  const started: string[] = []
  perfHooks.monitorEventLoopDelay = options => {
    started.push('lag')
    return monitorEventLoopDelay(options)
  }
  perfHooks.PerformanceObserver = class extends Observer {
    constructor(...parameters: ConstructorParameters<typeof Observer>) {
      super(...parameters)
      started.push('observer')
    }
  }
  onTestFinished(() => {
    Object.assign(perfHooks, { monitorEventLoopDelay, PerformanceObserver: Observer })
  })
  const without = await openTestApp()
  await without.http.get('/users').expect(200)
  await without.stop()
  expect(started).toEqual([])
  await openManagedApp()
  expect(started.toSorted()).toEqual(['lag', 'observer'])
})

test('the page takes nothing from the metrics: GET /metrics has the worst lag since the one before', async () => {
  const { ops } = await openManagedApp()
  const worstLag = async () => {
    const { read } = parseMetrics((await ops.get('/metrics').expect(200)).text)
    return read('nodejs_eventloop_lag_max_seconds') ?? 0
  }
  await worstLag()
  // The monitor measures from its second turn on.
  await new Promise(resolve => setTimeout(resolve, 50))
  const until = performance.now() + 500
  while (performance.now() < until);
  await new Promise(resolve => setTimeout(resolve, 50))
  for (let times = 0; times < 3; times++) await ops.get('/status').expect(200)
  expect(await worstLag()).toBeGreaterThan(0.3)
})
