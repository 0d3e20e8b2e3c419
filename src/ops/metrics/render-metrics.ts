import {
  openMetricsContentType,
  prometheusContentType,
  Registry,
  type RegistryContentType,
} from 'prom-client'
import { parseAccept, qualityOf } from '../../http/negotiation.ts'
import type { Exemplar } from '../../http/request-metrics.ts'
import { keepLabels, type Labels } from './keep-labels.ts'
import { type HistogramMetric, SERVICE_METRICS, type ServiceMetric } from './service-metrics.ts'
import type { ProcessMetric, ServiceReport } from './service-report.ts'

/** Media types of the two formats. */
export const PROMETHEUS_TYPE = 'text/plain'
export const OPEN_METRICS_TYPE = 'application/openmetrics-text'

export interface RenderedMetrics {
  readonly body: string
  /** The Content-Type. */
  readonly type: string
}

/** A value as prom-client writes it. */
interface PromValue {
  /** The name of the metric if left out. */
  readonly metricName?: string
  readonly labels: Labels
  /** Further labels, which prom-client formats once for all values that have the same object. */
  readonly sharedLabels: Labels
  readonly value: number
  readonly exemplar?: PromExemplar | undefined
}

interface PromExemplar {
  readonly labelSet: Labels
  readonly value: number
  /** Seconds since the epoch. */
  readonly timestamp: number
}

interface PromMetric {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly values: readonly PromValue[]
}

/**
 * The metrics of a service in the text format of Prometheus, or in that of OpenMetrics, with exemplars, for an Accept header
 * that prefers it.
 */
export async function renderMetrics(
  report: ServiceReport,
  accept: string | undefined,
): Promise<RenderedMetrics> {
  const type = prefersOpenMetrics(accept) ? openMetricsContentType : prometheusContentType
  const registry = new Registry<RegistryContentType>()
  registry.setContentType(type)
  for (const metric of SERVICE_METRICS) register(registry, toPromMetric(metric, report))
  for (const metric of report.process.defaults) register(registry, withSharedLabels(metric))
  return { body: await registry.metrics(), type }
}

function prefersOpenMetrics(accept: string | undefined): boolean {
  const preferences = parseAccept(accept)
  return qualityOf(preferences, OPEN_METRICS_TYPE) > qualityOf(preferences, PROMETHEUS_TYPE)
}

/** prom-client takes every object with `get`. It changes the name of the object, so that each registry needs its own. */
function register(registry: Registry<RegistryContentType>, metric: PromMetric): void {
  const registered = { ...metric, get: () => Promise.resolve(registered) }
  registry.registerMetric(registered as never)
}

function toPromMetric(metric: ServiceMetric, report: ServiceReport): PromMetric {
  const { name, help, type } = metric
  const keep = keepLabels(name)
  const values: readonly PromValue[] =
    metric.type === 'histogram'
      ? histogramValues(metric, report)
      : metric.read(report).map(({ labels, value }, index) => ({
          labels: NO_LABELS,
          sharedLabels: keep(labels, index),
          value,
        }))
  return { name, help, type, values }
}

function withSharedLabels(metric: ProcessMetric): PromMetric {
  const keep = keepLabels(metric.name)
  const values = metric.values.map(({ labels, ...rest }, index) => ({
    ...rest,
    labels: NO_LABELS,
    sharedLabels: keep(labels, index),
  }))
  return { ...metric, values }
}

const NO_LABELS: Labels = {}

function histogramValues(
  { name, bounds, read }: HistogramMetric,
  report: ServiceReport,
): readonly PromValue[] {
  const metricName = `${name}_bucket`
  const ranges = [...bounds.map(String), '+Inf'].map(le => ({ le }))
  const keep = keepLabels(name)
  return read(report).flatMap(({ labels, counts, sum, exemplars }, sample) => {
    const sharedLabels = keep(labels, sample)
    const ofAll = { labels: NO_LABELS, sharedLabels }
    let value = 0
    const buckets = ranges.map((range, index) => {
      value += counts[index] ?? 0
      const exemplar = toPromExemplar(exemplars?.[index])
      return { metricName, labels: range, sharedLabels, value, exemplar }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, ...ofAll, value: sum },
      { metricName: `${name}_count`, ...ofAll, value },
    ]
  })
}

function toPromExemplar(exemplar: Exemplar | undefined): PromExemplar | undefined {
  if (exemplar === undefined) return undefined
  const { traceId, seconds, at } = exemplar
  return { labelSet: { trace_id: traceId }, value: seconds, timestamp: at / 1000 }
}
