import { DURATION_BOUNDS, type Exemplar } from '../../http/request-metrics.ts'
import type { HistogramCounts } from '../../metrics/histogram.ts'
import { COMMIT_SECONDS_BOUNDS, COMMIT_WRITES_BOUNDS } from '../../storage/storage-report.ts'
import { readVersion } from '../../version.ts'
import { queuesOf, type ServiceReport } from './service-report.ts'

/** The labels of a sample, by their names. */
type Labels = Readonly<Record<string, string | number>>

/** A line of a metric, as prom-client writes it. */
interface Sample {
  /** The name of the metric with an end; only in a histogram. */
  readonly metricName?: string
  readonly labels: Labels
  /** Further labels, which prom-client formats once for all samples that have the same object. */
  readonly sharedLabels?: Labels
  readonly value: number
  readonly exemplar?: object | undefined
}

interface Metric {
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** One sentence, with the unit. */
  readonly help: string
  readonly read: (report: ServiceReport, name: string) => readonly Sample[]
}

const NO_LABELS: Labels = {}

/** The metrics of the service, by name, besides those of prom-client about the process and Node. */
export const SERVICE_METRICS: Readonly<Record<string, Metric>> = {
  http_request_duration_seconds: {
    type: 'histogram',
    help: 'Time from the arrival of a request to the end of its response, in seconds. Status 0 means that the client left before.',
    read: ({ requests }, name) =>
      requests.series.flatMap(({ seconds, labels, exemplars }) =>
        bucketsOf(name, { ...seconds, bounds: DURATION_BOUNDS, labels, exemplars }),
      ),
  },
  http_requests_in_flight: {
    type: 'gauge',
    help: 'Number of requests that have begun and have not ended.',
    read: ({ requests }) => one(requests.inFlight),
  },
  http_connections: {
    type: 'gauge',
    help: 'Number of open connections of clients.',
    read: ({ server }) => one(server.connections),
  },
  http_requests_shed_total: {
    type: 'counter',
    help: 'Number of requests refused because they waited too long or too many waited.',
    read: ({ server }) => one(server.shedRequests),
  },
  http_requests_by_key_total: {
    type: 'counter',
    help: 'Number of requests with a valid API key, by the name of the key.',
    read: ({ requests }) => by('key', requests.byKey),
  },
  queue_length: {
    type: 'gauge',
    help: 'Number of requests that wait for their turn, writes that wait for the database, and passwords that wait for a thread.',
    read: report => by('queue', queuesOf(report)),
  },
  storage_up: {
    type: 'gauge',
    help: 'Whether the database has answered just now, 1 or 0.',
    read: ({ readiness }) => one(Number(readiness.checks.storage.status === 'ok')),
  },
  storage_commit_duration_seconds: {
    type: 'histogram',
    help: 'Duration of a committed transaction, in seconds.',
    read: ({ storage }, name) =>
      bucketsOf(name, { ...storage.commits.seconds, bounds: COMMIT_SECONDS_BOUNDS }),
  },
  storage_commit_writes: {
    type: 'histogram',
    help: 'Number of writes that shared one committed transaction.',
    read: ({ storage }, name) =>
      bucketsOf(name, { ...storage.commits.writes, bounds: COMMIT_WRITES_BOUNDS }),
  },
  storage_bytes: {
    type: 'gauge',
    help: 'Size of the files of the database, in bytes. Only with SQLite in a file.',
    read: ({ storage }) => by('file', { ...storage.fileBytes }),
  },
  storage_connections: {
    type: 'gauge',
    help: 'Number of connections to the database. Only with PostgreSQL.',
    read: ({ storage: { connections } }) =>
      connections ? by('state', { active: connections.active, idle: connections.idle }) : [],
  },
  storage_connections_waiting: {
    type: 'gauge',
    help: 'Number of statements and transactions that wait for a connection. Only with PostgreSQL.',
    read: ({ storage: { connections } }) => (connections ? one(connections.waiting) : []),
  },
  whole_lists: {
    type: 'gauge',
    help: 'Number of whole lists that are being sent.',
    read: ({ wholeLists }) => one(wholeLists),
  },
  change_feed_requests: {
    type: 'gauge',
    help: 'Number of requests that wait for a change of a user, and of streams of changes.',
    read: ({ feed: { waiting, streaming } }) => by('state', { waiting, streaming }),
  },
  change_feed_deletions: {
    type: 'gauge',
    help: 'Number of deleted users that the feed of changes still has, counted once a minute.',
    read: ({ feed }) => one(feed.deletions),
  },
  limit_decisions_total: {
    type: 'counter',
    help: 'Number of requests that a rule has let pass, refused, or would have refused without its dry run.',
    read: report =>
      rulesIn(report).flatMap(({ labels, passed, refused, wouldRefuse }) =>
        by('outcome', { passed, refused, would_refuse: wouldRefuse }, labels),
      ),
  },
  limit_requests_counted_total: {
    type: 'counter',
    help: 'Number of requests that a rule has matched and, if it counts, counted.',
    read: report => rulesIn(report).map(({ labels, counted }) => ({ labels, value: counted })),
  },
  limit_bans: {
    type: 'gauge',
    help: 'Number of bans in force.',
    read: ({ limits }) => one(limits?.bans ?? 0),
  },
  limit_store_up: {
    type: 'gauge',
    help: 'Whether the store that counts for the limits can be reached, 1 or 0. It is 1 without limits.',
    read: ({ limits }) => one(Number(limits?.isStoreUp ?? true)),
  },
  user_records_build_info: {
    type: 'gauge',
    help: 'Always 1. The labels have the versions of the service and of Node.',
    read: () => one(1, { version: readVersion(), node: process.version }),
  },
}

function one(value: number, labels = NO_LABELS): readonly Sample[] {
  return [{ labels, value }]
}

/** A sample for each member. Its name is the value of `label`. */
function by(
  label: string,
  values: Readonly<Record<string, number>>,
  others: Labels = NO_LABELS,
): readonly Sample[] {
  return Object.entries(values).map(([name, value]) => ({
    labels: { ...others, [label]: name },
    value,
  }))
}

interface Ranges extends HistogramCounts {
  readonly bounds: readonly number[]
  readonly labels?: Labels
  /** By the index of the range. */
  readonly exemplars?: ReadonlyMap<number, Exemplar>
}

function bucketsOf(name: string, ranges: Ranges): readonly Sample[] {
  const { counts, sum, bounds, labels: sharedLabels = NO_LABELS, exemplars } = ranges
  let value = 0
  const buckets = counts.map((count, index) => {
    value += count
    const labels = { le: bounds[index] ?? '+Inf' }
    const found = exemplars?.get(index)
    const exemplar = found && {
      labelSet: { trace_id: found.traceId },
      value: found.seconds,
      timestamp: found.at / 1000,
    }
    return { metricName: `${name}_bucket`, labels, sharedLabels, value, exemplar }
  })
  const ofAll = { labels: NO_LABELS, sharedLabels }
  return [
    ...buckets,
    { metricName: `${name}_sum`, ...ofAll, value: sum },
    { metricName: `${name}_count`, ...ofAll, value },
  ]
}

/** What each rule has done, with its labels. Prometheus stops reading at a NUL; prom-client escapes everything else. */
function rulesIn({ limits }: ServiceReport) {
  return (limits?.rules ?? []).map(({ type, rule, ...counts }) => ({
    ...counts,
    labels: { type, rule: rule.replaceAll('\0', '\ufffd') },
  }))
}
