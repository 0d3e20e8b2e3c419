import type { Endpoint } from '../../http/endpoints.ts'
import { OPEN_METRICS_TYPE, PROMETHEUS_TYPE, renderMetrics } from '../metrics/render-metrics.ts'
import type { Operations } from './operations.ts'

/** `GET /metrics`, for Prometheus. */
export function metricsEndpoint({ report }: Pick<Operations, 'report'>): Endpoint {
  return {
    method: 'get',
    path: '/metrics',
    produces: [PROMETHEUS_TYPE, OPEN_METRICS_TYPE],
    handle: async ({ headers }) => ({
      status: 200,
      headers: { 'Cache-Control': 'no-store' },
      ...(await renderMetrics(await report(), headers.accept)),
    }),
  }
}
