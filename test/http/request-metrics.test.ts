import { expect, test } from 'vitest'
import { createRequestMetrics } from '../../src/http/request-metrics.ts'

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
