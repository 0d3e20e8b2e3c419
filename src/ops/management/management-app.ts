import type { Application, Request } from 'express'
import type { Logger } from 'pino'
import { createErrorHandler } from '../../http/error-handler.ts'
import { createExpressApp } from '../../http/express-app.ts'
import {
  denyLateAndShed,
  markMalformedPath,
  requireAllowedHost,
  requireValidHead,
} from '../../http/gate.ts'
import { createReplySender } from '../../http/reply.ts'
import { requestLog } from '../../http/request-log.ts'
import { answerNotFound, createRouteParts, routesOf } from '../../http/router.ts'
import { createHealthRouter } from '../health.ts'
import { createBanRouter } from './ban-router.ts'
import { createLimitsRouter } from './limits-router.ts'
import { createMetricsRouter } from './metrics-router.ts'
import type { Operations } from './operations.ts'
import { createOperatorPage } from './operator-page.ts'
import { requireOwnOrigin } from './require-own-origin.ts'
import { requireToken } from './require-token.ts'
import type { StatusHistory } from './status-history.ts'
import { createStatusRouter } from './status-router.ts'

export interface ManagementAppOptions {
  readonly operations: Operations
  readonly history: Pick<StatusHistory, 'read'>
  readonly version: string
  readonly log: Logger
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
  const { operations, log, isOnLoopback, settings, now } = options
  const { allowedHosts, trustProxy, managementToken: token } = settings
  const sendReply = createReplySender()
  const parts = createRouteParts({ sendReply, ...settings })
  const { checks } = operations
  const health = createHealthRouter(
    { checks, canBeVerbose: true, guards: [requireOwnOrigin] },
    parts,
  )
  const page = createOperatorPage(parts)
  const routers = [
    createStatusRouter(options, parts),
    createMetricsRouter(operations, parts),
    createLimitsRouter(operations, parts),
    createBanRouter({ operations, now }, parts),
  ]
  const routes = [health, page, ...routers].flatMap(routesOf).map(({ path }) => path)

  const app = createExpressApp(trustProxy)
  app.use(requestLog({ log, levelOf, routes }))
  app.use(requireValidHead, health)
  app.use(
    requireAllowedHost({
      ...{ allowedHosts, isOnLoopback, onRefused: options.onHostRefused },
      // A proxy that is trusted forwards requests to the public port. Without a token this one is for programs of this machine, so
      // that no page may reach it by another name.
      trustProxy: token === undefined ? false : trustProxy,
    }),
  )
  // The files of the page hold no data.
  app.use(requireOwnOrigin, markMalformedPath, page)
  app.use(requireToken({ token, isOnLoopback }))
  app.use(denyLateAndShed(() => false))
  app.use(routers)
  app.use(answerNotFound, createErrorHandler({ log, sendReply }))
  return app
}

/** Reading is not worth a line: monitoring does it every second. */
function levelOf({ method }: Request): 'info' | 'debug' {
  return ['POST', 'DELETE'].includes(method) ? 'info' : 'debug'
}
