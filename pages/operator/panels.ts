import type { RouteStatus, ServiceStatus } from '../../src/ops/management/service-status.ts'
import { byId, element, setText, showFacts } from './dom.ts'
import {
  formatBytes,
  formatCount,
  formatMs,
  formatRate,
  formatShare,
  formatSpan,
  GAP,
  NONE,
} from './format.ts'
import type { View } from './state.ts'
import { createTable, toneOf } from './table.ts'

const MAX_ROUTES = 12
const MAX_KEYS = 10

/** The most frequent routes since the start. */
export function createRoutes() {
  const countOf = ({ by_status }: RouteStatus, digit: string) =>
    Object.entries(by_status)
      .filter(([status]) => status.startsWith(digit))
      .reduce((sum, [, count]) => sum + count, 0)
  const table = createTable<RouteStatus>(byId('routes'), {
    caption: 'Routes',
    keyOf: ({ method, route }) => `${method} ${route}`,
    empty: 'No requests yet.',
    columns: [
      {
        label: 'Route',
        kind: 'name',
        fill: (cell, { method, route }) => {
          cell.append(
            element('span', { class: 'method' }, method.replace('_OTHER', 'other')),
            ` ${route === '' ? 'no route' : route}`,
          )
        },
      },
      { label: 'Requests', kind: 'number', text: ({ count }) => formatCount(count) },
      { label: 'p50', kind: 'number', text: ({ p50_ms }) => formatMs(p50_ms) },
      { label: 'p99', kind: 'number', text: ({ p99_ms }) => formatMs(p99_ms) },
      {
        label: '4xx',
        kind: 'number',
        text: route => formatCount(countOf(route, '4')),
        tone: route => toneOf(countOf(route, '4'), 'warn'),
      },
      {
        label: '5xx',
        kind: 'number',
        text: route => formatCount(countOf(route, '5')),
        tone: route => toneOf(countOf(route, '5'), 'bad'),
      },
    ],
  })
  return {
    update: ({ status }: View) => {
      const routes = status.requests.by_route
      table.update(routes.slice(0, MAX_ROUTES))
      const more = routes.length > MAX_ROUTES ? `, ${MAX_ROUTES} of ${routes.length}` : ''
      setText(byId('routes-span'), `since the start${more}`)
    },
  }
}

/** What the process uses of the machine. */
export function createProcess() {
  return {
    update: ({ status, now, perSecond }: View) => {
      const { pid, memory_bytes, event_loop_lag_ms } = status.process
      showFacts(byId('process'), [
        ['PID', `${pid}`],
        ['Up for', formatSpan(now - Date.parse(status.started_at))],
        ['CPU', formatShare(perSecond(({ process }) => process.cpu_seconds))],
        ['Memory', formatBytes(memory_bytes)],
        ['Event loop delay', formatMs(event_loop_lag_ms)],
      ])
    },
  }
}

const ENGINES = { sqlite: 'SQLite', postgres: 'PostgreSQL' } as const

/** Engine, size or pool, and commits. */
export function createDatabase() {
  return {
    update: ({ status, perSecond }: View) => {
      const { storage } = status
      setText(byId('database-engine'), `${ENGINES[storage.engine]}${storage.up ? '' : ', down'}`)
      showFacts(byId('database'), factsOf(storage, perSecond))
    },
  }
}

function factsOf(
  storage: ServiceStatus['storage'],
  perSecond: View['perSecond'],
): readonly (readonly [string, string])[] {
  const { files, connections, commits } = storage
  const commitRate = perSecond(status => status.storage.commits.count)
  const writeRate = perSecond(status => status.storage.commits.writes)
  const perCommit = commitRate && writeRate !== undefined ? writeRate / commitRate : undefined
  return [
    ['Answers', storage.up ? 'yes' : 'no'],
    ...(files === undefined
      ? []
      : ([
          ['Database file', formatBytes(files.database_bytes)],
          ['Write-ahead log', formatBytes(files.wal_bytes)],
        ] as const)),
    ...(connections === undefined
      ? []
      : ([
          ['Connections in use', formatCount(connections.active)],
          ['Connections idle', formatCount(connections.idle)],
          ['Waiting for one', formatCount(connections.waiting)],
        ] as const)),
    ['Commits', commitRate === undefined ? NONE : `${formatRate(commitRate)}${GAP}/s`],
    ['Writes a commit', formatRate(perCommit)],
    ['Mean commit', formatMs(commits.mean_ms)],
    ['Commits in all', formatCount(commits.count)],
    ['Writes in all', formatCount(commits.writes)],
  ]
}

/** The API keys with the most requests; hidden without any. */
export function createKeys() {
  let shown: View | undefined
  const table = createTable<readonly [string, number]>(byId('keys'), {
    caption: 'API keys',
    keyOf: ([name]) => name,
    empty: 'No requests with a key.',
    columns: [
      { label: 'Key', kind: 'name', text: ([name]) => (name === '_other' ? 'all others' : name) },
      {
        label: 'Per second',
        kind: 'number',
        text: ([name]) => formatRate(shown?.perSecond(({ requests }) => requests.by_key[name])),
      },
      { label: 'Since start', kind: 'number', text: ([, count]) => formatCount(count) },
    ],
  })
  return {
    update: (view: View) => {
      shown = view
      const keys = Object.entries(view.status.requests.by_key)
      byId('keys-panel').hidden = keys.length === 0
      table.update(keys.toSorted(([, one], [, other]) => other - one).slice(0, MAX_KEYS))
    },
  }
}
