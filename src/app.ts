import cors from 'cors'
import express, { type Application, type RequestHandler } from 'express'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import { ServiceError } from './errors.ts'
import { docsRoutes } from './http/docs-page.ts'
import { type Endpoint, mountEndpoints } from './http/endpoints.ts'
import { errorHandler } from './http/error-replies.ts'
import { homeRoute } from './http/home.ts'
import { requireOneHost } from './http/host.ts'
import { openApiEndpoint } from './http/openapi-endpoint.ts'
import { createReplySender, writeReply } from './http/reply.ts'
import { requestLog } from './http/request-log.ts'
import type { Stopping } from './http/stopping.ts'
import { INTERFACE } from './interface.ts'
import type { Limiter } from './limits/limiter.ts'
import { createReadiness, healthRoutes } from './ops/health.ts'
import type { UserRules } from './users/user.ts'
import { userRoutes } from './users/user-routes.ts'
import type { UserService } from './users/user-service.ts'
import { readVersion } from './version.ts'

export interface AppDependencies {
  readonly users: UserService
  /** Those by which `users` judges what comes in. */
  readonly rules: UserRules
  /** Rejects when the storage does not answer. */
  readonly ping: () => Promise<void>
  readonly stopping: Stopping
  readonly log: Logger
  readonly newRequestId: () => string
  /** Left out where there are no limits. */
  readonly limiter?: Limiter | undefined
  readonly settings: Pick<
    Config,
    'trustProxy' | 'corsOrigins' | 'bodyLimitBytes' | 'maxEventLoopDelayMs'
  >
}

/** What a page of another origin may read of an answer. */
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

/** How long a refusal for too much is held back. */
const MAX_PAUSE_MS = 500

/** The middleware in the order in which a request meets it. */
export function createApp(dependencies: AppDependencies): Application {
  const { users, rules, ping, stopping, log, newRequestId, limiter, settings } = dependencies
  const app = express()
  const answerBare = errorHandler(log, writeReply)
  const sendReply = createReplySender((error, request, response) => {
    // What was to be sent is at fault, be it a header of its own or one that middleware wanted on it.
    request.replyHeaders = undefined
    answerBare(error, request, response, () => {})
  })
  const mounting = { ...settings, sendReply }
  const version = readVersion()
  const isReady = createReadiness({ ping, isStopping: stopping.hasBegun })
  const unlimited = healthRoutes(isReady)
  // Users first: each route in front of them is looked at for each of their requests.
  const limited: readonly Endpoint[] = [
    ...userRoutes(users, rules),
    homeRoute({ version, isReady }),
    ...docsRoutes(),
    openApiEndpoint(() => ({ ...INTERFACE, version, limited, unlimited, settings })),
  ]
  app.disable('x-powered-by')
  app.enable('case sensitive routing')
  app.enable('strict routing')
  app.set('etag', false)
  app.set('query parser', false)
  app.set('trust proxy', settings.trustProxy)

  app.use(requestLog({ log, newRequestId }))
  app.use(requireOneHost)
  mountEndpoints(app, unlimited, mounting)
  if (settings.corsOrigins !== undefined) app.use(crossOrigin(settings.corsOrigins))
  app.use(refuseTheLate(stopping))
  app.use(refuseTheShed)
  if (limiter !== undefined) app.use(limiter.filter)
  app.use(requireDecodablePath)
  mountEndpoints(app, limited, { ...mounting, guards: limiter })
  app.use(() => {
    throw new ServiceError('path_not_found')
  })
  app.use(errorHandler(log, sendReply, Math.min(settings.maxEventLoopDelayMs, MAX_PAUSE_MS)))
  return app
}

function refuseTheLate(stopping: Stopping): RequestHandler {
  return (request, _response, next) => {
    if (stopping.isTooLate(request.socket)) throw new ServiceError('shutting_down')
    next()
  }
}

const refuseTheShed: RequestHandler = ({ isShed }, _response, next) => {
  if (isShed) throw new ServiceError('overloaded')
  next()
}

const requireDecodablePath: RequestHandler = (request, _response, next) => {
  try {
    if (request.path.includes('%')) decodeURIComponent(request.path)
  } catch (cause) {
    throw new ServiceError('path_malformed', { cause })
  }
  next()
}

/** Leaves the answer to OPTIONS to the endpoints, which know what a path allows. */
function crossOrigin(origins: readonly string[] | '*'): RequestHandler {
  return cors({
    origin: origins === '*' ? '*' : [...origins],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
    preflightContinue: true,
  })
}
