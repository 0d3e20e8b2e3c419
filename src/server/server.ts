import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import type { Application, Request, Response } from 'express'
import { isLoopback } from '../config/values.ts'
import { createExpressServer } from '../http/fast/express-server.ts'
import { TAKE_MS } from '../http/stream.ts'
import { clearInterval, setInterval } from '../platform/timers.ts'
import { type Capacity, createAdmission } from './admission.ts'
import { type ClientErrorOptions, createClientErrorListener } from './client-errors.ts'
import {
  addConnection,
  type Connection,
  type Connections,
  closeStalled,
  newestResponse,
} from './connections.ts'
import { createPipelining } from './pipelining.ts'
import { LISTEN_BACKLOG, type Stopping } from './stop.ts'

/** An HTTP server that limits what clients can use up. When it stops, it still answers every request sent before. */
export type HttpServer = ReturnType<typeof createHttpServer>

export interface HttpServerOptions extends Omit<ClientErrorOptions, 'connections'> {
  readonly app: Application
  readonly stopping: Stopping
  readonly capacity: Capacity
  /** How long an idle connection stays open. */
  readonly keepAliveTimeoutMs: number
  readonly timeouts?: Timeouts
  /** Called for a request that may have been sent after another one of the same turn of the event loop was served. */
  readonly onLateRequest: () => void
}

/**
 * How long a client may take to send the headers of a request, to send all of it, and to accept some bytes of a response, in
 * milliseconds; and how often that is checked.
 */
const TIMEOUTS = { headersMs: 10_000, requestMs: 25_000, takeMs: TAKE_MS, checkEveryMs: 1000 }

export type Timeouts = Readonly<typeof TIMEOUTS>

/** A server for `app` that does not listen yet. If `timeouts` is left out, `TIMEOUTS` apply. */
export function createHttpServer(options: HttpServerOptions) {
  const { app, stopping, capacity, timeouts = TIMEOUTS, onLateRequest } = options
  const server = createExpressServer(
    app,
    {
      headersTimeout: timeouts.headersMs,
      requestTimeout: timeouts.requestMs,
      connectionsCheckingInterval: timeouts.checkEveryMs,
      keepAliveTimeout: options.keepAliveTimeoutMs,
      maxHeaderSize: 16_384,
      // The application refuses a missing Host itself, in the format of all other errors.
      requireHostHeader: false,
    },
    receive,
  )
  // A client may end its side and wait for its responses. Without this, Node closes its connection.
  Object.assign(server, { httpAllowHalfOpen: true })
  // Node drops headers over this count without an error; maxHeaderSize bounds their number anyway.
  server.maxHeadersCount = 0

  let isOnLoopback = false
  const connections: Connections = new Map()
  const { takeMs, checkEveryMs } = timeouts
  const checking = setInterval(() => closeStalled(connections, takeMs), checkEveryMs).unref()
  const admission = createAdmission(capacity, app)
  const serveInOrder = createPipelining(serve, onLateRequest)
  const refuse = createClientErrorListener({ ...options, connections })

  server.on('connection', socket => {
    // This client was gone before it was accepted, and without an address no limit could count it. Node remembers an address
    // that was read once, so clients that leave later have one.
    if (socket.remoteAddress === undefined) {
      socket.destroy()
      return
    }
    // Node reports no error for the body of a request to upgrade that ends early.
    socket.on('end', () => {
      const newest = newestResponse(connections, socket)
      if (newest?.req.complete === false && !newest.headersSent) refuse(new Error('no end'), socket)
    })
    addConnection(connections, socket, capacity.maxConnections)
    admission.expectConnections()
  })
  // The client is told to continue only when the body is read. If the head alone decides, no body is sent.
  server.on('checkContinue', (request: Request, response: Response) => {
    receive(request, response, true)
  })
  // Unknown expectations may be ignored: RFC 9110 10.1.1.
  server.on('checkExpectation', (request: Request, response: Response) =>
    receive(request, response),
  )
  server.on('clientError', (error, socket) => refuse(error, socket as Socket))
  server.on('connect', (_request, socket) => {
    // Node has detached the socket: without a listener, an error would end the process.
    socket.on('error', () => {}).on('finish', () => socket.destroy())
    refuse(new Error('no proxy'), socket.resume() as Socket)
  })

  function receive(request: Request, response: Response, awaitsContinue = false): void {
    request.arrival = {
      at: 0,
      targetScheme: undefined,
      awaitsContinue,
      isShed: false,
      isTooLate: stopping.isTooLate(request.socket),
      isOnLoopback,
    }
    if (!request.url.startsWith('/')) toOriginForm(request)
    if (request.headers.upgrade !== undefined) {
      closeAfterUncertainOffer(response, stopping.hasBegun)
    }
    const connection = connections.get(request.socket)
    // A connection that was just closed may still deliver a request.
    if (connection !== undefined) serveInOrder(response, connection)
  }

  function serve(response: Response, connection: Connection): void {
    const isLast = stopping.hasBegun() && connection.waiting.length === 0
    if (isLast || isEndUncertain(response.req)) response.setHeader('Connection', 'close')
    admission.admit(response)
  }

  return {
    /** Resolves to the address it listens on. Rejects with the system's error when it cannot be bound. */
    listen: async (address: { readonly host: string; readonly port: number }) => {
      await once(server.listen({ ...address, backlog: LISTEN_BACKLOG }), 'listening')
      const bound = server.address() as AddressInfo
      isOnLoopback = isLoopback(bound.address)
      return bound
    },
    /** Serves a connection that did not arrive through the port. */
    accept: (socket: Socket) => void server.emit('connection', socket),
    /** Open connections, requests that wait for their turn, and how many were shed since the start. */
    report: () => ({ connections: connections.size, ...admission.report() }),
    /** Stops the server. Resolves to whether every request was answered within `timeoutMs`; the rest are cut off. */
    stop: (timeoutMs: number): Promise<boolean> =>
      stopping.run({ server, connections, timeoutMs }).finally(() => clearInterval(checking)),
  }
}

