import type { Application, Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { isAcceptable, JSON_TYPE } from './negotiation.ts'
import type { Operation } from './operation.ts'
import type { Reply, SendReply } from './reply.ts'
import { readJsonBody } from './request-body.ts'

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/**
 * One row of the table from which routes are mounted, 405 and OPTIONS are answered, and limits name their
 * actions. A HEAD request is answered as a GET whose body is left out.
 */
export interface Endpoint {
  readonly method: Method
  /** With parameters in braces, as in `/users/{id}`. */
  readonly path: string
  readonly action?: 'list' | 'read' | 'create' | 'update' | 'delete'
  /** Whether a JSON body is read into `request.body`. */
  readonly takesBody?: boolean
  /** Media types of its answers, JSON if left out; with `[]` the Accept header is not asked. */
  readonly produces?: readonly string[]
  readonly handle: (request: Request) => Reply | Promise<Reply>
  /** What it takes and answers, in the document of the interface; asked for once somebody asks for that. */
  readonly operation: () => Operation
}

export type Action = NonNullable<Endpoint['action']>

/** What may refuse an action, before its body is read and after. */
export interface ActionGuards {
  beforeBody(action: Action): RequestHandler
  afterBody(action: Action): RequestHandler
}

export interface MountOptions {
  readonly sendReply: SendReply
  readonly bodyLimitBytes: number
  readonly guards?: ActionGuards | undefined
}

/** Mounts the endpoints, and for each of their paths the answers to OPTIONS and to methods it does not know. */
export function mountEndpoints(
  app: Application,
  endpoints: readonly Endpoint[],
  { sendReply, bodyLimitBytes, guards }: MountOptions,
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
        ...(isGuarded ? [guards.beforeBody(action)] : []),
        requireAcceptable(produces),
        ...(takesBody ? [readBody] : []),
        ...(isGuarded && takesBody ? [guards.afterBody(action)] : []),
        async (request, response) => sendReply(request, response, await endpoint.handle(request)),
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
