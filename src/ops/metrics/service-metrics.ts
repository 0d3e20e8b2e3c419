import { DURATION_BOUNDS, type Exemplar } from '../../http/request-metrics.ts'
import type { HistogramCounts } from '../../metrics/histogram.ts'
import { COMMIT_SECONDS_BOUNDS, COMMIT_WRITES_BOUNDS } from '../../storage/storage-report.ts'
import { readVersion } from '../../version.ts'
import type { Labels } from './keep-labels.ts'
import type { ServiceReport } from './service-report.ts'

interface MetricFacts {
  readonly name: string
  /** One sentence, with the unit. */
  readonly help: string
  readonly labels: readonly string[]
}

/** A metric whose values are numbers. */
export interface NumberMetric extends MetricFacts {
  readonly type: 'counter' | 'gauge'
  readonly read: (report: ServiceReport) => readonly NumberSample[]
}

export interface NumberSample {
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

export interface HistogramSample extends HistogramCounts {
  readonly labels: Labels
  /** By the index of the range. */
  readonly exemplars?: Readonly<Record<number, Exemplar>> | undefined
}

export type ServiceMetric = NumberMetric | HistogramMetric

const REQUEST_METRICS: readonly ServiceMetric[] = [
  {
    name: 'http_request_duration_seconds',
    type: 'histogram',
    help: 'Time from the arrival of a request to the end of its response, in seconds. Status 0 means that the client left before.',
    labels: ['method', 'route', 'status'],
    bounds: DURATION_BOUNDS,
    read: ({ requests }) =>
      requests.series.map(({ method, route, status, seconds, exemplars }) => ({
        labels: { method, route, status: String(status) },
        ...seconds,
        exemplars,
      })),
  },
  {
    name: 'http_requests_in_flight',
    type: 'gauge',
    help: 'Number of requests that have begun and have not ended.',
    labels: [],
    read: ({ requests }) => one(requests.inFlight),
  },
  {
    name: 'http_connections',
    type: 'gauge',
    help: 'Number of open connections of clients.',
    labels: [],
    read: ({ server }) => one(server.connections),
  },
  {
    name: 'http_requests_shed_total',
    type: 'counter',
    help: 'Number of requests refused because they waited too long or too many waited.',
    labels: [],
    read: ({ server }) => one(server.shedRequests),
  },
  {
    name: 'http_requests_by_key_total',
    type: 'counter',
    help: 'Number of requests with a valid API key, by the name of the key.',
    labels: ['key'],
    read: ({ requests }) =>
      Object.entries(requests.byKey).map(([key, value]) => ({ labels: { key }, value })),
  },
  {
    name: 'queue_length',
    type: 'gauge',
    help: 'Number of requests that wait for their turn, writes that wait for the database, and passwords that wait for a thread.',
    labels: ['queue'],
    read: ({ server, storage, waitingPasswords }) =>
      by('queue', {
        requests: server.waitingRequests,
        writes: storage.waitingWrites,
        passwords: waitingPasswords,
      }),
  },
  {
    name: 'whole_lists',
    type: 'gauge',
    help: 'Number of whole lists that are being sent.',
    labels: [],
    read: ({ wholeLists }) => one(wholeLists),
  },
]

const STORAGE_METRICS: readonly ServiceMetric[] = [
  {
    name: 'storage_up',
    type: 'gauge',
    help: 'Whether the database has answered just now, 1 or 0.',
    labels: [],
    read: ({ isStorageUp }) => one(Number(isStorageUp)),
  },
  {
    name: 'storage_commit_duration_seconds',
    type: 'histogram',
    help: 'Duration of a committed transaction, in seconds.',
    labels: [],
    bounds: COMMIT_SECONDS_BOUNDS,
    read: ({ storage }) => [{ labels: {}, ...storage.commits.seconds }],
  },
  {
    name: 'storage_commit_writes',
    type: 'histogram',
    help: 'Number of writes that shared one committed transaction.',
    labels: [],
    bounds: COMMIT_WRITES_BOUNDS,
    read: ({ storage }) => [{ labels: {}, ...storage.commits.writes }],
  },
  {
    name: 'storage_bytes',
    type: 'gauge',
    help: 'Size of the files of the database, in bytes. Only with SQLite in a file.',
    labels: ['file'],
    read: ({ storage: { fileBytes } }) => (fileBytes ? by('file', { ...fileBytes }) : []),
  },
  {
    name: 'storage_connections',
    type: 'gauge',
    help: 'Number of connections to the database. Only with PostgreSQL.',
    labels: ['state'],
    read: ({ storage: { connections } }) =>
      connections ? by('state', { active: connections.active, idle: connections.idle }) : [],
  },
  {
    name: 'storage_connections_waiting',
    type: 'gauge',
    help: 'Number of statements and transactions that wait for a connection. Only with PostgreSQL.',
    labels: [],
    read: ({ storage: { connections } }) => (connections ? one(connections.waiting) : []),
  },
]

const LIMIT_METRICS: readonly ServiceMetric[] = [
  {
    name: 'limit_decisions_total',
    type: 'counter',
    help: 'Number of requests that a rule has let pass, refused, or would have refused without its dry run.',
    labels: ['type', 'rule', 'outcome'],
    read: ({ limits }) =>
      (limits?.rules ?? []).flatMap(({ type, rule, passed, refused, wouldRefuse }) => [
        { labels: { type, rule, outcome: 'passed' }, value: passed },
        { labels: { type, rule, outcome: 'refused' }, value: refused },
        { labels: { type, rule, outcome: 'would_refuse' }, value: wouldRefuse },
      ]),
  },
  {
    name: 'limit_requests_counted_total',
    type: 'counter',
    help: 'Number of requests that a rule has matched and, if it counts, counted.',
    labels: ['type', 'rule'],
    read: ({ limits }) =>
      (limits?.rules ?? []).map(({ type, rule, counted }) => ({
        labels: { type, rule },
        value: counted,
      })),
  },
  {
    name: 'limit_bans',
    type: 'gauge',
    help: 'Number of bans in force.',
    labels: [],
    read: ({ limits }) => one(limits?.bans ?? 0),
  },
  {
    name: 'limit_store_up',
    type: 'gauge',
    help: 'Whether the store that counts for the limits can be reached, 1 or 0. It is 1 without limits.',
    labels: [],
    read: ({ limits }) => one(Number(limits?.isStoreUp ?? true)),
  },
]

const PROCESS_METRICS: readonly ServiceMetric[] = [
  {
    name: 'user_records_build_info',
    type: 'gauge',
    help: 'Always 1. The labels have the versions of the service and of Node.',
    labels: ['version', 'node'],
    read: () => [{ labels: { version: readVersion(), node: process.version }, value: 1 }],
  },
]

/** The metrics of the service, besides those of prom-client about the process and Node. */
export const SERVICE_METRICS: readonly ServiceMetric[] = [
  ...REQUEST_METRICS,
  ...STORAGE_METRICS,
  ...LIMIT_METRICS,
  ...PROCESS_METRICS,
]

function one(value: number): readonly NumberSample[] {
  return [{ labels: {}, value }]
}

/** A sample for each member. Its name is the value of `label`. */
function by(label: string, values: Readonly<Record<string, number>>): readonly NumberSample[] {
  return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }))
}
