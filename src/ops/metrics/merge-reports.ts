import type { LimitsReport } from '../../limits/rule-report.ts'
import { totalOf } from '../../metrics/histogram.ts'
import type { StorageReport } from '../../storage/storage-report.ts'
import { aggregateMetrics, countersOf, gaugesOf } from './aggregate-metrics.ts'
import { addCounted, type Counted, countedBy, keyOfRule, NOTHING_COUNTED } from './counted.ts'
import type { ProcessReport, ProcessUse } from './process-report.ts'
import type { ServiceReport } from './service-report.ts'

/** The report of a process that serves. */
export interface NumberedReport {
  /** 1 for a process that serves alone. */
  readonly worker: number
  readonly report: ProcessReport
  /** When the report was made, to find the newest rules. 0 if left out. */
  readonly at?: number
}

/** What a service of several processes has besides those that serve. With an engine that has one writer, also its report. */
export interface FirstProcess extends Pick<StorageReport, 'engine' | 'commits' | 'fileBytes'> {
  readonly process: ProcessUse
  /** What processes have counted that have ended since. */
  readonly ended: Counted
}

/**
 * The reports of all processes of a service together; also of one alone, without `first`. The order of the reports does not
 * matter.
 *
 * - What is counted, what waits and what is in use is added up, also a limit's counts by type and name of the rule. Only the
 *   rules of the newest report are in force, and in its order.
 * - All processes know the same bans and the same files: the report that says most has noticed the last change.
 * - The database and the limits' store are up if each process reaches them: the clients of one that does not are turned away,
 *   or are limited by its own counts. Without a process that serves, the database counts as down.
 */
export function mergeReports(
  reports: readonly NumberedReport[],
  first?: FirstProcess,
): ServiceReport {
  const serving = [...reports].sort(byAge)
  const newest = serving.map(({ report }) => report)
  const counted = addCounted([
    ...newest.map(countedBy),
    ...(first === undefined ? [] : [countedByFirst(first), first.ended]),
  ])
  const limits = mergeLimits(newest, counted)
  return {
    requests: {
      series: counted.series,
      byKey: counted.byKey,
      inFlight: sum(newest, ({ requests }) => requests.inFlight),
    },
    server: {
      connections: sum(newest, ({ server }) => server.connections),
      waitingRequests: sum(newest, ({ server }) => server.waitingRequests),
      shedRequests: counted.shedRequests,
    },
    storage: { ...mergeStorage(newest, first), commits: counted.commits },
    isStorageUp: newest.length > 0 && newest.every(({ isStorageUp }) => isStorageUp),
    waitingPasswords: sum(newest, ({ waitingPasswords }) => waitingPasswords),
    ...(limits && { limits }),
    processes: [
      ...(first === undefined ? [] : [{ ...useOf(first.process), worker: 0, requests: 0 }]),
      ...reports.map(({ worker, report }) => ({
        ...useOf(report.process),
        worker,
        requests: sum(report.requests.series, ({ seconds }) => totalOf(seconds)),
      })),
    ].sort((one, other) => one.worker - other.worker),
    defaults: mergeDefaults(newest, { first, counted }),
  }
}

/** The newest first. */
function byAge(one: NumberedReport, other: NumberedReport): number {
  return (other.at ?? 0) - (one.at ?? 0) || one.worker - other.worker
}

function countedByFirst({ process, commits = NOTHING_COUNTED.commits }: FirstProcess): Counted {
  return { ...NOTHING_COUNTED, commits, counters: countersOf(process.defaults) }
}

function mergeLimits(
  newest: readonly ProcessReport[],
  { rules }: Counted,
): LimitsReport | undefined {
  const all = newest.flatMap(({ limits }) => limits ?? [])
  const [first] = all
  if (first === undefined) return undefined
  const byKey = new Map(rules.map(rule => [keyOfRule(rule), rule]))
  return {
    rules: first.rules.map(rule => ({
      ...(byKey.get(keyOfRule(rule)) ?? rule),
      isDryRun: rule.isDryRun,
    })),
    bans: largest(all.map(({ bans }) => bans)),
    store: first.store,
    isStoreUp: all.every(({ isStoreUp }) => isStoreUp),
  }
}

function mergeStorage(
  reports: readonly ProcessReport[],
  first: FirstProcess | undefined,
): Omit<StorageReport, 'commits'> {
  const all = reports.map(({ storage }) => storage)
  const files = [...all, ...(first === undefined ? [] : [first])].flatMap(
    ({ fileBytes }) => fileBytes ?? [],
  )
  const connections = all.flatMap(each => each.connections ?? [])
  return {
    engine: first?.engine ?? all[0]?.engine ?? 'sqlite',
    waitingWrites: sum(all, ({ waitingWrites }) => waitingWrites),
    ...(files.length > 0 && {
      fileBytes: {
        database: largest(files.map(({ database }) => database)),
        wal: largest(files.map(({ wal }) => wal)),
      },
    }),
    ...(connections.length > 0 && {
      connections: {
        active: sum(connections, ({ active }) => active),
        idle: sum(connections, ({ idle }) => idle),
        waiting: sum(connections, ({ waiting }) => waiting),
      },
    }),
  }
}

function mergeDefaults(
  reports: readonly ProcessReport[],
  { first, counted }: { readonly first: FirstProcess | undefined; readonly counted: Counted },
): ServiceReport['defaults'] {
  const processes = reports.map(({ process }) => process)
  if (first !== undefined) processes.unshift(first.process)
  const gauges = processes.flatMap(({ defaults }) => gaugesOf(defaults))
  return [...counted.counters, ...aggregateMetrics(gauges)]
}

function useOf({ defaults, ...use }: ProcessUse): Omit<ProcessUse, 'defaults'> {
  return use
}

function largest(values: readonly number[]): number {
  return Math.max(...values)
}

function sum<Item>(items: readonly Item[], amountOf: (item: Item) => number): number {
  return items.reduce((total, item) => total + amountOf(item), 0)
}
