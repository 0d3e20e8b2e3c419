import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  prometheusContentType,
  Registry,
} from 'prom-client'
import type { EndedRequest, RequestMetrics } from '../../http/request-log.ts'
import type { Commit } from '../../storage/storage.ts'
import { SERVICE_METRICS } from './service-metrics.ts'
import type { ServiceReport } from './service-report.ts'

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
export type MetricsReport = ReturnType<Metrics['report']>

/** What tells the counted requests apart. `route` is empty for paths without one; `status` is 0 if the client left before. */
interface RequestLabels {
  readonly method: string
  readonly route: string
  readonly status: number
}

/** The requests of a method and route. */
export interface RouteCounts extends Omit<RequestLabels, 'status'> {
  /** By status, and `aborted` if the client left before the response. */
  readonly byStatus: Record<string, number>
  /** By range of `DURATION_BOUNDS`. */
  readonly durations: number[]
}

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
  const requestsByKey = new Counter({
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
  // Kept beside the metrics, which are slow to read.
  const byRoute = new Map<string, RouteCounts>()
  const byKey = new Map<string, number>()
  const byClass: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  const byRange = noDurations()
  const commits = { count: 0, writes: 0, seconds: 0 }
  let inFlight = 0

  function observe({ method, route, status }: RequestLabels, seconds: number): void {
    durations.observe({ method, route, status }, seconds)
    const name = `${method} ${route}`
    const counts = byRoute.get(name) ?? { method, route, byStatus: {}, durations: noDurations() }
    byRoute.set(name, counts)
    const isAborted = status === 0
    increase(counts.byStatus, isAborted ? 'aborted' : `${status}`)
    increase(byClass, isAborted ? 'aborted' : `${Math.floor(status / 100)}xx`)
    const above = DURATION_BOUNDS.findIndex(bound => seconds <= bound)
    const range = above < 0 ? DURATION_BOUNDS.length : above
    increase(counts.durations, range)
    if (route !== FEED_ROUTE) increase(byRange, range)
  }

  const requests: RequestMetrics = {
    begin: () => {
      inFlight++
    },
    end: request => {
      const { method, route = '', aborted, ms, key } = request
      inFlight--
      const status = aborted ? 0 : (request.status ?? 0)
      if (status >= 400) errors.add(request, status)
      const known = KNOWN_METHODS.has(method) ? method : OTHER_METHOD
      observe({ method: known, route, status }, ms / 1000)
      if (key === undefined) return
      const name = byKey.has(key) || byKey.size < MAX_KEY_NAMES ? key : OTHER_KEYS
      byKey.set(name, (byKey.get(name) ?? 0) + 1)
      requestsByKey.inc({ key: name })
    },
    addMalformed: status => observe({ method: OTHER_METHOD, route: '', status }, 0),
  }

  return {
    requests,

    recordCommit: ({ seconds, writes }: Commit) => {
      commitSeconds.observe(seconds)
      commitWrites.observe(writes)
      commits.count++
      commits.writes += writes
      commits.seconds += seconds
    },

    /** As `ReportSources` says. */
    count: () => ({ inFlight, byClass: { ...byClass }, durations: [...byRange] }),

    report: () => ({
      routes: [...byRoute.values()],
      byKey: Object.fromEntries(byKey),
      errors: errors.read(),
      commits: { ...commits },
    }),

    /** All metrics in the text format of Prometheus. `type` is the Content-Type. */
    render: async (latest: ServiceReport) => {
      report = latest
      const body = (await registry.metrics()).replaceAll(UNMEASURED, '$1 0')
      return { body, type: prometheusContentType }
    },
  }
}

/** How many of each reason are kept, so that a flood of one hides no other. There are as many reasons as codes of errors. */
const MAX_ERRORS_OF_REASON = 5

const MAX_SHOWN_ERRORS = 50

/** The newest requests that were answered with an error, without anything that a client chose but the id of its request. */
function createNewestErrors(now: () => number) {
  const describe = (request: EndedRequest, status: number) => {
    const { requestId, method, route = '', reason = null } = request
    return {
      at: new Date(now()).toISOString(),
      request_id: requestId,
      method,
      route,
      status,
      reason,
    }
  }
  const byReason = new Map<unknown, { nth: number; error: ReturnType<typeof describe> }[]>()
  let count = 0

  return {
    add: (request: EndedRequest, status: number): void => {
      const errors = byReason.get(request.reason) ?? []
      byReason.set(request.reason, errors)
      errors.push({ nth: count++, error: describe(request, status) })
      if (errors.length > MAX_ERRORS_OF_REASON) errors.shift()
    },

    /** The newest first, whatever the clock does. */
    read: () =>
      [...byReason.values()]
        .flat()
        .sort((one, other) => other.nth - one.nth)
        .slice(0, MAX_SHOWN_ERRORS)
        .map(({ error }) => error),
  }
}

const noDurations = () => new Array<number>(DURATION_BOUNDS.length + 1).fill(0)

function increase<Key extends string | number>(counts: Record<Key, number>, key: Key): void {
  counts[key] = (counts[key] ?? 0) + 1
}
