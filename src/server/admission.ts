import type { Request, Response } from 'express'

export interface AdmissionOptions {
  /** The longest time that a request may wait for its turn. */
  readonly maxEventLoopDelayMs: number
  /** The most requests that may wait. */
  readonly maxWaitingRequests: number
  /** Called for refused requests too, with `isShed`. */
  readonly serve: (request: Request, response: Response) => void
}

/** A part of a turn of the event loop. */
interface Slice {
  /** By `performance.now()`; `undefined` before its first request. */
  startedMs: number | undefined
}

/** How long requests are served until everything else has its turn. */
const SLICE_MS = 75

/**
 * The same while clients connect, and for `CONNECTING_MS` after each of them: libuv may accept only one connection in each
 * turn of the event loop, so that only short turns accept many.
 */
const SHORT_SLICE_MS = 2

const CONNECTING_MS = 20

/**
 * Decides when a request is served, and whether. It is served immediately while the event loop keeps up. Otherwise requests
 * wait for a slice of a later turn; between slices everything else has its turn. A request that waited too long, or finds
 * too many waiting, is refused before anything is done for it. Health checks never wait.
 *
 * A 503 costs about as much CPU as a read, so shedding by load would save nothing. Requests are shed by how long they
 * waited: a client that retries immediately has at least waited first.
 */
export function createAdmission(options: AdmissionOptions) {
  const { maxEventLoopDelayMs, maxWaitingRequests, serve } = options
  const ofNew: Slice = { startedMs: undefined }
  const ofWaiting: Slice = { startedMs: undefined }
  let waitingRequests = 0
  let shedRequests = 0
  /** When the request arrived that was the last to wait no longer. */
  let reachedMs = 0
  let connectingUntilMs = 0

  function shed(request: Request, response: Response): void {
    request.isShed = true
    shedRequests++
    serve(request, response)
  }

  /** Each has a callback of its own, so that all its work counts as its time. They are called in the order of arrival. */
  function serveWaiting(response: Response): void {
    const request: Request = response.req
    const nowMs = performance.now()
    if (!hasTime(ofWaiting, nowMs)) {
      setImmediate(serveWaiting, response)
      return
    }
    waitingRequests--
    reachedMs = request.arrivedAt
    // The client hung up, or a malformed body was answered already.
    if (request.socket.destroyed || response.writableEnded) return
    if (nowMs - request.arrivedAt > maxEventLoopDelayMs) shed(request, response)
    else serve(request, response)
  }

  function hasTime(slice: Slice, nowMs: number): boolean {
    if (slice.startedMs === undefined) {
      slice.startedMs = nowMs
      setImmediate(() => {
        slice.startedMs = undefined
      })
    }
    return nowMs - slice.startedMs < (nowMs < connectingUntilMs ? SHORT_SLICE_MS : SLICE_MS)
  }

  /**
   * Whether waiting requests must be served before new ones. Not as soon as one waits: queued requests make work for
   * the garbage collector, and a thousand clients that read one user each would be served half as fast.
   */
  function isBehind(nowMs: number): boolean {
    return waitingRequests > 0 && nowMs - reachedMs > maxEventLoopDelayMs / 2
  }

  /** Call for each request that is to be served now or later. */
  function admit(response: Response): void {
    const request: Request = response.req
    const nowMs = performance.now()
    request.arrivedAt = nowMs
    if (isHealthCheck(request.url)) serve(request, response)
    else if (hasTime(ofNew, nowMs) && !isBehind(nowMs)) serve(request, response)
    else if (waitingRequests < maxWaitingRequests) {
      if (waitingRequests === 0) reachedMs = nowMs
      waitingRequests++
      setImmediate(serveWaiting, response)
    } else shed(request, response)
  }

  /** Call for every new connection. */
  function addConnection(): void {
    connectingUntilMs = performance.now() + CONNECTING_MS
  }

  return { admit, addConnection, report: () => ({ waitingRequests, shedRequests }) }
}

function isHealthCheck(url: string): boolean {
  return /^\/(?:livez|readyz)(?:$|\?)/.test(url)
}
