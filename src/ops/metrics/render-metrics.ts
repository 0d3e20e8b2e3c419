import {
  collectDefaultMetrics,
  openMetricsContentType,
  prometheusContentType,
  Registry,
  type RegistryContentType,
} from 'prom-client'
import { parseAccept, qualityOf } from '../../http/negotiation.ts'
import { SERVICE_METRICS } from './service-metrics.ts'
import type { ServiceReport } from './service-report.ts'

/** Media types of the two formats. */
export const PROMETHEUS_TYPE = 'text/plain'
export const OPEN_METRICS_TYPE = 'application/openmetrics-text'

/** Gauges of prom-client whose names are those of counters. Each is the sum over the types of another metric. */
const MISNAMED = ['handles', 'requests', 'resources'].map(kind => `nodejs_active_${kind}_total`)

/** What the monitor of Node says of a time too short to measure: NaN, or as the least 2^63 nanoseconds. */
const UNMEASURED = /^(nodejs_eventloop_lag_\w+) (?:Nan|9223372036\S*)$/gm

/**
 * Returns a function that writes the metrics of a service and its process in the text format of Prometheus, or in that of
 * OpenMetrics, with exemplars, for an Accept header that prefers it. `type` is the Content-Type.
 *
 * Begins to measure the lag of the event loop and the garbage collection, which only the end of the process ends.
 */
export function createMetricsRenderer() {
  const defaults = new Registry()
  collectDefaultMetrics({ register: defaults })
  for (const name of MISNAMED) defaults.removeSingleMetric(name)

  return async (report: ServiceReport, accept: string | undefined) => {
    const preferences = parseAccept(accept)
    const prefersOpenMetrics =
      qualityOf(preferences, OPEN_METRICS_TYPE) > qualityOf(preferences, PROMETHEUS_TYPE)
    const type = prefersOpenMetrics ? openMetricsContentType : prometheusContentType
    // For OpenMetrics, prom-client renames its counters for good. So each answer has a registry and objects of its own.
    const registry = new Registry<RegistryContentType>()
    registry.setContentType(type)
    const ofService = Object.entries(SERVICE_METRICS).map(([name, { read, ...facts }]) => {
      const metric = { name, ...facts, values: read(report, name), get: async () => metric }
      return metric
    })
    const ofNode = defaults.getMetricsAsArray().map(metric => Object.create(metric))
    // prom-client takes every object with `get`.
    for (const metric of [...ofService, ...ofNode]) registry.registerMetric(metric as never)
    return { body: (await registry.metrics()).replaceAll(UNMEASURED, '$1 0'), type }
  }
}
