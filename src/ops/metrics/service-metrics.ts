import { DURATION_BOUNDS, type Exemplar } from '../../http/request-metrics.ts'
import type { HistogramCounts } from '../../metrics/histogram.ts'
import { COMMIT_SECONDS_BOUNDS, COMMIT_WRITES_BOUNDS } from '../../storage/storage-report.ts'
import { readVersion } from '../../version.ts'
import { queuesOf, type ServiceReport } from './service-report.ts'

/** The labels of a sample, by their names. */
export type Labels = Readonly<Record<string, string | number>>

interface MetricFacts {
  /** One sentence, with the unit. */
  readonly help: string
}

/** A metric whose values are numbers. */
export interface NumberMetric extends MetricFacts {
  readonly type: 'counter' | 'gauge'
  readonly read: (report: ServiceReport) => readonly NumberSample[]
}

interface NumberSample {
  readonly labels: Labels
  readonly value: number
}

/** A metric whose values are counted in ranges. */
export interface HistogramMetric extends MetricFacts {
  readonly type: 'histogram'
  /** The upper bounds of the ranges. */
  readonly bounds: readonly number[]
  readonly read: (report: ServiceReport) => readonly HistogramSample[]
}

interface HistogramSample {
  readonly labels: Labels
  readonly ranges: HistogramCounts
  /** By the index of the range. */
  readonly exemplars?: ReadonlyMap<number, Exemplar>
}

const NO_LABELS: Labels = {}

/** The metrics of the service, by name, besides those of prom-client about the process and Node. */
export const SERVICE_METRICS: Readonly<Record<string, NumberMetric | HistogramMetric>> = {
  http_request_duration_seconds: {
    type: 'histogram',
    help: 'Time from the arrival of a request to the end of its response, in seconds. Status 0 means that the client left before.',
    bounds: DURATION_BOUNDS,
    read: ({ requests }) =>
      requests.series.map(({ seconds: ranges, ...series }) => ({ ...series, ranges })),
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
    bounds: COMMIT_SECONDS_BOUNDS,
    read: ({ storage }) => [{ labels: NO_LABELS, ranges: storage.commits.seconds }],
  },
  storage_commit_writes: {
    type: 'histogram',
    help: 'Number of writes that shared one committed transaction.',
    bounds: COMMIT_WRITES_BOUNDS,
    read: ({ storage }) => [{ labels: NO_LABELS, ranges: storage.commits.writes }],
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

function one(value: number, labels = NO_LABELS): readonly NumberSample[] {
  return [{ labels, value }]
}

/** A sample for each member. Its name is the value of `label`. */
function by(
  label: string,
  values: Readonly<Record<string, number>>,
  others: Labels = NO_LABELS,
): readonly NumberSample[] {
  return Object.entries(values).map(([name, value]) => ({
    labels: { ...others, [label]: name },
    value,
  }))
}

/** What each rule has done, with its labels. Prometheus stops reading at a NUL; prom-client escapes everything else. */
function rulesIn({ limits }: ServiceReport) {
  return (limits?.rules ?? []).map(({ type, rule, ...counts }) => ({
    ...counts,
    labels: { type, rule: rule.replaceAll('\0', '\ufffd') },
  }))
}
