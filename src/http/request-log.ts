import type { RequestHandler } from 'express'
import type { Logger } from 'pino'
import { logText } from './log-text.ts'

declare global {
  namespace Express {
    interface Request {
      /** What `X-Request-Id` says: the client's own where it sent a sane one. */
      id: string
      /** Such as `/users/{id}`, once a route is found. */
      routeTemplate?: string
      /** What others have to say in the line of this request. */
      logFields?: Readonly<Record<string, unknown>> | undefined
    }
  }
}

export interface RequestLogOptions {
  readonly log: Logger
  readonly newRequestId: () => string
}

/** Several headers of this name arrive joined by a comma, and so are no sane one. */
const SANE_REQUEST_ID = /^[\w.-]{1,128}$/

/**
 * Names each request and writes one line when it is over, answered or not. The line bears the template of the
 * route and not the path or query, in which there may be an address or a name.
 */
export function requestLog({ log, newRequestId }: RequestLogOptions): RequestHandler {
  return (request, response, next) => {
    request.id = clientRequestId(request.headers['x-request-id']) ?? newRequestId()
    const client = logText(request.ip)
    response.once('close', () => {
      const line = {
        requestId: request.id,
        method: request.method,
        route: request.routeTemplate,
        status: response.headersSent ? response.statusCode : undefined,
        aborted: response.writableFinished ? undefined : true,
        ms: Math.round((performance.now() - request.arrivedAt) * 1000) / 1000,
        client,
        userAgent: logText(request.headers['user-agent']),
      }
      log.info(request.logFields ? { ...line, ...request.logFields } : line, 'request')
    })
    next()
  }
}

function clientRequestId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && SANE_REQUEST_ID.test(header) ? header : undefined
}
