import type { Application, Request, Router } from 'express'
import type { Logger } from 'pino'
import { createErrorHandler } from '../../http/error-handler.ts'
import { createExpressApp } from '../../http/express-app.ts'
import {
  denyLateAndShed,
  markMalformedPath,
  requireAllowedHost,
  requireValidHead,
} from '../../http/gate.ts'
import { HTML_TYPE } from '../../http/negotiation.ts'
import { assetReply, contentSecurityPolicy, pageReply } from '../../http/pages/page-files.ts'
import { createReplySender } from '../../http/reply.ts'
import { requestLog } from '../../http/request-log.ts'
import {
  accept,
  answerNotFound,
  createRouteParts,
  createRouter,
  type RouteParts,
  routesOf,
} from '../../http/router.ts'
import { createHealthRouter } from '../health.ts'
import { createOperationsRouter, type OperationsRouterOptions } from './operations-router.ts'
import { requireOwnOrigin, requireToken } from './operator-guards.ts'

export interface ManagementAppOptions extends OperationsRouterOptions {
  readonly log: Logger
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
  const { operations, log, isOnLoopback, settings } = options
  const { allowedHosts, trustProxy, managementToken: token } = settings
  const sendReply = createReplySender()
  const parts = createRouteParts({ sendReply, ...settings })
  const { checks } = operations
  const health = createHealthRouter(
    { checks, canBeVerbose: true, guards: [requireOwnOrigin] },
    parts,
  )
  const page = createOperatorPage(parts)
  const router = createOperationsRouter(options, parts)
  const routes = [health, page, router].flatMap(routesOf).map(({ path }) => path)

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
  app.use(router)
  app.use(answerNotFound, createErrorHandler({ log, sendReply }))
  return app
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

/** Reading is not worth a line: monitoring does it every second. */
function levelOf({ method }: Request): 'info' | 'debug' {
  return ['POST', 'DELETE'].includes(method) ? 'info' : 'debug'
}
