import cors from 'cors'
import type { Application, RequestHandler } from 'express'
import type { Logger } from 'pino'
import { SCOPE_OF_ACTION } from './access/action-scopes.ts'
import { recogniseKeys, requireKeys } from './access/key-checks.ts'
import { compileKeyNeeds } from './access/key-needs.ts'
import type { KeyRing } from './access/key-ring.ts'
import type { Config } from './config/settings.ts'
import { ServiceError } from './errors.ts'
import { createExpressApp } from './http/create-express-app.ts'
import { createSenders } from './http/create-senders.ts'
import { denyShedRequests } from './http/deny-shed-requests.ts'
import { type Endpoint, mountEndpoints } from './http/endpoints.ts'
import { answerErrors, errorHandler } from './http/error-replies.ts'
import { createTemplateFinder } from './http/find-template.ts'
import { describeService } from './http/openapi/interface.ts'
import { openApiEndpoint } from './http/openapi/openapi-endpoint.ts'
import { docsRoutes } from './http/pages/docs-page.ts'
import { homeRoute } from './http/pages/home.ts'
import { requestLog } from './http/request-log.ts'
import type { RequestMetrics } from './http/request-metrics.ts'
import { requireAllowedHost } from './http/require-allowed-host.ts'
import { requireDecodablePath } from './http/require-decodable-path.ts'
import { requireHost } from './http/require-host.ts'
import { nameResources } from './http/resources.ts'
import type { Limiter } from './limits/limiter.ts'
import { createReadiness, healthRoutes } from './ops/health.ts'
import type { Stopping } from './server/stop.ts'
import { passwordVerificationRoutes } from './users/password-verification-routes.ts'
import type { PasswordVerifications } from './users/password-verifications.ts'
import { userRoutes } from './users/user-router.ts'
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
  const { limiter, keys, isCountingLocally, metrics } = dependencies
  const { trustProxy, corsOrigins, bodyLimitBytes, maxEventLoopDelayMs } = dependencies.settings
  const { isOnLoopback, onHostRefused } = dependencies
  const app = createExpressApp(trustProxy)
  const overloadPauseMs = Math.min(maxEventLoopDelayMs, MAX_PAUSE_MS)
  const { sendReply, sendError } = createSenders({ log, overloadPauseMs })
  const mounting = { sendReply, sendError, bodyLimitBytes }
  const version = readVersion()
  const isReady = createReadiness({ ping, isStopping: stopping.hasBegun })
  const unlimited = healthRoutes({ isReady, isCountingLocally })
  // Users first: Express tries the routes in order, so each one before them would slow their requests down.
  const limited: readonly Endpoint[] = [
    ...userRoutes(users, rules),
    ...passwordVerificationRoutes(verifications, rules),
    homeRoute({ version, needsKeys: keys !== undefined, isReady }),
    ...docsRoutes(),
    openApiEndpoint(baseUrl => ({
      ...describeService({ needsKeys: keys !== undefined }),
      version,
      baseUrl,
      limited,
      unlimited,
      settings: { bodyLimitBytes, scopes: keys && SCOPE_OF_ACTION },
    })),
  ]
  nameResources(app, limited)

  const templateOf = createTemplateFinder([...limited, ...unlimited].map(({ path }) => path))
  app.use(requestLog({ log, newRequestId, templateOf, metrics }))
  app.use(requireHost)
  mountEndpoints(app, unlimited, mounting)
  app.use(
    answerErrors(
      requireAllowedHost({ ...dependencies.settings, isOnLoopback, onRefused: onHostRefused }),
      sendError,
    ),
  )
  if (corsOrigins !== undefined) app.use(allowOrigins(corsOrigins))
  app.use(answerErrors(denyLateConnections(stopping), sendError))
  app.use(answerErrors(denyShedRequests, sendError))
  if (keys !== undefined) app.use(recogniseKeys(keys))
  if (limiter !== undefined) app.use(answerErrors(limiter.filter, sendError))
  if (keys !== undefined) app.use(answerErrors(requireKeys(compileKeyNeeds(limited)), sendError))
  app.use(requireDecodablePath)
  mountEndpoints(app, limited, { ...mounting, guards: limiter })
  app.use(() => {
    throw new ServiceError('path_not_found')
  })
  app.use(errorHandler(sendError))
  return app
}

function denyLateConnections(stopping: AppDependencies['stopping']): RequestHandler {
  return (request, _response, next) => {
    next(stopping.isTooLate(request.socket) ? new ServiceError('shutting_down') : undefined)
  }
}

/** CORS. The endpoints answer OPTIONS, because they know which methods a path allows. */
function allowOrigins(origins: readonly string[] | '*'): RequestHandler {
  return cors({
    origin: origins === '*' ? '*' : [...origins],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
    preflightContinue: true,
  })
}
