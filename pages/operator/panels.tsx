import type { RouteStatus } from '../../src/ops/management/service-status.ts'
import type { ShownWebhook } from '../../src/webhooks/describe-webhooks.ts'
import {
  formatBytes,
  formatCount,
  formatMoment,
  formatMs,
  formatRate,
  formatShare,
  formatSpan,
} from './format.ts'
import { type Fact, Facts, Panel, type ViewProps } from './panel.tsx'
import { type Column, numbers, Table } from './table.tsx'

const MAX_ROUTES = 12

export const nameRoute = ({ method, route }: Pick<RouteStatus, 'method' | 'route'>) =>
  `${method.replace('_OTHER', 'other')} ${route === '' ? 'no route' : route}`

const ROUTE_COLUMNS: readonly Column<RouteStatus>[] = [
  { label: 'Route', kind: 'name', cell: nameRoute },
  numbers('Requests', ({ count }) => formatCount(count)),
  numbers('p50', ({ p50_ms }) => formatMs(p50_ms)),
  numbers('p99', ({ p99_ms }) => formatMs(p99_ms)),
  numbers('4xx', route => formatCount(countOf(route, '4'))),
  numbers('5xx', route => formatCount(countOf(route, '5'))),
]

/** The requests with a status that begins with this digit. */
function countOf({ by_status }: RouteStatus, digit: string): number {
  return Object.entries(by_status)
    .filter(([status]) => status.startsWith(digit))
    .reduce((sum, [, count]) => sum + count, 0)
}

/** The most frequent routes since the start. */
export function Routes({ view }: ViewProps) {
  return (
    <Panel name="routes" title="Routes" note="the most frequent since the start">
      <Table
        id="routes"
        columns={ROUTE_COLUMNS}
        rows={view.status.requests.by_route.slice(0, MAX_ROUTES)}
        keyOf={({ method, route }) => `${method} ${route}`}
        empty="No requests yet."
      />
    </Panel>
  )
}

/** What the process uses of the machine. */
export function Process({ view: { status, samples } }: ViewProps) {
  const { pid, memory_bytes, event_loop_lag_ms } = status.process
  const facts: readonly Fact[] = [
    ['PID', `${pid}`],
    ['Up for', formatSpan(Date.parse(status.now) - Date.parse(status.started_at))],
    ['CPU', formatShare(samples.at(-1)?.cpu)],
    ['Memory', formatBytes(memory_bytes)],
    ['Event loop delay', formatMs(event_loop_lag_ms)],
  ]
  return (
    <Panel name="process" title="Process">
      <Facts id="process" facts={facts} />
    </Panel>
  )
}

const ENGINES: Readonly<Record<string, string>> = { sqlite: 'SQLite', postgres: 'PostgreSQL' }

/** Engine, size or pool, and commits. */
export function Database({ view }: ViewProps) {
  const { engine, up, files, connections, commits } = view.status.storage
  const facts: Fact[] = [['Answers', up ? 'yes' : 'no']]
  if (files !== undefined) {
    facts.push(['Database file', formatBytes(files.database_bytes)])
    facts.push(['Write-ahead log', formatBytes(files.wal_bytes)])
  }
  if (connections !== undefined) {
    facts.push(['Connections in use', formatCount(connections.active)])
    facts.push(['Connections idle', formatCount(connections.idle)])
    facts.push(['Waiting for one', formatCount(connections.waiting)])
  }
  const writesPerCommit = commits.count === 0 ? undefined : commits.writes / commits.count
  facts.push(['Commits in all', formatCount(commits.count)])
  facts.push(['Writes a commit', formatRate(writesPerCommit)])
  facts.push(['Mean commit', formatMs(commits.mean_ms)])
  return (
    <Panel
      name="database"
      title="Database"
      note={`${ENGINES[engine] ?? engine}${up ? '' : ', down'}`}
    >
      <Facts id="database" facts={facts} />
    </Panel>
  )
}

const MAX_KEYS = 10

/** The API keys with the most requests since the start; nothing without any. */
export function Keys({ view }: ViewProps) {
  const keys = Object.entries(view.status.requests.by_key)
  if (keys.length === 0) return null
  return (
    <Panel name="keys" title="API keys" note="since the start">
      <Table
        id="keys"
        columns={[
          { label: 'Key', kind: 'name', cell: ([name]) => name.replace('_other', 'all others') },
          numbers<(typeof keys)[number]>('Requests', ([, count]) => formatCount(count)),
        ]}
        rows={keys.toSorted(([, one], [, other]) => other - one).slice(0, MAX_KEYS)}
        keyOf={([name]) => name}
        empty=""
      />
    </Panel>
  )
}

const WEBHOOK_COLUMNS: readonly Column<ShownWebhook>[] = [
  { label: 'Webhook', kind: 'name', cell: ({ name }) => name },
  { label: 'Address', kind: 'text', cell: ({ url }) => url },
  {
    label: 'State',
    kind: 'text',
    cell: ({ state }) => <span class={state === 'active' ? '' : 'bad'}>{state}</span>,
  },
  numbers('Behind', ({ behind_seconds }) => formatSpan(behind_seconds * 1000)),
  {
    label: 'Failing since',
    kind: 'text',
    cell: ({ failing_since: since }) => since !== null && formatMoment(since),
  },
  { label: 'Last error', kind: 'text', cell: ({ last_error }) => last_error },
]

/** The webhooks of the database; nothing without any. */
export function Webhooks({ view }: ViewProps) {
  const { webhooks } = view.status
  if (webhooks === null || webhooks.length === 0) return null
  return (
    <Panel name="webhooks" title="Webhooks">
      <Table
        id="webhooks"
        columns={WEBHOOK_COLUMNS}
        rows={webhooks}
        keyOf={({ name }) => name}
        empty=""
      />
    </Panel>
  )
}
