import type { Request, RequestHandler } from 'express'
import type { Logger } from 'pino'
import { logText } from './log-text.ts'
import type { RequestMetrics } from './request-metrics.ts'
import { traceIdOf } from './trace-context.ts'

export interface RequestLogOptions {
  readonly log: Logger
  readonly newRequestId: () => string
  /** The level of the line of a request; `info` if left out. */
  readonly levelOf?: (request: Request) => 'info' | 'debug'
  /** The template of a path that did not get as far as its route. */
  readonly templateOf: (request: Request) => string | undefined
  /** Counts each request that gets a line. Nothing is counted if left out. */
  readonly metrics?: RequestMetrics | undefined
}

/** Several headers of this name arrive joined by a comma, which does not match. */
const SANE_REQUEST_ID = /^[\w.-]{1,128}$/

/**
 * Gives each request its id, and writes one log line when it ends, answered or not. The line has the template of the route,
 * not the path or query, which may contain an address or a name.
 */
export function requestLog({
  log,
  newRequestId,
  levelOf = () => 'info',
  templateOf,
  metrics,
}: RequestLogOptions): RequestHandler {
  return (request, response, next) => {
    request.id = clientRequestId(request.headers['x-request-id']) ?? newRequestId()
    const client = logText(request.ip)
    const traceId = traceIdOf(request)
    metrics?.begin()
    response.once('close', () => {
      const isAborted = !response.writableFinished
      const ms = performance.now() - request.arrivedAt
      const route = request.routeTemplate ?? templateOf(request)
      metrics?.end({
        method: request.method,
        route: route ?? '',
        status: isAborted ? 0 : response.statusCode,
        seconds: ms / 1000,
        key: request.apiKey?.name,
        traceId,
      })
      const line = {
        requestId: request.id,
        method: request.method,
        route,
        status: response.headersSent ? response.statusCode : undefined,
        aborted: isAborted || undefined,
        ms: Math.round(ms * 1000) / 1000,
        client,
        key: request.apiKey?.name,
        userAgent: logText(request.headers['user-agent']),
        trace_id: traceId,
      }
      const { logFields, errorReason } = request
      const fields = Object.assign(line, logFields, errorReason && { reason: errorReason })
      log[levelOf(request)](fields, 'request')
    })
    next()
  }
}

function clientRequestId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && SANE_REQUEST_ID.test(header) ? header : undefined
}
