import { readVersion } from '../../platform/package.ts'
import type { ServiceReport } from './service-report.ts'

type Labels = Readonly<Record<string, string>>

interface Sample {
  readonly labels: Labels
  readonly value: number
}

/** A metric that is read when it is asked for. */
interface Metric {
  /** That of a counter ends with `_total`; all others are gauges. */
  readonly name: string
  /** One sentence, with the unit. */
  readonly help: string
  readonly labelNames?: readonly string[]
  /** None where the metric does not apply. */
  readonly read: (report: ServiceReport) => readonly Sample[]
}

/** What the service is at the moment. What it counts itself, and what it measures of the process, is in `createMetrics`. */
export const SERVICE_METRICS: readonly Metric[] = [
  {
    name: 'http_requests_in_flight',
    help: 'Number of requests that have begun and have not ended.',
    read: ({ requests }) => one(requests.inFlight),
  },
  {
    name: 'http_connections',
    help: 'Number of open connections of clients.',
    read: ({ server }) => one(server.connections),
  },
  {
    name: 'http_requests_shed_total',
    help: 'Number of requests refused because they waited too long or too many waited.',
    read: ({ server }) => one(server.shedRequests),
  },
  {
    name: 'queue_length',
    help: 'Number of requests that wait for their turn, writes that wait for the database, and passwords that wait for a thread.',
    labelNames: ['queue'],
    read: ({ queues }) => by('queue', queues),
  },
  {
    name: 'storage_up',
    help: 'Whether the database has answered just now, 1 or 0.',
    read: ({ readiness }) => one(Number(readiness.checks.storage.status === 'ok')),
  },
  {
    name: 'storage_bytes',
    help: 'Size of the files of the database, in bytes. Only with SQLite in a file.',
    labelNames: ['file'],
    read: ({ storage }) => by('file', { ...storage.fileBytes }),
  },
  {
    name: 'storage_connections',
    help: 'Number of connections to the database. Only with PostgreSQL.',
    labelNames: ['state'],
    read: ({ storage: { connections } }) =>
      connections ? by('state', { active: connections.active, idle: connections.idle }) : [],
  },
  {
    name: 'storage_connections_waiting',
    help: 'Number of statements and transactions that wait for a connection. Only with PostgreSQL.',
    read: ({ storage: { connections } }) => (connections ? one(connections.waiting) : []),
  },
  {
    name: 'whole_lists',
    help: 'Number of whole lists that are being sent.',
    read: ({ wholeLists }) => one(wholeLists),
  },
  {
    name: 'change_feed_requests',
    help: 'Number of requests that wait for a change of a user, and of streams of changes.',
    labelNames: ['state'],
    read: ({ feed: { waiting, streaming } }) => by('state', { waiting, streaming }),
  },
  {
    name: 'change_feed_deletions',
    help: 'Number of deleted users that the feed of changes still has, counted once a minute.',
    read: ({ feed }) => one(feed.deletions),
  },
  {
    name: 'webhook_deliveries_total',
    help: 'Number of requests to a webhook that were answered with 2xx, or not.',
    labelNames: ['webhook', 'outcome'],
    read: ({ webhooks }) =>
      webhooks.flatMap(({ webhook, delivered, failed }) =>
        by('outcome', { delivered, failed }, { webhook }),
      ),
  },
  {
    name: 'webhook_behind_seconds',
    help: 'Age of the oldest change that waits for a webhook, in seconds.',
    labelNames: ['webhook'],
    read: ({ webhooks }) =>
      webhooks.map(({ webhook, behindSeconds: value }) => ({ labels: { webhook }, value })),
  },
  {
    name: 'limit_decisions_total',
    help: 'Number of requests that a rule has let pass, refused, or would have refused without its dry run.',
    labelNames: ['type', 'rule', 'outcome'],
    read: report =>
      rulesIn(report).flatMap(({ labels, passed, refused, wouldRefuse }) =>
        by('outcome', { passed, refused, would_refuse: wouldRefuse }, labels),
      ),
  },
  {
    name: 'limit_requests_counted_total',
    help: 'Number of requests that a rule has matched and, if it counts, counted.',
    labelNames: ['type', 'rule'],
    read: report => rulesIn(report).map(({ labels, counted }) => ({ labels, value: counted })),
  },
  {
    name: 'limit_bans',
    help: 'Number of bans in force.',
    read: ({ limits }) => one(limits?.bans ?? 0),
  },
  {
    name: 'limit_store_up',
    help: 'Whether the store that counts for the limits can be reached, 1 or 0. It is 1 without limits.',
    read: ({ limits }) => one(Number(limits?.isStoreUp ?? true)),
  },
  {
    name: 'user_records_build_info',
    help: 'Always 1. The labels have the versions of the service and of Node.',
    labelNames: ['version', 'node'],
    read: () => one(1, { version: readVersion(), node: process.version }),
  },
]

function one(value: number, labels: Labels = {}): readonly Sample[] {
  return [{ labels, value }]
}

/** A sample for each member. Its name is the value of `label`. */
function by(
  label: string,
  values: Readonly<Record<string, number>>,
  others: Labels = {},
): readonly Sample[] {
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
