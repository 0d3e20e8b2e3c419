import { expect, test } from 'vitest'
import { type StatusContext, statusOf } from '../../../src/ops/management/status-of.ts'
import { reportOfRules, seriesOf, serviceReport } from '../../support/service-reports.ts'

const NOW = Date.UTC(2026, 0, 31, 12)

const CONTEXT: StatusContext = {
  version: '1.2.3',
  now: NOW,
  isReady: true,
  checks: { storage: { status: 'ok' } },
  history: { every_seconds: 2, samples: [] },
}

test('a service that has done nothing has zeros, and null for what has no value', () => {
  const status = statusOf(serviceReport(), CONTEXT)
  expect(status).toEqual({
    version: '1.2.3',
    started_at: '1970-01-01T00:00:00.000Z',
    now: '2026-01-31T12:00:00.000Z',
    ready: true,
    checks: { storage: { status: 'ok' } },
    requests: {
      total: 0,
      in_flight: 0,
      shed: 0,
      by_status: { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 },
      by_route: [],
      by_key: {},
    },
    connections: 0,
    queues: { requests: 0, writes: 0, passwords: 0 },
    storage: { engine: 'sqlite', up: true, commits: { count: 0, writes: 0, mean_ms: null } },
    process: { pid: 4711, cpu_seconds: 0, memory_bytes: 0, event_loop_lag_ms: 0 },
    limits: { store: 'none', up: true, rules: [] },
    bans: 0,
    history: { every_seconds: 2, samples: [] },
  })
})

test('routes have all their statuses, and clients that left; the most frequent first', () => {
  const series = [
    seriesOf({ route: '/users/{id}' }, [0.001]),
    seriesOf({ status: 200 }, [0.002, 0.002]),
    seriesOf({ status: 404 }, [0.004]),
    seriesOf({ status: 0 }, [0.008]),
    seriesOf({ method: 'POST' }, [1, 1]),
  ]
  const report = serviceReport({ requests: { series, inFlight: 1, byKey: { billing: 7 } } })
  const { requests } = statusOf(report, CONTEXT)
  expect(requests).toMatchObject({ total: 7, in_flight: 1, by_key: { billing: 7 } })
  expect(requests.by_route.map(({ method, route, count }) => [method, route, count])).toEqual([
    ['GET', '/users', 4],
    ['POST', '/users', 2],
    ['GET', '/users/{id}', 1],
  ])
  expect(requests.by_route[0]).toMatchObject({
    mean_ms: 4,
    by_status: { 200: 2, 404: 1, aborted: 1 },
  })
})

test('a database server has connections, an embedded one has files, and both have commits', () => {
  const commits = {
    seconds: { counts: [3, 1], sum: 0.01 },
    writes: { counts: [4], sum: 20 },
  }
  const storage = { waitingWrites: 2, commits }
  const connections = { active: 3, idle: 4, waiting: 5 }
  const postgres = serviceReport({ storage: { ...storage, engine: 'postgres', connections } })
  expect(statusOf(postgres, CONTEXT).storage).toEqual({
    engine: 'postgres',
    up: true,
    connections,
    commits: { count: 4, writes: 20, mean_ms: 2.5 },
  })
  const fileBytes = { database: 4096, wal: 8192 }
  const sqlite = serviceReport({
    storage: { ...storage, engine: 'sqlite', fileBytes },
    isStorageUp: false,
  })
  expect(statusOf(sqlite, CONTEXT).storage).toMatchObject({
    up: false,
    files: { database_bytes: 4096, wal_bytes: 8192 },
  })
})

test('rules are as in GET /limits', () => {
  const report = reportOfRules([
    { rule: 'a', isDryRun: true, counted: 4, passed: 1, refused: 2, wouldRefuse: 3 },
  ])
  const rule = { type: 'throttle', rule: 'a', dryRun: true, counted: 4, passed: 1, refused: 2 }
  expect(statusOf(report, CONTEXT).limits).toEqual({
    store: 'memory',
    up: true,
    rules: [{ ...rule, would_refuse: 3 }],
  })
})
