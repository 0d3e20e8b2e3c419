import type { RouteStatus, ServiceStatus } from '../../src/ops/management/service-status.ts'
import {
  formatBytes,
  formatCount,
  formatMs,
  formatPerSecond,
  formatRate,
  formatShare,
  formatSpan,
} from './format.ts'
import { type Fact, Facts, Panel } from './panel.tsx'
import type { View } from './state.ts'
import { type Column, numbers, Table, toneOf } from './table.tsx'

const MAX_ROUTES = 12
const MAX_KEYS = 10

interface ViewProps {
  readonly view: View | undefined
}

const ROUTE_COLUMNS: readonly Column<RouteStatus>[] = [
  {
    label: 'Route',
    kind: 'name',
    cell: ({ method, route }) => (
      <>
        <span class="method">{method.replace('_OTHER', 'other')}</span>
        {` ${route === '' ? 'no route' : route}`}
      </>
    ),
  },
  numbers('Requests', ({ count }) => formatCount(count)),
  numbers('p50', ({ p50_ms }) => formatMs(p50_ms)),
  numbers('p99', ({ p99_ms }) => formatMs(p99_ms)),
  countsOfClass('4xx', 'warn'),
  countsOfClass('5xx', 'bad'),
]

function countsOfClass(label: string, tone: 'warn' | 'bad'): Column<RouteStatus> {
  const cell = (route: RouteStatus) => formatCount(countOf(route, label))
  return numbers(label, cell, route => toneOf(countOf(route, label), tone))
}

/** The requests with a status of a class. */
function countOf({ by_status }: RouteStatus, [digit = '']: string): number {
  return Object.entries(by_status)
    .filter(([status]) => status.startsWith(digit))
    .reduce((sum, [, count]) => sum + count, 0)
}

/** The most frequent routes since the start. */
export function Routes({ view }: ViewProps) {
  const routes = view?.status.requests.by_route
  const count = routes?.length ?? 0
  const more = count > MAX_ROUTES ? `, ${MAX_ROUTES} of ${count}` : ''
  return (
    <Panel name="routes" title="Routes" note={`since the start${more}`}>
      <Table
        id="routes"
        caption="Routes"
        columns={ROUTE_COLUMNS}
        rows={routes?.slice(0, MAX_ROUTES)}
        keyOf={({ method, route }) => `${method} ${route}`}
        empty="No requests yet."
      />
    </Panel>
  )
}

/** What the process uses of the machine. */
export function Process({ view }: ViewProps) {
  return (
    <Panel name="process" title="Process" note="of this service">
      <Facts id="process" facts={view === undefined ? [] : factsOfProcess(view)} />
    </Panel>
  )
}

function factsOfProcess({ status, now, perSecond }: View): readonly Fact[] {
  const { pid, memory_bytes, event_loop_lag_ms } = status.process
  return [
    ['PID', `${pid}`],
    ['Up for', formatSpan(now - Date.parse(status.started_at))],
    ['CPU', formatShare(perSecond(({ process }) => process.cpu_seconds))],
    ['Memory', formatBytes(memory_bytes)],
    ['Event loop delay', formatMs(event_loop_lag_ms)],
  ]
}

const ENGINES = { sqlite: 'SQLite', postgres: 'PostgreSQL' } as const

/** Engine, size or pool, and commits. */
export function Database({ view }: ViewProps) {
  const storage = view?.status.storage
  const note = storage && `${ENGINES[storage.engine]}${storage.up ? '' : ', down'}`
  return (
    <Panel name="database" title="Database" note={note}>
      <Facts id="database" facts={view === undefined ? [] : factsOfDatabase(view)} />
    </Panel>
  )
}

function factsOfDatabase({ status: { storage }, perSecond }: View): readonly Fact[] {
  const { commits } = storage
  const commitRate = perSecond(status => status.storage.commits.count)
  const writeRate = perSecond(status => status.storage.commits.writes)
  const perCommit = commitRate && writeRate !== undefined ? writeRate / commitRate : undefined
  return [
    ['Answers', storage.up ? 'yes' : 'no'],
    ...factsOfEngine(storage),
    ['Commits', formatPerSecond(commitRate)],
    ['Writes a commit', formatRate(perCommit)],
    ['Mean commit', formatMs(commits.mean_ms)],
    ['Commits in all', formatCount(commits.count)],
    ['Writes in all', formatCount(commits.writes)],
  ]
}

function factsOfEngine({ files, connections }: ServiceStatus['storage']): readonly Fact[] {
  if (files !== undefined) {
    return [
      ['Database file', formatBytes(files.database_bytes)],
      ['Write-ahead log', formatBytes(files.wal_bytes)],
    ]
  }
  if (connections === undefined) return []
  return [
    ['Connections in use', formatCount(connections.active)],
    ['Connections idle', formatCount(connections.idle)],
    ['Waiting for one', formatCount(connections.waiting)],
  ]
}

/** The API keys with the most requests; nothing without any. */
export function Keys({ view }: ViewProps) {
  const keys = Object.entries(view?.status.requests.by_key ?? {})
  if (keys.length === 0) return null
  const columns: readonly Column<(typeof keys)[number]>[] = [
    { label: 'Key', kind: 'name', cell: ([name]) => (name === '_other' ? 'all others' : name) },
    numbers('Per second', ([name]) =>
      formatRate(view?.perSecond(({ requests }) => requests.by_key[name])),
    ),
    numbers('Since start', ([, count]) => formatCount(count)),
  ]
  return (
    <Panel name="keys" title="API keys" note="by name">
      <Table
        id="keys"
        caption="API keys"
        columns={columns}
        rows={keys.toSorted(([, one], [, other]) => other - one).slice(0, MAX_KEYS)}
        keyOf={([name]) => name}
        empty=""
      />
    </Panel>
  )
}
