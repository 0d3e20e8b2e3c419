import type { AddressInfo, Socket } from 'node:net'
import type { Application, Request, Response } from 'express'
import type { Logger } from 'pino'
import { clientErrorListener } from './client-errors.ts'
import { createExpressServer } from './express-server.ts'
import { ARRIVAL_GRACE_MS, type Stopping } from './stopping.ts'

/** A server that answers itself what Node would otherwise answer, and that stops without cutting anyone off. */
export interface HttpServer {
  /** Where it listens. Rejects with the system's error when the address cannot be had. */
  listen(address: { readonly host: string; readonly port: number }): Promise<AddressInfo>
  /** Whether all was answered within `timeoutMs`; what was not is cut. */
  stop(timeoutMs: number): Promise<boolean>
}

export interface HttpServerOptions {
  readonly app: Application
  readonly stopping: Stopping
  readonly log: Logger
  readonly newRequestId: () => string
}

const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  /** Five seconds more than usual proxies keep a connection, so that it never closes under their next request. */
  keepAliveTimeout: 65_000,
  /** How often Node looks for connections that are over their time; every 30 s unless it is told. */
  connectionsCheckingInterval: 1000,
  maxHeaderSize: 16_384,
}

const MAX_CONNECTIONS = 10_000

const STOP_POLL_MS = 20

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { app, stopping, log, newRequestId } = options
  // A missing Host is left to the application, whose refusal looks like all others.
  const server = createExpressServer(app, { ...LIMITS, requireHostHeader: false })
  server.maxConnections = MAX_CONNECTIONS
  // Node drops headers over this count in silence; their size bounds their number.
  server.maxHeadersCount = 0

  const connectedAt = new Map<Socket, number>()
  const newest = new WeakMap<Socket, Response>()
  const unanswered = new Set<Response>()

  server.on('connection', socket => {
    connectedAt.set(socket, performance.now())
    if (stopping.hasBegun()) stopping.connected(socket)
    socket.once('close', () => connectedAt.delete(socket))
  })
  server.prependListener('request', (request: Request, response: Response) => {
    if (!request.url.startsWith('/')) toOriginForm(request)
    newest.set(request.socket, response)
    unanswered.add(response)
    response.once('close', () => unanswered.delete(response))
    if (stopping.hasBegun()) response.setHeader('Connection', 'close')
  })
  // An expectation that is not known may be ignored: RFC 9110 10.1.1.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  const refuse = clientErrorListener({ log, newRequestId, newestResponse: key => newest.get(key) })
  server.on('clientError', (error, socket) => refuse(error, socket as Socket))
  server.on('connect', (_request, socket) => refuse(new Error('no proxy'), socket as Socket))

  function listen(address: { host: string; port: number }): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(address, () => {
        server.removeListener('error', reject)
        resolve(server.address() as AddressInfo)
      })
    })
  }

  /** Closes the connections on which nothing is going on, once what was on its way had time to arrive. */
  function closeIdle(): void {
    const now = performance.now()
    server.closeIdleConnections()
    for (const [socket, since] of connectedAt) {
      // Node counts a connection that never sent a byte as busy.
      if (socket.bytesRead === 0 && now - since > ARRIVAL_GRACE_MS) socket.destroy()
    }
  }

  function stop(timeoutMs: number): Promise<boolean> {
    stopping.begin()
    for (const response of unanswered) {
      if (!response.headersSent) response.setHeader('Connection', 'close')
    }
    const begunAt = performance.now()
    return new Promise(resolve => {
      const poll = setInterval(() => {
        if (performance.now() - begunAt < ARRIVAL_GRACE_MS) return
        closeIdle()
        const isDone = [...connectedAt.keys()].every(stopping.isTooLate)
        // Until here newcomers are told to come back; from here on there is nobody left to tell them.
        if (isDone && server.listening) server.close()
        if (connectedAt.size === 0 && !server.listening) end(true)
      }, STOP_POLL_MS)
      const deadline = setTimeout(() => {
        server.close()
        server.closeAllConnections()
        end(false)
      }, timeoutMs)

      function end(answeredAll: boolean): void {
        clearInterval(poll)
        clearTimeout(deadline)
        resolve(answeredAll)
      }
    })
  }

  return { listen, stop }
}

const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i

/** A client that takes us for a proxy names scheme and host in the target, which then count: RFC 9112 3.2.2. */
function toOriginForm(request: Request): void {
  const [origin, host] = ABSOLUTE_FORM.exec(request.url) ?? []
  if (origin === undefined) return
  const rest = request.url.slice(origin.length)
  request.url = rest.startsWith('/') ? rest : `/${rest}`
  request.headers.host = host
}
