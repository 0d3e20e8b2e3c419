import type { Router } from 'express'
import { accept, createRouter, type RouteParts } from '../../http/router.ts'
import {
  createMetricsRenderer,
  OPEN_METRICS_TYPE,
  PROMETHEUS_TYPE,
} from '../metrics/render-metrics.ts'
import type { Operations } from './operations.ts'

/** `GET /metrics`, for Prometheus. */
export function createMetricsRouter(
  { report }: Pick<Operations, 'report'>,
  { answer, otherMethods }: RouteParts,
): Router {
  const renderMetrics = createMetricsRenderer()
  const handle = answer(async ({ headers }) => ({
    status: 200,
    headers: { 'Cache-Control': 'no-store' },
    ...(await renderMetrics(await report(), headers.accept)),
  }))
  const router = createRouter()
  router.route('/metrics').get(accept(PROMETHEUS_TYPE, OPEN_METRICS_TYPE), handle).all(otherMethods)
  return router
}
