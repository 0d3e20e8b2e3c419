import {
  createServer,
  IncomingMessage,
  type Server,
  type ServerOptions,
  ServerResponse,
} from 'node:http'
import type { Application, Request, Response } from 'express'

/**
 * A server whose requests and responses are created with the prototypes that Express gives them.
 *
 * `app.handle` sets the prototype of each request and response to `app.request` and `app.response`. V8 then discards
 * the hidden classes of these objects, and the same route takes several times the CPU. Here both classes already have
 * these prototypes, so that setting them changes nothing. The application must not be mounted into another one, nor
 * mount others: that would set other prototypes.
 *
 * `onRequest` decides when the application is called. It is not a second listener, because Node copies the list of
 * listeners for each request once there are two.
 *
 * With `like`, which has a server of this kind already, the application takes over its prototypes. Two servers of one process
 * otherwise have requests of two hidden classes. After the first request of the second one, V8 discards the code of Node and
 * Express that it has compiled for one, and each request of both takes about 10 µs more. `request.app` is still the application
 * that has the request. What `like` has added to its prototypes holds for both.
 */
export function createExpressServer(
  app: Application,
  options: ServerOptions,
  { onRequest = app, like }: ExpressServerParts = {},
): Server {
  const prototypes = prototypesOf(app)
  if (like === undefined) adoptPrototypes(prototypes)
  else {
    const { request, response } = prototypesOf(like)
    Object.assign(prototypes, { request, response })
  }
  const classes = {
    IncomingMessage: prototypes.request.constructor as typeof IncomingMessage,
    ServerResponse: prototypes.response.constructor as typeof ServerResponse,
  }
  const server = createServer({ ...options, ...classes }, (request, response) =>
    onRequest(request as Request, response as Response),
  )
  return Object.assign(server, { [APPLICATION]: app })
}

/** The application of a server. No other code that is given the server can collide with this property. */
const APPLICATION = Symbol('application')

export interface ExpressServerParts {
  /** The application itself if left out. */
  readonly onRequest?: (request: Request, response: Response) => void
  readonly like?: Application | undefined
}

interface Prototypes {
  request: Request
  response: Response
}

function prototypesOf(app: Application): Prototypes {
  return app as unknown as Prototypes
}

function adoptPrototypes(prototypes: Prototypes): void {
  class ExpressRequest extends IncomingMessage {}
  class ExpressResponse extends ServerResponse {}
  prototypes.request = adopt(ExpressRequest.prototype, prototypes.request)
  prototypes.response = adopt(ExpressResponse.prototype, prototypes.response)
  Object.defineProperty(prototypes.request, 'app', {
    get(this: Request) {
      return (this.socket as { server?: { [APPLICATION]?: Application } }).server?.[APPLICATION]
    },
  })
  Object.defineProperty(prototypes.response, 'app', {
    get(this: Response) {
      return this.req.app
    },
  })
}

/** Makes `prototype` inherit from `expressPrototype`, and returns it. */
function adopt<T extends object>(prototype: object, expressPrototype: T): T {
  return Object.setPrototypeOf(prototype, expressPrototype) as T
}
