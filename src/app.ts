import cors from 'cors'
import type { Application, RequestHandler } from 'express'
import type { Logger } from 'pino'
import { SCOPE_OF_ACTION } from './access/api-key.ts'
import { recogniseKeys, requireKey, requireScope } from './access/key-checks.ts'
import type { KeyRing } from './access/key-ring.ts'
import type { Config } from './config/settings.ts'
import {
  denyLateAndShed,
  requireAllowedHost,
  requireDecodablePath,
  requireValidHead,
} from './http/gate.ts'
import { createPages, pageOperations } from './http/pages/pages.ts'
import { createRouteFinder, type RequestMetrics, requestLog } from './http/request-log.ts'
import {
  answerNotFound,
  answerServerOptions,
  createExpressApp,
  createRouteParts,
  pathsOf,
  type RouteParts,
} from './http/router.ts'
import type { Limiter } from './limits/kinds/limiter.ts'
import { type CheckReadiness, createHealthRouter, healthOperations } from './ops/health.ts'
import { readVersion } from './platform/package.ts'
import type { ChangeFeed } from './users/change-feed.ts'
import { describeUserOperations } from './users/user-openapi.ts'
import { createUserRouter } from './users/user-router.ts'
import type { UserRules } from './users/user-schemas.ts'
import type { UserService } from './users/user-service.ts'

/** What the application uses. The caller closes it. */
export interface AppDependencies {
  readonly users: UserService
  readonly changes: ChangeFeed
  /** The rules that `users` checks its input by. Their schemas go into the OpenAPI document. */
  readonly rules: UserRules
  readonly checks: CheckReadiness
  readonly log: Logger
  /** Counts the requests. Nothing is counted if left out. */
  readonly metrics?: RequestMetrics | undefined
  /** `undefined` without limits. */
  readonly limiter?: Limiter | undefined
  /** The API keys; `undefined` if none is required. */
  readonly keys?: Pick<KeyRing, 'recognise'> | undefined
  /** Called with the host of each request that ALLOWED_HOSTS refuses. */
  readonly onHostRefused: (host: string) => void
  readonly settings: Pick<
    Config,
    'trustProxy' | 'allowedHosts' | 'corsOrigins' | 'bodyLimitBytes' | 'maxEventLoopDelayMs'
  >
}

/** The response headers that scripts of another origin may read: all that the document names, and those of other answers. */
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
  'Preference-Applied',
  'Allow',
  'Accept-Patch',
  'Accept-Encoding',
  'WWW-Authenticate',
  'Content-Disposition',
]

const PREFLIGHT_MAX_AGE_SECONDS = 600

/** The longest delay of an `overloaded` response. */
const MAX_PAUSE_MS = 500

/** The Express application. Its middleware stands in the order in which a request meets it. */
export function createApp(dependencies: AppDependencies): Application {
  const { users, changes, rules, checks, log } = dependencies
  const { limiter, keys, metrics, onHostRefused } = dependencies
  const { trustProxy, corsOrigins, bodyLimitBytes, maxEventLoopDelayMs } = dependencies.settings
  const overloadPauseMs = Math.min(maxEventLoopDelayMs, MAX_PAUSE_MS)
  const made = createRouteParts({ log, overloadPauseMs, bodyLimitBytes })
  const { parts: open, handleError, refuseAtOnce } = made
  const guards = (...handlers: readonly (RequestHandler | undefined)[]) =>
    handlers.filter(handler => handler !== undefined).map(refuseAtOnce)
  const parts: RouteParts = {
    ...open,
    admit: action => guards(keys && requireScope(action), limiter?.limit(action)),
    limitByBody: (action, split) => guards(limiter?.limitByBody(action, split)),
  }
  const cors = corsOrigins === undefined ? [] : [allowOrigins(corsOrigins)]
  const health = createHealthRouter({ checks, guards: cors }, open)
  const others = { ...pageOperations, ...healthOperations }
  const operations = [...describeUserOperations(rules), ...Object.values(others)]
  const scopes = keys && SCOPE_OF_ACTION
  const settings = { version: readVersion(), bodyLimitBytes, scopes }
  const isReady = async () => (await checks()).isReady
  const pages = createPages({ operations, settings, isReady }, open)
  const findPage = createRouteFinder(pathsOf(pages))
  const userRouter = createUserRouter({ users, changes }, parts)
    .use(handleError)
    .use(NOTHING, answerNotFound)
  const routes = [userRouter, health, pages].flatMap(pathsOf)

  return createExpressApp(trustProxy).use(
    // Not in a router of its own, which would cost each request 4 µs of 30.
    requestLog({ log, routes, metrics }),
    requireValidHead,
    health,
    requireAllowedHost({ ...dependencies.settings, onHostRefused }),
    ...cors,
    denyLateAndShed,
    ...guards(
      keys && recogniseKeys(keys),
      limiter?.filter,
      keys && requireKey(request => findPage(request) !== undefined),
    ),
    requireDecodablePath,
    userRouter,
    pages,
    answerServerOptions(open),
    answerNotFound,
    handleError,
  )
}

/** Express leaves a router whose last layer matches by a global timer, which a test may have replaced. */
const NOTHING = /(?!)/

/** CORS. The routes answer OPTIONS, because they know which methods a path allows. */
function allowOrigins(origins: readonly string[] | '*'): RequestHandler {
  return cors({
    origin: origins === '*' ? '*' : [...origins],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
    preflightContinue: true,
  })
}
