import type { Exemplar, RequestSeries } from '../../http/request-metrics.ts'
import type { RuleReport } from '../../limits/rule-report.ts'
import { groupBy } from '../../metrics/group-by.ts'
import { addCounts } from '../../metrics/histogram.ts'
import {
  COMMIT_SECONDS_BOUNDS,
  COMMIT_WRITES_BOUNDS,
  type CommitReport,
} from '../../storage/storage-report.ts'
import { countersOf, type ProcessMetric, sumMetrics } from './aggregate-metrics.ts'
import type { ProcessReport } from './process-report.ts'

/** What processes have counted since they started. None of it ever decreases, and it stays when a process ends. */
export interface Counted {
  readonly series: readonly RequestSeries[]
  /** Requests by the name of an API key. */
  readonly byKey: Readonly<Record<string, number>>
  readonly shedRequests: number
  readonly commits: CommitReport
  readonly rules: readonly RuleReport[]
  /** Of the metrics about the process and Node, those that count. */
  readonly counters: readonly ProcessMetric[]
}

const NO_COMMITS: CommitReport = {
  seconds: { counts: [...COMMIT_SECONDS_BOUNDS.map(() => 0), 0], sum: 0 },
  writes: { counts: [...COMMIT_WRITES_BOUNDS.map(() => 0), 0], sum: 0 },
}

export const NOTHING_COUNTED: Counted = {
  series: [],
  byKey: {},
  shedRequests: 0,
  commits: NO_COMMITS,
  rules: [],
  counters: [],
}

/** What one process has counted. */
export function countedBy(report: ProcessReport): Counted {
  return {
    series: report.requests.series,
    byKey: report.requests.byKey,
    shedRequests: report.server.shedRequests,
    commits: report.storage.commits ?? NO_COMMITS,
    rules: report.limits?.rules ?? [],
    counters: countersOf(report.process.defaults),
  }
}

/** What several processes have counted together. Series are sorted; rules keep the order in which they first appear. */
export function addCounted(all: readonly Counted[]): Counted {
  return {
    series: addSeries(all.flatMap(({ series }) => series)),
    byKey: addByKey(all.map(({ byKey }) => byKey)),
    shedRequests: all.reduce((sum, { shedRequests }) => sum + shedRequests, 0),
    commits: all.map(({ commits }) => commits).reduce(addCommits, NO_COMMITS),
    rules: addRules(all.flatMap(({ rules }) => rules)),
    counters: sumMetrics(all.flatMap(({ counters }) => counters)),
  }
}

/** What tells rules apart: their names are unique within a type. */
export function keyOfRule({ type, rule }: Pick<RuleReport, 'type' | 'rule'>): string {
  return `${type} ${rule}`
}

/** What tells series apart: their labels. */
export function keyOfSeries({
  method,
  route,
  status,
}: Pick<RequestSeries, 'method' | 'route' | 'status'>): string {
  return `${route} ${method} ${status}`
}

function addSeries(all: readonly RequestSeries[]): readonly RequestSeries[] {
  return [...groupBy(all, keyOfSeries)]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, group]) => group.reduce(addTwoSeries))
}

function addTwoSeries(one: RequestSeries, other: RequestSeries): RequestSeries {
  return {
    ...one,
    seconds: addCounts(one.seconds, other.seconds),
    ...newestExemplars(one.exemplars, other.exemplars),
  }
}

type Exemplars = RequestSeries['exemplars']

function newestExemplars(one: Exemplars, other: Exemplars): Pick<RequestSeries, 'exemplars'> {
  if (one === undefined && other === undefined) return {}
  const newest: Record<number, Exemplar> = { ...one }
  for (const [index, exemplar] of Object.entries(other ?? {})) {
    const known = newest[Number(index)]
    if (known === undefined || isNewer(exemplar, known)) newest[Number(index)] = exemplar
  }
  return { exemplars: newest }
}

/** Of the same millisecond, one of them is always the same. */
function isNewer(one: Exemplar, other: Exemplar): boolean {
  if (one.at !== other.at) return one.at > other.at
  if (one.traceId !== other.traceId) return one.traceId > other.traceId
  return one.seconds > other.seconds
}

function addByKey(all: readonly Counted['byKey'][]): Counted['byKey'] {
  const byName = groupBy(all.flatMap(Object.entries<number>), ([name]) => name)
  return Object.fromEntries(
    [...byName]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, counts]) => [name, counts.reduce((sum, [, count]) => sum + count, 0)]),
  )
}

function addCommits(one: CommitReport, other: CommitReport): CommitReport {
  return {
    seconds: addCounts(one.seconds, other.seconds),
    writes: addCounts(one.writes, other.writes),
  }
}

function addRules(all: readonly RuleReport[]): readonly RuleReport[] {
  return [...groupBy(all, keyOfRule).values()].map(group => group.reduce(addTwoRules))
}

function addTwoRules(one: RuleReport, other: RuleReport): RuleReport {
  return {
    ...one,
    counted: one.counted + other.counted,
    passed: one.passed + other.passed,
    refused: one.refused + other.refused,
    wouldRefuse: one.wouldRefuse + other.wouldRefuse,
  }
}
