import cors from 'cors'
import type { Application, RequestHandler, Router } from 'express'
import type { Logger } from 'pino'
import { SCOPE_OF_ACTION } from './access/action-scopes.ts'
import { recogniseKeys, requireKey, requireScope } from './access/key-checks.ts'
import type { KeyRing } from './access/key-ring.ts'
import type { Config } from './config/settings.ts'
import { createErrorHandler } from './http/error-handler.ts'
import { createExpressApp } from './http/express-app.ts'
import {
  denyLateAndShed,
  markMalformedPath,
  requireAllowedHost,
  requireDecodablePath,
  requireHost,
} from './http/gate.ts'
import { HTML_TYPE, JSON_TYPE } from './http/negotiation.ts'
import { describeService } from './http/openapi/interface.ts'
import { answerWithDocument, documentEndpoint } from './http/openapi/openapi-endpoint.ts'
import { createDocsRouter } from './http/pages/docs-page.ts'
import { answerWithHome } from './http/pages/home.ts'
import { docsEndpoint, homeEndpoint } from './http/pages/page-operations.ts'
import { createReplySender } from './http/reply.ts'
import { requestLog } from './http/request-log.ts'
import type { RequestMetrics } from './http/request-metrics.ts'
import {
  accept,
  acceptJson,
  answerNotFound,
  createRouteParts,
  type RouteParts,
  routesOf,
} from './http/router.ts'
import type { Limiter } from './limits/limiter.ts'
import { createHealthRouter, createReadiness, healthEndpoints } from './ops/health.ts'
import type { Stopping } from './server/stopping.ts'
import { verificationEndpoint } from './users/password-verification-operation.ts'
import type { PasswordVerifications } from './users/password-verifications.ts'
import { userEndpoints } from './users/user-openapi.ts'
import { createUserRouter } from './users/user-router.ts'
import type { UserRules } from './users/user-schemas.ts'
import type { UserService } from './users/user-service.ts'
import { readVersion } from './version.ts'

/** What the application uses. The caller closes it. */
export interface AppDependencies {
  readonly users: UserService
  readonly verifications: PasswordVerifications
  /** The rules that `users` checks its input by. Their schemas go into the OpenAPI document. */
  readonly rules: UserRules
  /** Rejects when the storage does not answer. */
  readonly ping: () => Promise<void>
  readonly stopping: Pick<Stopping, 'hasBegun' | 'isTooLate'>
  readonly log: Logger
  readonly newRequestId: () => string
  /** Counts the requests. Nothing is counted if left out. */
  readonly metrics?: RequestMetrics | undefined
  /** `undefined` without limits. */
  readonly limiter?: Limiter | undefined
  /** Whether the limits hold for this process only, because counters that others share cannot be reached. */
  readonly isCountingLocally?: (() => boolean) | undefined
  /** The API keys; `undefined` if none is required. */
  readonly keys?: Pick<KeyRing, 'recognise'> | undefined
  /** Whether the server listens on loopback only. */
  readonly isOnLoopback: () => boolean
  /** Called with the host of each request that ALLOWED_HOSTS refuses. */
  readonly onHostRefused: (host: string) => void
  readonly settings: Pick<
    Config,
    'trustProxy' | 'allowedHosts' | 'corsOrigins' | 'bodyLimitBytes' | 'maxEventLoopDelayMs'
  >
}

/** The response headers that scripts of another origin may read. */
const EXPOSED_HEADERS = [
  'ETag',
  'Link',
  'Location',
  'X-Total-Count',
  'X-Request-Id',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'Idempotency-Replayed',
]

const PREFLIGHT_MAX_AGE_SECONDS = 600

/** The longest delay of an `overloaded` response. */
const MAX_PAUSE_MS = 500

/** The Express application. Its middleware stands in the order in which a request meets it. */
export function createApp(dependencies: AppDependencies): Application {
  const { users, verifications, rules, ping, stopping, log, newRequestId } = dependencies
  const { limiter, keys, isCountingLocally, metrics, isOnLoopback } = dependencies
  const { trustProxy, corsOrigins, bodyLimitBytes, maxEventLoopDelayMs } = dependencies.settings
  const sendReply = createReplySender()
  const overloadPauseMs = Math.min(maxEventLoopDelayMs, MAX_PAUSE_MS)
  const handleError = createErrorHandler({ log, sendReply, overloadPauseMs })
  const open = createRouteParts({ sendReply, bodyLimitBytes })
  const parts: RouteParts = {
    ...open,
    scope: action => (keys === undefined ? [] : [requireScope(action)]),
    limit: action => (limiter === undefined ? [] : [limiter.limit(action)]),
    limitByBody: action => (limiter === undefined ? [] : [limiter.limitByBody(action)]),
  }
  const isReady = createReadiness({ ping, isStopping: stopping.hasBegun })
  const about = { version: readVersion(), needsKeys: keys !== undefined }
  const health = createHealthRouter({ isReady, isCountingLocally }, open)
  const pages = createPages({ ...about, isReady, rules, settings: { bodyLimitBytes } }, open)
  const userRouter = createUserRouter({ users, verifications }, parts)
  const routes = [userRouter, health, pages].flatMap(routesOf).map(({ path }) => path)
  const app = createExpressApp(trustProxy)
  // Not in a router of its own, which would cost each request 4 µs of 30.
  app.use(requestLog({ log, newRequestId, routes, metrics }))
  app.use(requireHost, health)
  const onRefused = dependencies.onHostRefused
  app.use(requireAllowedHost({ ...dependencies.settings, isOnLoopback, onRefused }))
  if (corsOrigins !== undefined) app.use(allowOrigins(corsOrigins))
  app.use(denyLateAndShed(stopping.isTooLate))
  if (keys !== undefined) app.use(recogniseKeys(keys))
  if (limiter !== undefined) app.use(limiter.filter)
  app.use(keys === undefined ? requireDecodablePath : markMalformedPath)
  // What needs no key stands before the check of keys.
  if (keys !== undefined) app.use(pages, requireKey)
  userRouter.use(handleError)
  app.use(userRouter)
  if (keys === undefined) app.use(pages)
  app.use(answerNotFound, handleError)
  return app
}

interface PagesOptions {
  readonly version: string
  readonly needsKeys: boolean
  readonly isReady: () => Promise<boolean>
  readonly rules: UserRules
  readonly settings: { readonly bodyLimitBytes: number }
}

/** What the service says about itself. */
function createPages(options: PagesOptions, parts: RouteParts): Router {
  const { version, needsKeys, isReady, rules, settings } = options
  const { answer, otherMethods } = parts
  const describe = (baseUrl: string) => ({
    ...describeService({ needsKeys }),
    version,
    baseUrl,
    limited: [
      ...userEndpoints(rules),
      verificationEndpoint(rules),
      homeEndpoint({ version, needsKeys }),
      docsEndpoint,
      documentEndpoint,
    ],
    unlimited: healthEndpoints(),
    settings: { ...settings, scopes: needsKeys ? SCOPE_OF_ACTION : undefined },
  })
  const router = createDocsRouter(parts)
  router
    .route('/')
    .get(accept(JSON_TYPE, HTML_TYPE), answer(answerWithHome({ version, needsKeys, isReady })))
    .all(otherMethods)
  router
    .route('/openapi.json')
    .get(acceptJson, answer(answerWithDocument(describe)))
    .all(otherMethods)
  return router
}

/** CORS. The routes answer OPTIONS, because they know which methods a path allows. */
function allowOrigins(origins: readonly string[] | '*'): RequestHandler {
  return cors({
    origin: origins === '*' ? '*' : [...origins],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
    preflightContinue: true,
  })
}
