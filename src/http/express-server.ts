import {
  createServer,
  IncomingMessage,
  type Server,
  type ServerOptions,
  ServerResponse,
} from 'node:http'
import type { Application, Request, Response } from 'express'

/**
 * A server whose requests and responses are born with the prototypes that Express gives them.
 *
 * `app.handle` swaps the prototype of each request and response for `app.request` and `app.response`, and V8
 * then gives up what it knew of the shape of these objects: the same route takes several times the CPU.
 * With classes whose prototypes already are those two objects, the swap finds nothing to do. The application
 * must not be mounted into another one, nor mount others: that would swap the prototypes again.
 *
 * `onRequest` decides when the application is called, and is no listener beside it, because Node copies the list of
 * listeners for each request once there are two.
 */
export function createExpressServer(
  app: Application,
  options: ServerOptions,
  onRequest: (request: Request, response: Response) => void = app,
): Server {
  const prototypes = app as unknown as { request: Request; response: Response }
  class ExpressRequest extends IncomingMessage {}
  class ExpressResponse extends ServerResponse {}
  prototypes.request = adopt(ExpressRequest.prototype, prototypes.request)
  prototypes.response = adopt(ExpressResponse.prototype, prototypes.response)
  return createServer(
    { ...options, IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse },
    (request, response) => onRequest(request as Request, response as Response),
  )
}

/** `prototype`, which from now on inherits what Express gave to `expressPrototype`. */
function adopt<T extends object>(prototype: object, expressPrototype: T): T {
  return Object.setPrototypeOf(prototype, expressPrototype) as T
}
