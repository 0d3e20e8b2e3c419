import { createHash, timingSafeEqual } from 'node:crypto'
import type { Application, Request, RequestHandler, Router } from 'express'
import type { Logger } from 'pino'
import type { Config } from '../../config/settings.ts'
import { INVALID_TOKEN, ServiceError } from '../../errors.ts'
import {
  denyLateAndShed,
  requireAllowedHost,
  requireDecodablePath,
  requireValidHead,
} from '../../http/gate.ts'
import { bearerToken } from '../../http/headers.ts'
import { HTML_TYPE } from '../../http/negotiation.ts'
import { assetReply, contentSecurityPolicy, pageReply } from '../../http/pages/page-files.ts'
import { createRouteFinder, requestLog } from '../../http/request-log.ts'
import {
  accept,
  answerNotFound,
  answerServerOptions,
  createExpressApp,
  createRouteParts,
  createRouter,
  pathsOf,
  type RouteParts,
} from '../../http/router.ts'
import { createHostLog } from '../../http/throttled-log.ts'
import { createHttpServer, type HttpServer } from '../../server/server.ts'
import { createStopping } from '../../server/stop.ts'
import { createUserRouter } from '../../users/user-router.ts'
import { createHealthRouter } from '../health.ts'
import {
  createOperationsRouter,
  type Operations,
  type OperationsRouterOptions,
} from './operations-router.ts'
import { createStatusHistory } from './status-history.ts'

export interface ManagementOptions {
  readonly config: Config
  readonly maxConnections: number
  readonly log: Logger
  readonly operations: Operations
}

/** High enough that a busy public port turns no operator away. */
const CAPACITY = { maxEventLoopDelayMs: 60_000, maxWaitingRequests: 1000 }

/**
 * The server of the management port, which does not listen yet. It has its own admission, so it stays reachable during a
 * flood of the public port.
 */
export function createManagementServer(options: ManagementOptions): HttpServer {
  const { config, operations, maxConnections } = options
  const log = options.log.child({ port: 'management' })
  const history = createStatusHistory(operations.count, operations.clocks)
  const stopping = createStopping()
  stopping.begin.then(history.close)
  const app = createManagementApp({ config, operations, log, history })
  return createHttpServer({
    ...{ app, stopping, log, capacity: { ...CAPACITY, maxConnections } },
    keepAliveTimeoutMs: config.keepAliveTimeoutMs,
    onLateRequest: operations.readAnew,
  })
}

type AppOptions = OperationsRouterOptions & Pick<ManagementOptions, 'config' | 'log'>

/** The middleware stands in the order in which a request meets it. */
function createManagementApp(options: AppOptions): Application {
  const { operations, log, config } = options
  const { allowedHosts, managementToken: token, bodyLimitBytes } = config
  // A proxy that is trusted forwards requests to the public port. Without a token this one is for programs of this machine: a page
  // that reaches it by another name could claim one that is allowed in X-Forwarded-Host.
  const trustProxy = token === undefined ? false : config.trustProxy
  const { parts, handleError } = createRouteParts({ log, bodyLimitBytes })
  const { checks } = operations
  const guards = [requireOwnOrigin]
  const health = createHealthRouter({ checks, canBeVerbose: true, guards }, parts)
  const page = createOperatorPage(parts)
  const router = createOperationsRouter(options, parts)
  const needsToken = token === undefined && config.apiKeys === 'required'
  const users = createUserRouter(
    { ...operations.users, canVerify: false },
    { ...parts, admit: () => (needsToken ? [denyWithoutToken] : []) },
  )
  const routes = [health, page, router, users].flatMap(pathsOf)
  const findPage = createRouteFinder(pathsOf(page))
  const onHostRefused = createHostLog({ log, ...operations.clocks })

  return createExpressApp(trustProxy).use(
    requestLog({ log, levelOf, routes }),
    requireValidHead,
    health,
    requireAllowedHost({ allowedHosts, trustProxy, onHostRefused }),
    requireOwnOrigin,
    // The files of the page hold no data.
    requireToken(token, request => findPage(request) !== undefined),
    requireDecodablePath,
    page,
    denyLateAndShed,
    router,
    users,
    answerServerOptions(parts),
    answerNotFound,
    handleError,
  )
}

const SOURCES = "script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"

/** Only files and requests of this port, and no text that becomes markup or script. */
const POLICY = `${contentSecurityPolicy(SOURCES)}; require-trusted-types-for 'script'; trusted-types 'none'`

/** `GET /`, the page for operators, and the files that it loads. They hold no data; the page asks `GET /status` for it. */
function createOperatorPage({ answer, otherMethods }: RouteParts): Router {
  const page = () => pageReply('operator/index.html', POLICY)
  const asset = (request: Request) => assetReply('operator', request)
  const router = createRouter()
  router.route('/').get(accept(HTML_TYPE), answer(page)).all(otherMethods)
  router.route('/assets/:release/:file').get(answer(asset)).all(otherMethods)
  return router
}

/** Who is not let in. */
const REFUSALS: readonly unknown[] = ['token_required', 'origin_not_allowed', 'host_not_allowed']

/** Reading is not worth a line, because monitoring does it every second, unless it is about users or refused. */
function levelOf({ method, url, line }: Request): 'info' | 'debug' {
  const isNoted = ['POST', 'DELETE'].includes(method) || url.startsWith('/users')
  return isNoted || REFUSALS.includes(line?.reason) ? 'info' : 'debug'
}

/**
 * Throws `origin_not_allowed` for a request that a page of another origin sends, also for one that only reads. The own origin
 * is the host that the request asks for: whether the page came by TLS is known only to a proxy.
 */
const requireOwnOrigin: RequestHandler = (request, _response, next) => {
  const { origin } = request.headers
  const isOwn = origin === undefined || isOriginOf(request.host, origin)
  next(isOwn ? undefined : new ServiceError('origin_not_allowed'))
}

function isOriginOf(host: string | undefined, origin: string): boolean {
  const page = parseUrl(origin)
  // Browsers send nothing but an origin. `null` is one that they keep to themselves.
  if (page === undefined || page.origin !== origin || !page.protocol.startsWith('http'))
    return false
  return parseUrl(`${page.protocol}//${host}`)?.host === page.host
}

function parseUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined
}

/**
 * Throws `token_required` for a request without the token, or with another one, unless it `isOpen`. If `token` is `undefined`,
 * everyone is let in while the server listens on loopback only, and nobody otherwise.
 */
function requireToken(
  token: string | undefined,
  isOpen: (request: Request) => boolean,
): RequestHandler {
  const expected = token === undefined ? undefined : digestOf(token)

  function isKnown({ arrival }: Request, presented: string | undefined): boolean {
    if (expected === undefined) return arrival.isOnLoopback === true
    // Digests have one length, and comparing them takes the same time wherever they differ.
    return timingSafeEqual(digestOf(presented ?? ''), expected)
  }

  return (request, _response, next) => {
    const presented = bearerToken(request)
    if (isKnown(request, presented) || isOpen(request)) next()
    else {
      const isSent = presented !== undefined
      next(new ServiceError('token_required', isSent ? { headers: INVALID_TOKEN } : {}))
    }
  }
}

const denyWithoutToken: RequestHandler = () => {
  throw new ServiceError('token_unset')
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
