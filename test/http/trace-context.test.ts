import { expect, test } from 'vitest'
import { openManagedApp } from '../support/management-requests.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { until, untilPasses } from '../support/until.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'

test('the newest traced request of each range is an exemplar of its series', async () => {
  const { http, ops, logLines } = await openManagedApp()
  const traces = Array.from({ length: 5 }, (_, index) => `${TRACE.slice(1)}${index}`)
  for (const trace of traces) {
    await http.get('/users').set('traceparent', `00-${trace}-b7ad6b7169203331-01`).expect(200)
  }
  await http.get('/users').expect(200)
  await http.get('/nowhere').set('traceparent', `00-${TRACE}-b7ad6b7169203331-01`).expect(404)
  const lines = await until(() => {
    const found = logLines.filter(({ msg, trace_id }) => msg === 'request' && trace_id)
    return found.length === 6 && found
  })
  await untilPasses(async () => {
    const { text } = await ops.get('/metrics').set('Accept', 'application/openmetrics-text')
    const exemplars = parseMetrics(text).samples.flatMap(sample =>
      sample.exemplar ? [{ ...sample, exemplar: sample.exemplar }] : [],
    )
    expect(exemplars.find(({ labels }) => labels.route === '')?.exemplar.labels).toEqual({
      trace_id: TRACE,
    })
    expect(exemplars.map(({ exemplar }) => exemplar.labels.trace_id)).toContain(traces[4])
    const ranges = exemplars.map(({ labels: { route, le } }) => `${route} ${le}`)
    expect(new Set(ranges).size).toBe(ranges.length)
    for (const { name, labels, exemplar } of exemplars) {
      expect([name, labels.method]).toEqual(['http_request_duration_seconds_bucket', 'GET'])
      expect(exemplar.value).toBeLessThanOrEqual(Number(labels.le))
      const line = lines.find(({ trace_id }) => trace_id === exemplar.labels.trace_id)
      expect(Math.abs(exemplar.value * 1000 - Number(line?.ms))).toBeLessThan(0.001)
      expect(Math.abs(exemplar.timestamp * 1000 - Number(line?.time))).toBeLessThan(60_000)
    }
  })
})
