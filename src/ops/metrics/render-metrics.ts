import {
  collectDefaultMetrics,
  openMetricsContentType,
  prometheusContentType,
  Registry,
  type RegistryContentType,
} from 'prom-client'
import { parseAccept, qualityOf } from '../../http/negotiation.ts'
import type { Exemplar } from '../../http/request-metrics.ts'
import { type HistogramMetric, type Labels, SERVICE_METRICS } from './service-metrics.ts'
import type { ServiceReport } from './service-report.ts'

/** Media types of the two formats. */
export const PROMETHEUS_TYPE = 'text/plain'
export const OPEN_METRICS_TYPE = 'application/openmetrics-text'

export interface RenderedMetrics {
  readonly body: string
  /** The Content-Type. */
  readonly type: string
}

/**
 * Returns the metrics of a service and its process in the text format of Prometheus, or in that of OpenMetrics, with exemplars,
 * for an Accept header that prefers it.
 */
export type RenderMetrics = (
  report: ServiceReport,
  accept: string | undefined,
) => Promise<RenderedMetrics>

/** Gauges of prom-client whose names are those of counters. Each is the sum over the types of another metric. */
const MISNAMED = ['handles', 'requests', 'resources'].map(kind => `nodejs_active_${kind}_total`)

/** What the monitor of Node says of a time too short to measure: NaN, or as the least 2^63 nanoseconds. */
const UNMEASURED = /^(nodejs_eventloop_lag_\w+) (?:Nan|9223372036\S*)$/gm

/** Begins to measure the lag of the event loop and the garbage collection, which only the end of the process ends. */
export function createMetricsRenderer(): RenderMetrics {
  const defaults = new Registry()
  collectDefaultMetrics({ register: defaults })
  for (const name of MISNAMED) defaults.removeSingleMetric(name)

  return async (report, accept) => {
    const type = prefersOpenMetrics(accept) ? openMetricsContentType : prometheusContentType
    // For OpenMetrics, prom-client renames its counters for good. So each answer has a registry and objects of its own.
    const registry = new Registry<RegistryContentType>()
    registry.setContentType(type)
    for (const [name, metric] of Object.entries(SERVICE_METRICS)) {
      const { help, type } = metric
      const values =
        metric.type === 'histogram' ? bucketsOf(name, metric, report) : metric.read(report)
      const get = async () => ({ name: own.name, help, type, values })
      const own = { name, type, get }
      register(registry, own)
    }
    for (const metric of defaults.getMetricsAsArray()) register(registry, Object.create(metric))
    return { body: (await registry.metrics()).replaceAll(UNMEASURED, '$1 0'), type }
  }
}

function prefersOpenMetrics(accept: string | undefined): boolean {
  const preferences = parseAccept(accept)
  return qualityOf(preferences, OPEN_METRICS_TYPE) > qualityOf(preferences, PROMETHEUS_TYPE)
}

/** prom-client takes every object with `get`. */
function register(registry: Registry<RegistryContentType>, metric: object): void {
  registry.registerMetric(metric as never)
}

/** A sample of a histogram as prom-client writes it. */
interface BucketSample {
  /** The name of the metric with an end. */
  readonly metricName: string
  readonly labels: Labels
  /** Further labels, which prom-client formats once for all samples that have the same object. */
  readonly sharedLabels: Labels
  readonly value: number
  readonly exemplar?: object | undefined
}

function bucketsOf(
  name: string,
  { bounds, read }: HistogramMetric,
  report: ServiceReport,
): readonly BucketSample[] {
  return read(report).flatMap(({ labels: sharedLabels, ranges: { counts, sum }, exemplars }) => {
    let value = 0
    const buckets = counts.map((count, index) => {
      value += count
      const labels = { le: bounds[index] ?? '+Inf' }
      const exemplar = toPromExemplar(exemplars?.get(index))
      return { metricName: `${name}_bucket`, labels, sharedLabels, value, exemplar }
    })
    const ofAll = { labels: {}, sharedLabels }
    return [
      ...buckets,
      { metricName: `${name}_sum`, ...ofAll, value: sum },
      { metricName: `${name}_count`, ...ofAll, value },
    ]
  })
}

function toPromExemplar(exemplar: Exemplar | undefined): object | undefined {
  if (exemplar === undefined) return undefined
  const { traceId, seconds, at } = exemplar
  return { labelSet: { trace_id: traceId }, value: seconds, timestamp: at / 1000 }
}
