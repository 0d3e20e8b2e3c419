import type { AddressInfo, Socket } from 'node:net'
import type { Application, Request, Response } from 'express'
import type { Logger } from 'pino'
import { clientErrorListener } from './client-errors.ts'
import { createExpressServer } from './express-server.ts'
import type { Stopping } from './stopping.ts'

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

interface Connection {
  /** In which turn of a stop it was made; 0 before a stop. */
  readonly stopTurn: number
  newestResponse: Response | undefined
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

/** How many connections the system holds until they are taken: what Node asks for by itself. */
const LISTEN_BACKLOG = 511

const STOP_TURN_MS = 20

/**
 * How many turns of a stop a request may be on its way: what was sent before is still served. Turns and not
 * time, because in each of them all that has arrived is read, however long a busy process takes over it.
 */
const ARRIVAL_TURNS = 5

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { app, stopping, log, newRequestId } = options
  // A missing Host is left to the application, whose refusal looks like all others.
  const server = createExpressServer(app, { ...LIMITS, requireHostHeader: false }, prepare)
  server.maxConnections = MAX_CONNECTIONS
  // Node drops headers over this count in silence; their size bounds their number.
  server.maxHeadersCount = 0

  let stopTurn = 0
  let connectionCount = 0
  const connections = new Map<Socket, Connection>()

  server.on('connection', socket => {
    connectionCount++
    // Of a client that is gone before it is taken nobody knows the address, and no limit could count what it sent.
    // Asked for now, Node keeps the address for a client that is gone later.
    if (socket.remoteAddress === undefined) {
      socket.destroy()
      return
    }
    stopping.connected(socket)
    connections.set(socket, { stopTurn, newestResponse: undefined })
    socket.once('close', () => connections.delete(socket))
  })
  // An expectation that is not known may be ignored: RFC 9110 10.1.1.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  const newestResponse = (socket: Socket) => connections.get(socket)?.newestResponse
  const refuse = clientErrorListener({ log, newRequestId, newestResponse })
  server.on('clientError', (error, socket) => refuse(error, socket as Socket))
  server.on('connect', (_request, socket) => refuse(new Error('no proxy'), socket as Socket))

  function prepare(request: Request, response: Response): void {
    if (!request.url.startsWith('/')) toOriginForm(request)
    const connection = connections.get(request.socket)
    if (connection !== undefined) connection.newestResponse = response
    if (stopping.hasBegun()) response.setHeader('Connection', 'close')
  }

  function listen(address: { host: string; port: number }): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ ...address, backlog: LISTEN_BACKLOG }, () => {
        server.removeListener('error', reject)
        resolve(server.address() as AddressInfo)
      })
    })
  }

  /** Closes the connections on which nothing is going on; how many are left. */
  function closeIdle(): number {
    let isAnyoneNew = false
    for (const [socket, connection] of connections) {
      if (socket.bytesRead > 0) continue
      if (stopTurn - connection.stopTurn < ARRIVAL_TURNS) isAnyoneNew = true
      else socket.destroy()
    }
    // Node 26 takes a connection for idle whose first request is still on its way.
    if (!isAnyoneNew) server.closeIdleConnections()
    return [...connections.keys()].filter(socket => !socket.destroyed).length
  }

  /**
   * The system may hold connections that were made before the stop, and libuv may take one of them a turn of the
   * event loop: newcomers are those that come once a turn brought none, or more than could be held.
   */
  function refuseNewcomers(countAtStop: number): void {
    const countBefore = connectionCount
    setImmediate(() => {
      const isEmpty = connectionCount === countBefore
      if (isEmpty || connectionCount - countAtStop > LISTEN_BACKLOG) stopping.refuseNewcomers()
      else refuseNewcomers(countAtStop)
    })
  }

  function takeStopTurn(countAtStop: number): void {
    stopTurn++
    if (stopTurn === ARRIVAL_TURNS) refuseNewcomers(countAtStop)
    if (!stopping.refusesNewcomers()) return
    closeIdle()
    const areAllLate = [...connections.keys()].every(stopping.isTooLate)
    // Until here newcomers are told to come back; from here on there is nobody left to tell them.
    if (areAllLate && server.listening) server.close()
  }

  function stop(timeoutMs: number): Promise<boolean> {
    stopping.begin()
    for (const { newestResponse: response } of connections.values()) {
      if (response?.headersSent === false) response.setHeader('Connection', 'close')
    }
    const countAtStop = connectionCount
    return new Promise(resolve => {
      const turns = setInterval(() => {
        // Behind the reads of this turn of the event loop, not before them.
        setImmediate(takeStopTurn, countAtStop)
        if (connections.size === 0 && !server.listening) end(true)
      }, STOP_TURN_MS)
      const deadline = setTimeout(() => {
        server.close()
        stopTurn += ARRIVAL_TURNS
        const answeredAll = closeIdle() === 0
        server.closeAllConnections()
        end(answeredAll)
      }, timeoutMs)

      function end(answeredAll: boolean): void {
        clearInterval(turns)
        clearTimeout(deadline)
        resolve(answeredAll)
      }
    })
  }

  return { listen, stop }
}

const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i

/** A client that takes us for a proxy names scheme and host in the target, which then count: RFC 9112 3.2.2. */
function toOriginForm(request: Request): void {
  const [origin, host] = ABSOLUTE_FORM.exec(request.url) ?? []
  if (origin === undefined) return
  const rest = request.url.slice(origin.length)
  request.url = rest.startsWith('/') ? rest : `/${rest}`
  request.headers.host = host
}
