import type { Application, Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { answerErrors, type SendError } from './error-replies.ts'
import { isAcceptable, JSON_TYPE } from './negotiation.ts'
import type { Reply, SendReply } from './reply.ts'
import { readJsonBody } from './request-body.ts'

/** What an endpoint does with the users. Rules of limits choose endpoints by it. */
export const ACTIONS = ['list', 'read', 'create', 'update', 'delete', 'verify'] as const

export type Action = (typeof ACTIONS)[number]

/** The methods of endpoints. HEAD and OPTIONS are answered beside them. */
export const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const

type Method = (typeof METHODS)[number]

/**
 * One row of the table of endpoints: it mounts a route, names its action for limits, and helps to answer 405 and OPTIONS. A
 * HEAD request is answered like a GET, without the body.
 */
export interface Endpoint {
  readonly method: Method
  /** With parameters in braces, as in `/users/{id}`. */
  readonly path: string
  readonly action?: Action
  /** The `resource` of errors at this path and below it; `Request` if left out. */
  readonly resource?: string
  /** Whether it needs no API key, even if keys are required. The same for all endpoints of a path. */
  readonly isOpen?: true
  /** Whether a JSON body is read into `request.body`. */
  readonly takesBody?: boolean
  /** Media types of its responses; JSON if left out. With `[]` the Accept header is ignored. */
  readonly produces?: readonly string[]
  readonly handle: (request: Request) => Reply | Promise<Reply>
}

/** Middleware that may deny an action, before and after its body is read. */
export interface ActionGuards {
  beforeBody(action: Action): RequestHandler
  afterBody(action: Action): RequestHandler
}

export interface MountOptions {
  readonly sendReply: SendReply
  readonly sendError: SendError
  readonly bodyLimitBytes: number
  readonly guards?: ActionGuards | undefined
}

/** Mounts the endpoints, and for each path the responses to OPTIONS and to unknown methods. */
export function mountEndpoints(
  app: Application,
  endpoints: readonly Endpoint[],
  { sendReply, sendError, bodyLimitBytes, guards }: MountOptions,
): void {
  const readBody = readJsonBody(bodyLimitBytes)
  for (const path of new Set(endpoints.map(endpoint => endpoint.path))) {
    const ofPath = endpoints.filter(endpoint => endpoint.path === path)
    const route = app.route(path.replace(/\{(\w+)\}/g, ':$1'))
    const headers = { Allow: allowedMethods(ofPath) }
    route.all((request, _response, next) => {
      request.routeTemplate = path
      next()
    })
    for (const endpoint of ofPath) {
      const { action, takesBody, produces = [JSON_TYPE] } = endpoint
      const isGuarded = guards !== undefined && action !== undefined
      route[endpoint.method](
        ...(isGuarded ? [answerErrors(guards.beforeBody(action), sendError)] : []),
        requireAcceptable(produces),
        ...(takesBody ? [readBody] : []),
        ...(isGuarded && takesBody ? [answerErrors(guards.afterBody(action), sendError)] : []),
        async (request, response) => {
          try {
            sendReply(request, response, await endpoint.handle(request))
          } catch (error) {
            sendError(error, request, response)
          }
        },
      )
    }
    route.options((request, response) => {
      sendReply(request, response, { status: 204, headers })
    })
    route.all(() => {
      throw new ServiceError('method_not_allowed', { headers })
    })
  }
}

function allowedMethods(endpoints: readonly Endpoint[]): string {
  const methods = endpoints.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method]))
  return [...methods, 'OPTIONS'].join(', ').toUpperCase()
}

function requireAcceptable(types: readonly string[]): RequestHandler {
  const message = `Only ${types.join(' or ')} is available`
  return (request, _response, next) => {
    if (types.length > 0 && !isAcceptable(request.headers.accept, types)) {
      throw new ServiceError('not_acceptable', { message })
    }
    next()
  }
}
