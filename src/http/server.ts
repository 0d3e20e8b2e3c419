import type { AddressInfo, Socket } from 'node:net'
import type { Application, Request, Response } from 'express'
import type { Logger } from 'pino'
import { createAdmission } from './admission.ts'
import { clientErrorListener } from './client-errors.ts'
import { createConnections } from './connections.ts'
import { createExpressServer } from './express-server.ts'
import { createPipelining } from './pipelining.ts'
import type { Stopping } from './stopping.ts'

/** A server that answers itself what Node would otherwise answer, and that stops without cutting anyone off. */
export interface HttpServer {
  /** Where it listens. Rejects with the system's error when the address cannot be had. */
  listen(address: { readonly host: string; readonly port: number }): Promise<AddressInfo>
  /** Serves a connection that did not come by a port. */
  accept(socket: Socket): void
  /** Whether all was answered within `timeoutMs`; what was not is cut. */
  stop(timeoutMs: number): Promise<boolean>
}

export interface HttpServerOptions {
  readonly app: Application
  readonly stopping: Stopping
  readonly log: Logger
  readonly newRequestId: () => string
  readonly capacity: Capacity
  readonly timeouts?: Timeouts
}

/** Past which requests are refused and connections closed. */
export interface Capacity {
  readonly maxConnections: number
  /** How long a request may wait for its turn. */
  readonly maxEventLoopDelayMs: number
  /** How many may wait for theirs. */
  readonly maxWaitingRequests: number
}

/** How long clients may take, in milliseconds. */
export interface Timeouts {
  /** For the headers of a request. */
  readonly headersMs: number
  /** For a whole request. */
  readonly requestMs: number
  /** For taking an answer. */
  readonly takeMs: number
  /** How often it is looked for those that are over their time. */
  readonly checkEveryMs: number
}

const TIMEOUTS: Timeouts = {
  headersMs: 10_000,
  requestMs: 25_000,
  takeMs: 30_000,
  checkEveryMs: 1000,
}

/** Five seconds more than usual proxies keep a connection, so that it never closes under their next request. */
const KEEP_ALIVE_MS = 65_000

const MAX_HEADER_BYTES = 16_384

/**
 * How many connections the system holds until they are taken, which it may take for fewer. A client for whom there is
 * no room tries again after a second; with the 511 that Node asks for, a crowd of a thousand is too many.
 */
const LISTEN_BACKLOG = 4096

const STOP_TURN_MS = 20

/**
 * How many turns of a stop a request may be on its way: what was sent before is still served. Turns and not
 * time, because in each of them all that has arrived is read, however long a busy process takes over it.
 */
const ARRIVAL_TURNS = 5

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { app, stopping, log, newRequestId, capacity, timeouts = TIMEOUTS } = options
  const { maxConnections, maxEventLoopDelayMs, maxWaitingRequests } = capacity
  const serverOptions = {
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    connectionsCheckingInterval: timeouts.checkEveryMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    // A missing Host is left to the application, whose refusal looks like all others.
    requireHostHeader: false,
  }
  const server = createExpressServer(app, serverOptions, receive)
  // Node drops headers over this count in silence; their size bounds their number.
  server.maxHeadersCount = 0

  let stopTurn = 0
  let connectionCount = 0
  const connections = createConnections({
    maxConnections,
    takeTimeoutMs: timeouts.takeMs,
    checkEveryMs: timeouts.checkEveryMs,
  })
  const admission = createAdmission({
    maxDelayMs: maxEventLoopDelayMs,
    maxWaiting: maxWaitingRequests,
    serve: app,
  })
  const takeInTurn = createPipelining((response, connection) => {
    const isLast = connection.waiting.length === 0 && !connection.isHeld
    const isTheEnd = (stopping.hasBegun() && isLast) || isEndDoubtful(response.req)
    if (isTheEnd) response.setHeader('Connection', 'close')
    admission.take(response)
  })

  server.on('connection', socket => {
    connectionCount++
    // Of a client that is gone before it is taken nobody knows the address, and no limit could count what it sent.
    // Asked for now, Node keeps the address for a client that is gone later.
    if (socket.remoteAddress === undefined) {
      socket.destroy()
      return
    }
    stopping.connected(socket)
    connections.add(socket, stopTurn)
    admission.connected()
  })
  // An expectation that is not known may be ignored: RFC 9110 10.1.1.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  const newestResponse = (socket: Socket) => connections.get(socket)?.newest
  const refuse = clientErrorListener({ log, newRequestId, newestResponse })
  server.on('clientError', (error, socket) => refuse(error, socket as Socket))
  server.on('connect', (_request, socket) => {
    forgetTunnel(socket as Socket, timeouts.headersMs)
    refuse(new Error('no proxy'), socket as Socket)
  })

  function receive(request: Request, response: Response): void {
    if (!request.url.startsWith('/')) toOriginForm(request)
    const connection = connections.get(request.socket)
    // Of a connection that was just closed, a request may still be under way.
    if (connection !== undefined) takeInTurn(response, connection)
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
    for (const { socket, stopTurn: madeInTurn } of connections.values()) {
      if (socket.bytesRead > 0) continue
      if (stopTurn - madeInTurn < ARRIVAL_TURNS) isAnyoneNew = true
      else socket.destroy()
    }
    // Node 26 takes a connection for idle whose first request is still on its way.
    if (!isAnyoneNew) server.closeIdleConnections()
    return [...connections.values()].filter(({ socket }) => !socket.destroyed).length
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
    const areAllLate = [...connections.values()].every(({ socket }) => stopping.isTooLate(socket))
    // Until here newcomers are told to come back; from here on there is nobody left to tell them.
    if (areAllLate && server.listening) server.close()
  }

  function stop(timeoutMs: number): Promise<boolean> {
    stopping.begin()
    for (const { newest, isHeld } of connections.values()) {
      // Behind the newest of one that is held there may be more, which has not been read yet.
      if (newest?.headersSent === false && !isHeld) newest.setHeader('Connection', 'close')
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

  return { listen, accept: socket => void server.emit('connection', socket), stop }
}

/**
 * Node lets go of a connection that asks for a tunnel: nobody else hears of its errors, which would end the process,
 * reads to its end, without which it is never closed, or looks at how long it takes.
 */
function forgetTunnel(socket: Socket, timeoutMs: number): void {
  const deadline = setTimeout(() => socket.destroy(), timeoutMs)
  socket.once('close', () => clearTimeout(deadline))
  socket.on('error', () => {}).resume()
}

/**
 * Whether what comes behind a request may be lost or be no request. Node drops the bytes behind a wish to upgrade
 * that nobody heeds. And HTTP/1.0 knows no chunks: who passed them on may have seen another end. RFC 9112 6.1.
 */
function isEndDoubtful({ httpVersionMinor, headers }: Request): boolean {
  const isChunked = headers['transfer-encoding'] !== undefined
  return headers.upgrade !== undefined || (httpVersionMinor === 0 && isChunked)
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
