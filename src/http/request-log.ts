import { randomUUID } from 'node:crypto'
import type { Request, RequestHandler } from 'express'
import type { Logger } from 'pino'
import type { ErrorCode } from '../errors.ts'
import { performance } from '../platform/timers.ts'
import { traceIdOf } from './headers.ts'

/** What the metrics read of the log line of a request. */
export interface EndedRequest {
  readonly requestId: string
  /** As it was sent. */
  readonly method: string
  /** The template of a route, such as `/users/{id}`; `undefined` for paths without one. */
  readonly route?: string | undefined
  /** `undefined` if no response was begun. */
  readonly status?: number | undefined
  /** Whether the client left before the end of the response. */
  readonly aborted?: boolean | undefined
  /** From its arrival to the end of the response. */
  readonly ms: number
  /** The name of its API key. */
  readonly key?: string | undefined
  readonly reason?: ErrorCode | undefined
}

/** Counts requests. */
export interface RequestMetrics {
  begin(): void
  /** Call once for each `begin`. */
  end(request: EndedRequest): void
  /** Counts a request that Node's parser refused. */
  addMalformed(status: number): void
}

export interface RequestLogOptions {
  readonly log: Logger
  /** The level of the line of a request; `info` if left out. */
  readonly levelOf?: (request: Request) => 'info' | 'debug'
  /** The paths of all routes, such as `/users/{id}`. The line has the one that the request asked for. */
  readonly routes: readonly string[]
  /** Counts each request that gets a line. Nothing is counted if left out. */
  readonly metrics?: RequestMetrics | undefined
}

/** Several headers of this name arrive joined by a comma, which does not match. */
const SANE_REQUEST_ID = /^[\w.-]{1,128}$/

/**
 * Gives each request its id, and writes one log line when it ends, answered or not. The line has the template of the route,
 * not the path or query, which may contain an address or a name, and of a user the id.
 */
export function requestLog({
  log,
  levelOf = () => 'info',
  routes,
  metrics,
}: RequestLogOptions): RequestHandler {
  const routeOf = createRouteFinder(routes)
  return (request, response, next) => {
    request.id = requestIdOf(request)
    const client = logText(request.ip)
    const traceId = traceIdOf(request)
    metrics?.begin()
    response.once('close', () => {
      const ms = performance.now() - request.arrival.at
      const common = {
        requestId: request.id,
        method: request.method,
        route: routeOf(request),
        status: response.headersSent ? response.statusCode : undefined,
        aborted: !response.writableFinished || undefined,
        ms: Math.round(ms * 1000) / 1000,
        client,
        key: request.apiKey?.name,
        userAgent: logText(request.headers['user-agent']),
        trace_id: traceId,
      }
      const line = Object.assign(common, request.line)
      metrics?.end(line)
      log[levelOf(request)](line, 'request')
    })
    next()
  }
}

/** The client's own id if it is sane, otherwise a new one. */
export function requestIdOf({ headers }: Pick<Request, 'headers'>): string {
  const sent = headers['x-request-id']
  return typeof sent === 'string' && SANE_REQUEST_ID.test(sent) ? sent : randomUUID()
}

/** Finds which of these routes a request asks for, before it has got as far as the router. */
export function createRouteFinder(
  routes: readonly string[],
): (request: Request) => string | undefined {
  const known = [...new Set(routes)].map(route => ({
    route,
    pattern: new RegExp(`^${route.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
  }))
  return request => {
    const path = pathOf(request)
    return known.find(({ pattern }) => pattern.test(path))?.route
  }
}

/** The path of a request; its whole target where that has none, such as `http://[/`. */
export function pathOf(request: Request): string {
  try {
    return request.path
  } catch {
    return request.url
  }
}

const MAX_CHARS = 256

/** JSON does not escape these control characters. Terminals obey them, and some log readers end a line at one. */
const C1_CONTROL = /[\x80-\x9f]/g

/** Text from a client in a form that is safe to log. */
export function logText<T extends string | undefined>(sent: T): T {
  return sent?.slice(0, MAX_CHARS).replace(C1_CONTROL, '?') as T
}
