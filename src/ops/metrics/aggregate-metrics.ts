import { addExactly } from '../../metrics/add-exactly.ts'
import { groupBy } from '../../metrics/group-by.ts'
import type { Labels } from './keep-labels.ts'

/** A metric about a process or Node, as `getMetricsAsJSON` of prom-client returns it. */
export interface ProcessMetric {
  readonly name: string
  readonly help: string
  readonly type: string
  /** How prom-client adds up the values of several processes. */
  readonly aggregator?: string | undefined
  readonly values: readonly ProcessMetricValue[]
}

interface ProcessMetricValue {
  readonly value: number
  readonly labels: Labels
  /** Of a histogram: `_bucket`, `_sum` or `_count` after the name of the metric. */
  readonly metricName?: string
}

/** One value out of those of several processes. */
type Combine = (values: readonly number[]) => number

const largest: Combine = values => Math.max(...values)
const smallest: Combine = values => Math.min(...values)

const COMBINE: Readonly<Record<string, Combine>> = {
  sum: addExactly,
  first: ([value = 0]) => value,
  // The start of the first process; prom-client would leave it out.
  omit: smallest,
  // The lag of the process that is worst off: an average would hide it.
  average: largest,
  min: smallest,
  max: largest,
}

/** The metrics that count, and so stay when their process ends. */
export function countersOf(metrics: readonly ProcessMetric[]): readonly ProcessMetric[] {
  return metrics.filter(isCounter)
}

/** The other metrics: how a process is now. */
export function gaugesOf(metrics: readonly ProcessMetric[]): readonly ProcessMetric[] {
  return metrics.filter(metric => !isCounter(metric))
}

function isCounter({ type }: ProcessMetric): boolean {
  return type === 'counter' || type === 'histogram'
}

/** Adds up the values of the metrics that have the same name. */
export function sumMetrics(metrics: readonly ProcessMetric[]): readonly ProcessMetric[] {
  return combineMetrics(metrics, () => addExactly)
}

/** Combines the values of the metrics that have the same name, as their `aggregator` says. */
export function aggregateMetrics(metrics: readonly ProcessMetric[]): readonly ProcessMetric[] {
  return combineMetrics(metrics, ({ aggregator = 'sum' }) => COMBINE[aggregator] ?? addExactly)
}

/** Those of a single process stay as they are. */
function combineMetrics(
  metrics: readonly ProcessMetric[],
  howTo: (metric: ProcessMetric) => Combine,
): readonly ProcessMetric[] {
  const groups = [...groupBy(metrics, ({ name }) => name).values()]
  if (groups.length === metrics.length) return metrics
  return groups.map(group => {
    const [first] = group
    const values = group.flatMap(metric => metric.values)
    return { ...first, values: combineValues(values, howTo(first)) }
  })
}

function combineValues(
  values: readonly ProcessMetricValue[],
  combine: Combine,
): readonly ProcessMetricValue[] {
  return [...groupBy(values, keyOfValue).values()].map(group => {
    const [first] = group
    return { ...first, value: combine(group.map(({ value }) => value)) }
  })
}

function keyOfValue({ metricName = '', labels }: ProcessMetricValue): string {
  return JSON.stringify([metricName, Object.entries(labels).sort()])
}