/** Whether a proxy may have seen another end of the body: HTTP/1.0 has no chunks (RFC 9112 6.1). */
function isEndUncertain({ httpVersionMinor, headers }: Request): boolean {
  return httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined
}

const ABSOLUTE_FORM = /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#]*@)?([^/?#]*)(.*)/is

/**
 * Turns a target in absolute form (`GET http://host/path`), as clients send it to a proxy, into a path. The host of the
 * target replaces the Host header: RFC 9112 3.2.2.
 */
function toOriginForm(request: Request): void {
  const [, scheme, host, rest] = ABSOLUTE_FORM.exec(request.url) ?? []
  if (rest === undefined) return
  request.arrival.targetScheme = scheme?.toLowerCase()
  request.url = rest.startsWith('/') ? rest : `/${rest}`
  request.headers.host = host
}

const HEAD_END = '\r\n\r\n'

/** The part of Node's parser that a server may ask while a request begins: the bytes that it reads. */
interface Parser {
  getCurrentBuffer?(): Buffer
}

/**
 * Closes the connection of a request that offers an upgrade, as Java's client does for h2c on each, unless it is certain that nothing
 * came with it: no offer is granted, but Node's parser drops what follows such a request in the same packet, and a proxy may have
 * seen a request there. Call it when the request has just begun.
 */
function closeAfterUncertainOffer(response: Response, isStopping: () => boolean): void {
  const { req: request } = response
  const end = endOfOffer(request)
  if (end === request.socket.bytesRead) return
  response.setHeader('Connection', 'close')
  if (end === undefined || end < request.socket.bytesRead) return
  // The rest of its body is still to come.
  request.once('end', () => {
    const isCertain = request.socket.bytesRead === end && !response.headersSent && !isStopping()
    if (isCertain) response.setHeader('Connection', 'keep-alive')
  })
}

/**
 * Where the request ends, in bytes of its connection. `undefined` if that is not certain: only where the packet begins with it, and
 * no other head ends there, whatever the parser takes for the end of a line.
 */
function endOfOffer({ method, headers, socket }: Request): number | undefined {
  const { parser } = socket as unknown as { readonly parser?: Parser }
  const packet = parser?.getCurrentBuffer?.().toString('latin1') ?? ''
  const [head = '', body, ...more] = packet.split(HEAD_END)
  const isAlone = body !== undefined && more.length === 0 && head.startsWith(`${method} `)
  if (!isAlone || /(?:^|[^\r])\n/.test(head) || headers['transfer-encoding'] !== undefined) {
    return undefined
  }
  return socket.bytesRead - body.length + Number(headers['content-length'] ?? 0)
}
