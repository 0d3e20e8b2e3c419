import type { Application, Request, RequestHandler } from 'express'
import type { Logger } from 'pino'
import { ServiceError } from '../../errors.ts'
import { createExpressApp } from '../../http/create-express-app.ts'
import { createSenders } from '../../http/create-senders.ts'
import { denyShedRequests } from '../../http/deny-shed-requests.ts'
import { type Endpoint, mountEndpoints } from '../../http/endpoints.ts'
import { errorHandler } from '../../http/error-replies.ts'
import { createTemplateFinder } from '../../http/find-template.ts'
import { requestLog } from '../../http/request-log.ts'
import { requireAllowedHost } from '../../http/require-allowed-host.ts'
import { requireDecodablePath } from '../../http/require-decodable-path.ts'
import { requireHost } from '../../http/require-host.ts'
import { banEndpoints } from './ban-endpoints.ts'
import { limitsEndpoints } from './limits-endpoints.ts'
import { managementHealth } from './management-health.ts'
import { metricsEndpoint } from './metrics-endpoint.ts'
import type { Operations } from './operations.ts'
import { operatorPageRoutes } from './operator-page.ts'
import { requireOwnOrigin } from './require-own-origin.ts'
import { requireToken } from './require-token.ts'
import { statusEndpoint } from './status-endpoint.ts'
import type { StatusHistory } from './status-history.ts'

export interface ManagementAppOptions {
  readonly operations: Operations
  readonly history: Pick<StatusHistory, 'read'>
  readonly version: string
  readonly log: Logger
  readonly newRequestId: () => string
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Whether the server of this application listens on loopback only. */
  readonly isOnLoopback: () => boolean
  /** Called with the host of each request that ALLOWED_HOSTS refuses. */
  readonly onHostRefused: (host: string) => void
  readonly settings: {
    /** `undefined` asks for none. */
    readonly managementToken: string | undefined
    readonly allowedHosts: readonly string[] | '*' | undefined
    readonly trustProxy: false | number | readonly string[]
    readonly bodyLimitBytes: number
  }
}

/** The application of the management port. Its middleware stands in the order in which a request meets it. */
export function createManagementApp(options: ManagementAppOptions): Application {
  const { operations, log, newRequestId, isOnLoopback, onHostRefused, settings } = options
  const app = createExpressApp(settings.trustProxy)
  const senders = createSenders({ log })
  const health = managementHealth(operations)
  const endpoints = [...health, ...operatorEndpoints(options)]
  const isHealthCheck = createPathTest(health)
  const isOpen = createPathTest(endpoints.filter(endpoint => endpoint.isOpen))

  const templateOf = createTemplateFinder(endpoints.map(({ path }) => path))
  app.use(requestLog({ log, newRequestId, levelOf, templateOf }))
  app.use(requireHost)
  app.use(
    unless(
      isHealthCheck,
      requireAllowedHost({ ...hostSettings(settings), isOnLoopback, onRefused: onHostRefused }),
    ),
  )
  app.use(requireOwnOrigin)
  app.use(requireToken({ token: settings.managementToken, isOnLoopback, isOpen }))
  app.use(denyShedRequests)
  app.use(requireDecodablePath)
  mountEndpoints(app, endpoints, { ...senders, ...settings })
  app.use(() => {
    throw new ServiceError('path_not_found')
  })
  app.use(errorHandler(senders.sendError))
  return app
}

/** What operators can ask for. Endpoints that hold no data, such as the files of a page, are open. */
function operatorEndpoints(options: ManagementAppOptions): readonly Endpoint[] {
  const { operations, now } = options
  return [
    ...operatorPageRoutes(),
    statusEndpoint(options),
    metricsEndpoint(operations),
    ...limitsEndpoints(operations),
    ...banEndpoints({ operations, now }),
  ]
}

/**
 * A proxy that is trusted forwards requests to the public port. Without a token this one is for programs of this machine, so that
 * no page may reach it by another name.
 */
function hostSettings({
  allowedHosts,
  trustProxy,
  managementToken,
}: ManagementAppOptions['settings']) {
  return { allowedHosts, trustProxy: managementToken === undefined ? false : trustProxy } as const
}

/** Reading is not worth a line: monitoring does it every second. */
function levelOf({ method }: Request): 'info' | 'debug' {
  return ['POST', 'DELETE'].includes(method) ? 'info' : 'debug'
}

function createPathTest(endpoints: readonly Endpoint[]): (request: Request) => boolean {
  const templateOf = createTemplateFinder(endpoints.map(({ path }) => path))
  return request => templateOf(request) !== undefined
}

function unless(isExempt: (request: Request) => boolean, handler: RequestHandler): RequestHandler {
  return (request, response, next) =>
    isExempt(request) ? next() : handler(request, response, next)
}
