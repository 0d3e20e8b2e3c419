import type { Application, Request, Response } from 'express'
import { performance, setImmediate } from '../platform/timers.ts'

/** A server refuses requests and closes connections beyond these numbers. */
export interface Capacity {
  readonly maxConnections: number
  /** The longest time that a request may wait for its turn. */
  readonly maxEventLoopDelayMs: number
  readonly maxWaitingRequests: number
}

const HEALTH_CHECK = /^\/(?:livez|readyz)(?:$|\?)/

/** How long requests are served until everything else has its turn. */
const SLICE_MS = 75

/** While clients connect, requests are served and connections accepted for this long in turn. */
const ACCEPTING_MS = 20

/** A turn of the event loop that takes longer makes connecting clients wait. */
const LONG_TURN_MS = 5

/** After this many turns without a new connection nobody is waiting to connect. */
const CONNECTING_TURNS = 3

/**
 * How many requests are scheduled at a time. Each has a callback of its own, so what it defers runs within the slice
 * too.
 */
const BATCH = 1000

/**
 * Decides when a request is served, and whether. It is served immediately while the event loop keeps up. Otherwise requests
 * wait in a queue, which is served in slices; between slices everything else has its turn. A request that waited too long,
 * or finds the queue full, is served with `isShed`, before anything is done for it. Health checks never wait.
 *
 * A 503 costs about as much CPU as a read, so shedding by load would save nothing. Requests are shed by how long they
 * waited: a client that retries immediately has at least waited first.
 */
export function createAdmission(capacity: Capacity, serve: Application) {
  const { maxEventLoopDelayMs, maxWaitingRequests } = capacity
  const waiting: Response[] = []
  let shedRequests = 0
  let turnStartedAt: number | undefined
  let lastTurnMs = 0
  let sliceStartedAt: number | undefined
  /** How many requests of the batch have not had their callback yet. */
  let batchLeft = 0
  /** In how many turns, this one included, more connections are expected. */
  let connectingTurns = 0
  let acceptingUntil = 0

  function beginTurn(now: number): number {
    if (turnStartedAt === undefined) setImmediate(endTurn, now)
    turnStartedAt ??= now
    return turnStartedAt
  }

  function endTurn(startedAt: number): void {
    turnStartedAt = undefined
    lastTurnMs = performance.now() - startedAt
    if (batchLeft === 0) beginSlice()
  }

  function beginSlice(): void {
    sliceStartedAt = undefined
    batchLeft = Math.min(waiting.length, isAccepting(performance.now()) ? 1 : BATCH)
    if (connectingTurns > 0) connectingTurns--
    for (let count = 0; count < batchLeft; count++) setImmediate(serveNext)
  }

  function serveNext(): void {
    const now = performance.now()
    sliceStartedAt ??= now
    if (hasTime(sliceStartedAt, now)) serveWaiting(waiting.shift() as Response, now)
    if (--batchLeft === 0) beginSlice()
  }

  function hasTime(startedAt: number, now: number): boolean {
    return now - startedAt < (connectingTurns > 0 ? ACCEPTING_MS : SLICE_MS) && !isAccepting(now)
  }

  function isAccepting(now: number): boolean {
    return connectingTurns > 0 && now < acceptingUntil
  }

  function serveWaiting(response: Response, now: number): void {
    const request: Request = response.req
    // The client hung up, or a malformed body was answered already.
    if (request.socket.destroyed || response.writableEnded) return
    if (now - request.arrival.at > maxEventLoopDelayMs) shed(request, response)
    else serve(request, response)
  }

  function shed(request: Request, response: Response): void {
    request.arrival.isShed = true
    shedRequests++
    serve(request, response)
  }

  /**
   * Whether waiting requests must be served before new ones. Not as soon as one waits: queued requests make work for
   * the garbage collector, and a thousand clients that read one user each would be served half as fast.
   */
  function isBehind(now: number): boolean {
    const [first] = waiting
    return first !== undefined && now - (first.req as Request).arrival.at > maxEventLoopDelayMs / 2
  }

  /** Call for each request that is to be served now or later. */
  function admit(response: Response): void {
    const request: Request = response.req
    const now = performance.now()
    request.arrival.at = now
    if (HEALTH_CHECK.test(request.url)) serve(request, response)
    else if (hasTime(beginTurn(now), now) && !isBehind(now)) serve(request, response)
    else if (waiting.length < maxWaitingRequests) waiting.push(response)
    else shed(request, response)
  }

  /**
   * Call for every new connection. libuv may accept only one in each turn of the event loop, so that only turns in which
   * nothing is served accept many.
   */
  function expectConnections(): void {
    const now = performance.now()
    beginTurn(now)
    connectingTurns = CONNECTING_TURNS
    const isTheirTurn = now > acceptingUntil + ACCEPTING_MS
    if (isTheirTurn && lastTurnMs > LONG_TURN_MS) acceptingUntil = now + ACCEPTING_MS
  }

  const report = () => ({ waitingRequests: waiting.length, shedRequests })
  return { admit, expectConnections, report }
}
