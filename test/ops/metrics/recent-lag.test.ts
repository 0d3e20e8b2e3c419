import { expect, test } from 'vitest'
import { createRecentLag, LAG_WINDOW_MS } from '../../../src/ops/metrics/recent-lag.ts'

const NAME = 'nodejs_eventloop_lag_max_seconds'

function metricsOf(lag: number) {
  return [
    {
      name: NAME,
      help: 'Lag',
      type: 'gauge',
      aggregator: 'max',
      values: [{ value: lag, labels: {} }],
    },
  ]
}

test.each([10, 300, 999, 1000, 2500])(
  'createRecentLag keeps the worst lag for 30 seconds with a reading every %i ms',
  everyMs => {
    let now = 0
    const recent = createRecentLag(() => now)
    const read = (lag: number) => recent.add(metricsOf(lag))[0]?.values[0]?.value
    read(1)
    for (now = everyMs; now < LAG_WINDOW_MS; now += everyMs) expect(read(0.01)).toBe(1)
    // What is kept together ends together, within a second.
    for (; now < LAG_WINDOW_MS + 1000; now += everyMs) read(0.01)
    expect(read(0.01)).toBe(0.01)
  },
)

test('createRecentLag knows a late lag that came soon after an early one for as long', () => {
  let now = 0
  const recent = createRecentLag(() => now)
  const read = (lag: number) => recent.add(metricsOf(lag))[0]?.values[0]?.value
  read(0.01)
  now = 900
  read(1)
  now = 900 + LAG_WINDOW_MS - 1
  expect(read(0.01)).toBe(1)
  now = 900 + LAG_WINDOW_MS
  expect(read(0.01)).toBe(0.01)
})
