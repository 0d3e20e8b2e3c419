import { expect, test } from 'vitest'
import { openManagedApp } from '../support/management-requests.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { until, untilPasses } from '../support/until.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const VALID = `00-${TRACE}-${SPAN}-01`

test.each<[string, readonly string[], isTraced: boolean]>([
  ['of version 00', [VALID], true],
  ['that is not sampled', [`00-${TRACE}-${SPAN}-00`], true],
  ['with flags that have no meaning yet', [`00-${TRACE}-${SPAN}-ff`], true],
  ['with blanks around it', [`  ${VALID}\t`], true],
  ['of a later version', [`01-${TRACE}-${SPAN}-01`], true],
  ['of a later version with more', [`cc-${TRACE}-${SPAN}-01-what-comes,later`], true],
  ['of a later version with nothing more', [`cc-${TRACE}-${SPAN}-01-`], true],
  ['of a later version with more that is not set off', [`cc-${TRACE}-${SPAN}-01x`], false],
  ['of version 00 with more', [`${VALID}-01`], false],
  ['of version 00 with a dash more', [`${VALID}-`], false],
  ['of version ff', [`ff-${TRACE}-${SPAN}-01`], false],
  ['of version FF', [`FF-${TRACE}-${SPAN}-01`], false],
  ['with a trace of zeros', [`00-${'0'.repeat(32)}-${SPAN}-01`], false],
  ['with a span of zeros', [`00-${TRACE}-${'0'.repeat(16)}-01`], false],
  ['with a trace in upper case', [`00-${TRACE.toUpperCase()}-${SPAN}-01`], false],
  ['with a span in upper case', [`00-${TRACE}-${SPAN.toUpperCase()}-01`], false],
  ['with upper-case flags', [`00-${TRACE}-${SPAN}-0A`], false],
  ['with a short trace', [`00-${TRACE.slice(1)}-${SPAN}-01`], false],
  ['with a long trace', [`00-${TRACE}0-${SPAN}-01`], false],
  ['with a short span', [`00-${TRACE}-${SPAN.slice(1)}-01`], false],
  ['without flags', [`00-${TRACE}-${SPAN}`], false],
  ['with one digit of flags', [`00-${TRACE}-${SPAN}-1`], false],
  ['with other letters', [`00-${TRACE.replace('f', 'g')}-${SPAN}-01`], false],
  ['with underscores', [VALID.replaceAll('-', '_')], false],
  ['that is empty', [''], false],
  ['that is none', ['hush'], false],
  ['sent twice', [VALID, VALID], false],
  ['sent twice, once empty', ['', VALID], false],
  ['sent twice, then empty', [VALID, ''], false],
  ['of a later version with more, sent twice', [`cc-${TRACE}-${SPAN}-01-x`, VALID], false],
  ['that is absent', [], false],
])('a traceparent %s: whether its trace_id is in the log line', async (_, values, isTraced) => {
  const { port, logLines } = await openTestApp()
  const id = 'the-one'
  const headers = values.map(value => `traceparent: ${value}\r\n`).join('')
  const head = `Host: localhost\r\nConnection: close\r\nX-Request-Id: ${id}\r\n${headers}`
  for (const line of ['GET /users', 'GET /nowhere']) {
    const [answer] = await sendRaw(port, `${line} HTTP/1.1\r\n${head}\r\n`).ended
    expect([200, 404]).toContain(answer?.status)
  }
  const lines = logLines.filter(({ requestId }) => requestId === id)
  const expected = isTraced ? TRACE : undefined
  expect(lines.map(line => line.trace_id)).toEqual([expected, expected])
})

test('the newest traced request of each range is an exemplar of its series', async () => {
  const { http, ops, logLines } = await openManagedApp()
  const traces = Array.from({ length: 5 }, (_, index) => `${TRACE.slice(1)}${index}`)
  for (const trace of traces) {
    await http.get('/users').set('traceparent', `00-${trace}-${SPAN}-01`).expect(200)
  }
  await http.get('/users').expect(200)
  await http.get('/nowhere').set('traceparent', VALID).expect(404)
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
