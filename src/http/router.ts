import express, { type Application, type Request, type RequestHandler, type Router } from 'express'
import { ServiceError } from '../errors.ts'
import type { Action } from './actions.ts'
import { ACCEPT_PATCH, readJsonBody } from './body.ts'
import { createErrorHandler, type ErrorHandlerOptions } from './error-handler.ts'
import { createRefuseAtOnce } from './fast/refuse-at-once.ts'
import { readForwardedAddresses } from './forwarded.ts'
import { isAcceptable, JSON_TYPE, notAcceptable } from './negotiation.ts'
import { queryObject } from './query.ts'
import { createReplySender, type Reply } from './reply.ts'
import { type StreamReply, sendStream } from './stream.ts'

type Answer = Reply | StreamReply

/** The bodies of a request that counts as several, each as it would come alone; `undefined` for one that counts as one. */
export type SplitRequest = (request: Request) => readonly unknown[] | undefined

/** The handlers that routes are made of. */
export interface RouteParts {
  /** Throws `scope_missing` unless the API key has the scope of the action. Then come its limits that need no body. */
  admit(action: Action): RequestHandler[]
  /** The limits that count by something in the body. */
  limitByBody(action: Action, split?: SplitRequest): RequestHandler[]
  /** Puts the JSON value of the body into `request.body`. */
  readonly readBody: RequestHandler
  /** Sends what `handle` returns. What it throws goes to the error handler. */
  answer(handle: (request: Request) => Answer | Promise<Answer>): RequestHandler
  /** Last on each route: answers OPTIONS, and any other method with 405. */
  readonly otherMethods: RequestHandler
}

/** An Express application without any middleware. `trustProxy` is what Express takes as `trust proxy`. */
export function createExpressApp(trustProxy: false | number | readonly string[]): Application {
  const app = express()
  app.disable('x-powered-by')
  app.enable('case sensitive routing')
  app.enable('strict routing')
  app.set('etag', false)
  // Only functions in limits files read `request.query`. It is parsed when they do.
  app.set('query parser', queryObject)
  app.set('trust proxy', trustProxy)
  // Without a proxy no address is forwarded, and asking twice would take a microsecond.
  if (trustProxy !== false) readForwardedAddresses(app)
  return app
}

/** A router that compares paths to the letter, as the applications do. */
export function createRouter(): Router {
  return express.Router({ caseSensitive: true, strict: true })
}

export interface RoutePartsOptions extends Omit<ErrorHandlerOptions, 'sendReply'> {
  readonly bodyLimitBytes: number
}

/** The parts of an application's routes that need neither keys nor limits, and what answers its errors. */
export function createRouteParts({ bodyLimitBytes, ...options }: RoutePartsOptions) {
  const sendReply = createReplySender()
  const handleError = createErrorHandler({ ...options, sendReply })
  const refuseAtOnce = createRefuseAtOnce(handleError)
  const answer: RouteParts['answer'] = handle =>
    refuseAtOnce(async (request, response, next) => {
      try {
        const reply = await handle(request)
        if ('write' in reply) await sendStream(request, response, reply)
        else sendReply(request, response, reply, next)
      } catch (error) {
        next(error)
      }
    })
  const parts: RouteParts = {
    admit: () => [],
    limitByBody: () => [],
    readBody: readJsonBody(bodyLimitBytes),
    answer,
    otherMethods: answer(request => {
      const headers = { Allow: allowedMethods(request) }
      if (request.method === 'OPTIONS') {
        const takesPatch = headers.Allow.includes('PATCH')
        return { status: 204, headers: { ...headers, ...(takesPatch && ACCEPT_PATCH) } }
      }
      throw new ServiceError('method_not_allowed', { headers })
    }),
  }
  return { parts, handleError, refuseAtOnce }
}

/** Throws `not_acceptable` unless the Accept header allows one of `types`. */
export function accept(...types: readonly string[]): RequestHandler {
  const refusal = notAcceptable(types)
  return ({ headers: { accept: sent } }, _response, next) => {
    const isUsual = sent === undefined || sent === '*/*' || sent === types[0]
    if (!isUsual && !isAcceptable(sent, types)) {
      throw refusal
    }
    next()
  }
}

export const acceptJson = accept(JSON_TYPE)

/** Answers `OPTIONS *`, which is about the server and not a path: RFC 9110 9.3.7. */
export function answerServerOptions({ answer }: RouteParts): RequestHandler {
  const answerEmpty = answer(() => ({ status: 204 }))
  return (request, response, next) => {
    if (request.method === 'OPTIONS' && request.url === '*') answerEmpty(request, response, next)
    else next()
  }
}

/** The last handler of an application. */
export const answerNotFound: RequestHandler = () => {
  throw new ServiceError('path_not_found')
}

interface Route {
  readonly path: string
  readonly stack: readonly { readonly method?: string }[]
}

function methodsOf({ stack }: Route): readonly string[] {
  return [...new Set(stack.map(({ method }) => method))].filter(method => method !== undefined)
}

function allowedMethods({ route }: Request): string {
  const methods = methodsOf(route).flatMap(name => (name === 'get' ? ['GET', 'HEAD'] : [name]))
  return [...methods, 'OPTIONS'].join(', ').toUpperCase()
}

/** The paths of a router's routes, with parameters in braces, as in `/users/{id}`. */
export function pathsOf(router: Router): readonly string[] {
  return routesOf(router).map(({ path }) => path)
}

/** The routes of a router, with parameters in braces, as in `/users/{id}`. */
export function routesOf(
  router: Router,
): readonly { readonly path: string; readonly methods: readonly string[] }[] {
  return router.stack.flatMap(({ route }) =>
    route === undefined
      ? []
      : [{ path: route.path.replace(/:(\w+)/g, '{$1}'), methods: methodsOf(route as Route) }],
  )
}
