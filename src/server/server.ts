import type { AddressInfo, Socket } from 'node:net'
import type { Application, Request, Response } from 'express'
import type { Logger } from 'pino'
import { isLoopback } from '../config/values.ts'
import type { RequestMetrics } from '../http/request-metrics.ts'
import { createAdmission } from './admission.ts'
import { createClientErrorListener } from './client-errors.ts'
import { type Connection, createConnections } from './connections.ts'
import { createExpressServer } from './express-server.ts'
import { toOriginForm } from './origin-form.ts'
import { createPipelining } from './pipelining.ts'
import type { ServerReport } from './server-report.ts'
import { createStop } from './stop.ts'
import type { Stopping } from './stopping.ts'

/** An HTTP server that limits what clients can use up. When it stops, it still answers every request sent before. */
export interface HttpServer {
  /** Resolves to the address it listens on. Rejects with the system's error when it cannot be bound. */
  listen(address: { readonly host: string; readonly port: number }): Promise<AddressInfo>
  /** Whether it listens on an address that only programs of this machine can reach. */
  isOnLoopback(): boolean
  /** Serves a connection that did not arrive through the port. */
  accept(socket: Socket): void
  report(): ServerReport
  /** Stops the server. Resolves to whether every request was answered within `timeoutMs`; the rest are cut off. */
  stop(timeoutMs: number): Promise<boolean>
}

export interface HttpServerOptions {
  readonly app: Application
  readonly stopping: Stopping
  readonly log: Logger
  readonly newRequestId: () => string
  /** Counts the requests that do not reach `app`. Nothing is counted if left out. */
  readonly metrics?: Pick<RequestMetrics, 'addMalformed'> | undefined
  readonly capacity: Capacity
  readonly timeouts?: Timeouts
  /** Called for a request that may have been sent after others of its turn of the event loop were served. */
  readonly onLateRequest: () => void
}

/** The server refuses requests and closes connections beyond these numbers. */
export interface Capacity {
  readonly maxConnections: number
  /** The longest time that a request may wait for its turn. */
  readonly maxEventLoopDelayMs: number
  readonly maxWaitingRequests: number
}

/** How long a client may take, in milliseconds. */
export interface Timeouts {
  /** To send the headers of a request. */
  readonly headersMs: number
  /** To send a whole request. */
  readonly requestMs: number
  /** To receive some bytes of a response. */
  readonly takeMs: number
  /** How often the other times are checked. */
  readonly checkEveryMs: number
}

const TIMEOUTS: Timeouts = {
  headersMs: 10_000,
  requestMs: 25_000,
  takeMs: 30_000,
  checkEveryMs: 1000,
}

/**
 * Five seconds longer than common proxies keep an idle connection, so that the proxy closes it first and loses no request.
 */
const KEEP_ALIVE_MS = 65_000

const MAX_HEADER_BYTES = 16_384

/**
 * How many connections the system may hold until they are accepted; it may reduce the number. Further clients try again after
 * a second. Node's default of 511 is too low for a thousand clients at once.
 */
const LISTEN_BACKLOG = 4096

/** A server for `app` that does not listen yet. If `timeouts` is left out, `TIMEOUTS` apply. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { app, stopping, capacity, timeouts = TIMEOUTS, onLateRequest } = options
  const server = createExpressServer(app, nodeOptions(timeouts), receive)
  // A client may end its side and wait for its responses. Without this, Node closes its connection.
  Object.assign(server, { httpAllowHalfOpen: true })
  // Node drops headers over this count without an error; MAX_HEADER_BYTES bounds their number anyway.
  server.maxHeadersCount = 0

  const connections = createConnections({
    maxConnections: capacity.maxConnections,
    takeTimeoutMs: timeouts.takeMs,
    checkEveryMs: timeouts.checkEveryMs,
  })
  const admission = createAdmission({
    maxDelayMs: capacity.maxEventLoopDelayMs,
    maxWaiting: capacity.maxWaitingRequests,
    serve: app,
  })
  const serveInOrder = createPipelining({ serve, onWaiting: onLateRequest })
  const stop = createStop({ server, connections, stopping, backlog: LISTEN_BACKLOG })
  let isOnLoopback = false
  const newestResponse = (socket: Socket) => connections.get(socket)?.newest
  const refuse = createClientErrorListener({ ...options, newestResponse })

  server.on('connection', socket => {
    stop.addConnection(socket)
    // This client was gone before it was accepted, and without an address no limit could count it. Node remembers an address
    // that was read once, so clients that leave later have one.
    if (socket.remoteAddress === undefined) {
      socket.destroy()
      return
    }
    connections.add(socket)
    admission.addConnection()
    socket.on('end', () => refuseUnfinished(socket))
  })
  // Unknown expectations may be ignored: RFC 9110 10.1.1.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('clientError', (error, socket) => refuse(error, socket as Socket))
  server.on('connect', (_request, socket) => {
    watchTunnel(socket as Socket, timeouts.headersMs)
    refuse(new Error('no proxy'), socket as Socket)
  })

  function receive(request: Request, response: Response): void {
    if (!request.url.startsWith('/')) toOriginForm(request)
    const connection = connections.get(request.socket)
    // A connection that was just closed may still deliver a request.
    if (connection !== undefined) serveInOrder(response, connection)
  }

  function serve(response: Response, connection: Connection): void {
    const isLast = connection.waiting.length === 0 && !connection.isHeld
    const mustClose = (stopping.hasBegun() && isLast) || isEndUncertain(response.req)
    if (mustClose) response.setHeader('Connection', 'close')
    admission.admit(response)
  }

  /**
   * After a request to upgrade, Node reports no error for malformed bytes, and the request would wait forever for its end.
   */
  function refuseUnfinished(socket: Socket): void {
    const newest = newestResponse(socket)
    const isUnfinished = newest !== undefined && !newest.req.complete && !newest.headersSent
    if (isUnfinished) refuse(new Error('the request has no end'), socket)
  }

  function listen(address: { host: string; port: number }): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ ...address, backlog: LISTEN_BACKLOG }, () => {
        server.removeListener('error', reject)
        const bound = server.address() as AddressInfo
        isOnLoopback = isLoopback(bound.address)
        resolve(bound)
      })
    })
  }

  return {
    listen,
    isOnLoopback: () => isOnLoopback,
    accept: socket => void server.emit('connection', socket),
    report: () => ({ connections: connections.size, ...admission.report() }),
    stop: stop.run,
  }
}

function nodeOptions(timeouts: Timeouts) {
  return {
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    connectionsCheckingInterval: timeouts.checkEveryMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    // The application refuses a missing Host itself, in the format of all other errors.
    requireHostHeader: false,
  }
}

/**
 * After CONNECT, Node detaches the socket. Without these handlers an error would crash the process, unread data would
 * keep the connection open, and no timeout would apply.
 */
function watchTunnel(socket: Socket, timeoutMs: number): void {
  const deadline = setTimeout(() => socket.destroy(), timeoutMs)
  socket.once('close', () => clearTimeout(deadline))
  socket.on('error', () => {}).resume()
}

/**
 * Whether the bytes after a request may be lost, or may be no request. Node drops those after a request to upgrade that is
 * not granted. HTTP/1.0 has no chunks, so a proxy may have seen another end of the body: RFC 9112 6.1.
 */
function isEndUncertain({ httpVersionMinor, headers }: Request): boolean {
  const isChunked = headers['transfer-encoding'] !== undefined
  return headers.upgrade !== undefined || (httpVersionMinor === 0 && isChunked)
}
