import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  prometheusContentType,
  Registry,
} from 'prom-client'
import type { RequestMetrics } from '../../http/request-log.ts'
import type { Commit } from '../../storage/storage-report.ts'
import { createNewestErrors } from '../newest-errors.ts'
import { SERVICE_METRICS } from './service-metrics.ts'
import type { RequestLabels, Series, ServiceReport } from './service-report.ts'

export const PROMETHEUS_TYPE = 'text/plain'

/** Upper bounds for the duration of a request, in seconds. */
export const DURATION_BOUNDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]

/** Upper bounds for the duration of a commit, in seconds: up to 2.5. */
const COMMIT_SECONDS_BOUNDS = DURATION_BOUNDS.slice(0, -2)

/** Upper bounds for the number of writes in a commit. */
const COMMIT_WRITES_BOUNDS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000]

/** Gauges of prom-client whose names are those of counters. Each is the sum over the types of another metric. */
const MISNAMED = ['handles', 'requests', 'resources'].map(kind => `nodejs_active_${kind}_total`)

/** How Node's monitor reports a time too short to measure: NaN, or 2^63 nanoseconds as the minimum. */
const UNMEASURED = /^(nodejs_eventloop_lag_\w+) (?:Nan|9223372036\S*)$/gm

/** No method or name of an API key begins with an underscore. */
const OTHER_METHOD = '_OTHER'
const OTHER_KEYS = '_other'

const MAX_KEY_NAMES = 200

/** Its requests take as long as nothing changes. */
const FEED_ROUTE = '/users/changes'

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** The metrics of one service. */
export type Metrics = ReturnType<typeof createMetrics>

/** What has been counted since the start. */
export type MetricsReport = Awaited<ReturnType<Metrics['report']>>

/**
 * Creates the metrics of a service and its process in a registry of its own. `now` is in milliseconds since the epoch.
 *
 * Begins to measure the lag of the event loop and the garbage collection, which only the end of the process ends.
 */
export function createMetrics(now: () => number) {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  for (const name of MISNAMED) registry.removeSingleMetric(name)

  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the arrival of a request to the end of its response, in seconds. Status 0 means that the client left before.',
    labelNames: ['method', 'route', 'status'],
    buckets: [...DURATION_BOUNDS],
    registers,
  })
  const byKey = new Counter({
    name: 'http_requests_by_key_total',
    help: 'Number of requests with a valid API key, by the name of the key.',
    labelNames: ['key'],
    registers,
  })
  const commitSeconds = new Histogram({
    name: 'storage_commit_duration_seconds',
    help: 'Duration of a committed transaction, in seconds.',
    buckets: COMMIT_SECONDS_BOUNDS,
    registers,
  })
  const commitWrites = new Histogram({
    name: 'storage_commit_writes',
    help: 'Number of writes that shared one committed transaction.',
    buckets: COMMIT_WRITES_BOUNDS,
    registers,
  })

  let report: ServiceReport
  for (const { read, labelNames = [], ...names } of SERVICE_METRICS) {
    const Kind = names.name.endsWith('_total') ? Counter : Gauge
    new Kind({
      ...{ ...names, labelNames: [...labelNames], registers },
      collect() {
        this.reset()
        const samples = read(report)
        for (const { labels, value } of samples) this.inc(labels, value)
        // Without labels it would be 0.
        if (samples.length === 0 && labelNames.length === 0) this.remove()
      },
    })
  }

  const errors = createNewestErrors(now)
  const keyNames = new Set<string>()
  // Kept beside the histogram, which is too slow to read every two seconds.
  const byClass: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  const byRange = new Array<number>(DURATION_BOUNDS.length + 1).fill(0)
  let inFlight = 0

  function observe(labels: RequestLabels, seconds: number): void {
    durations.observe(labels, seconds)
    const { status } = labels
    const name = status === 0 ? 'aborted' : `${Math.floor(status / 100)}xx`
    byClass[name] = (byClass[name] ?? 0) + 1
    if (labels.route === FEED_ROUTE) return
    let range = 0
    while (seconds > (DURATION_BOUNDS[range] ?? Infinity)) range++
    byRange[range] = (byRange[range] ?? 0) + 1
  }

  const requests: RequestMetrics = {
    begin: () => {
      inFlight++
    },
    end: request => {
      const { method, route, status, seconds, key } = request
      inFlight--
      if (status >= 400) errors.add(request)
      const known = KNOWN_METHODS.has(method) ? method : OTHER_METHOD
      observe({ method: known, route, status }, seconds)
      if (key === undefined) return
      if (keyNames.size < MAX_KEY_NAMES) keyNames.add(key)
      byKey.inc({ key: keyNames.has(key) ? key : OTHER_KEYS })
    },
    addMalformed: status => observe({ method: OTHER_METHOD, route: '', status }, 0),
  }

  return {
    requests,

    recordCommit: ({ seconds, writes }: Commit) => {
      commitSeconds.observe(seconds)
      commitWrites.observe(writes)
    },

    /** As `ReportSources` says. */
    count: () => ({ inFlight, byClass: { ...byClass }, durations: [...byRange] }),

    /** Takes a millisecond for each hundred series. */
    report: async () => {
      const keys = (await byKey.get()).values.map(
        ({ labels, value }) => [String(labels.key), value] as const,
      )
      const [seconds] = await seriesOf(commitSeconds)
      const [writes] = await seriesOf(commitWrites)
      return {
        series: (await seriesOf(durations)) as Series<RequestLabels>[],
        byKey: Object.fromEntries<number>(keys),
        errors: errors.read(),
        commits: { seconds: seconds as Series, writes: writes as Series },
      }
    },

    /** All metrics in the text format of Prometheus. `type` is the Content-Type. */
    render: async (latest: ServiceReport) => {
      report = latest
      const body = (await registry.metrics()).replaceAll(UNMEASURED, '$1 0')
      return { body, type: prometheusContentType }
    },
  }
}

/** What a histogram has observed, by its labels. */
async function seriesOf(histogram: Histogram): Promise<readonly Series[]> {
  const { name, values } = await histogram.get()
  const found: Series[] = []
  let counts: number[] = []
  let below = 0
  // The values of a series come one after another: its buckets, each of which includes the smaller ones, then its sum
  // and its count.
  for (const { metricName, labels, value } of values) {
    if (metricName === `${name}_bucket`) {
      counts.push(value - below)
      below = value
    } else if (metricName === `${name}_sum`) {
      found.push({ labels, counts, count: below, sum: value })
      counts = []
      below = 0
    }
  }
  return found
}
