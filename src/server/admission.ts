import type { Request, Response } from 'express'
import { createNewcomers } from './newcomers.ts'
import type { ServerReport } from './server-report.ts'

/** Decides when a request is served, and whether. */
export interface Admission {
  /** Call for every new connection. */
  addConnection(): void
  /** Serves a request now or later, or refuses it. */
  admit(response: Response): void
  report(): Pick<ServerReport, 'waitingRequests' | 'shedRequests'>
}

export interface AdmissionOptions {
  /** The longest time that a request may wait for its turn. */
  readonly maxDelayMs: number
  /** The most requests that may wait. */
  readonly maxWaiting: number
  /** Called for refused requests too, with `isShed`. */
  readonly serve: (request: Request, response: Response) => void
}

/** How many requests are scheduled for a slice. Each has a callback of its own, so that all its work counts as its time. */
const BATCH = 1000

/**
 * Serves a request immediately while the event loop keeps up. Otherwise requests wait in a queue, which is served in
 * slices; between slices everything else has its turn. A request that waited too long, or finds the queue full, is
 * refused before anything is done for it. Health checks never wait.
 *
 * A 503 costs about as much CPU as a read, so shedding by load would save nothing. Requests are shed by how long they
 * waited: a client that retries immediately has at least waited first.
 */
export function createAdmission({ maxDelayMs, maxWaiting, serve }: AdmissionOptions): Admission {
  const newcomers = createNewcomers()
  const waiting: Response[] = []
  let turnStartedAt: number | undefined
  let sliceStartedAt: number | undefined
  /** How many requests of the batch have not had their callback yet. */
  let batchLeft = 0
  let shedRequests = 0

  function beginTurn(now: number): number {
    if (turnStartedAt === undefined) {
      turnStartedAt = now
      setImmediate(endTurn)
    }
    return turnStartedAt
  }

  function endTurn(): void {
    newcomers.endTurn(performance.now() - (turnStartedAt ?? 0))
    turnStartedAt = undefined
    if (batchLeft === 0) beginSlice()
  }

  function beginSlice(): void {
    sliceStartedAt = undefined
    const isAccepting = newcomers.isAccepting(performance.now())
    // Only an arrival begins a turn that `endTurn` ends.
    if (isAccepting) newcomers.endEmptyTurn()
    batchLeft = Math.min(waiting.length, isAccepting ? 1 : BATCH)
    for (let count = 0; count < batchLeft; count++) setImmediate(serveNext)
  }

  function serveNext(): void {
    const now = performance.now()
    sliceStartedAt ??= now
    if (hasTime(sliceStartedAt, now)) serveWaiting(waiting.shift() as Response, now)
    batchLeft--
    if (batchLeft === 0) beginSlice()
  }

  function hasTime(startedAt: number, now: number): boolean {
    return now - startedAt < newcomers.sliceMs() && !newcomers.isAccepting(now)
  }

  function serveWaiting(response: Response, now: number): void {
    const request: Request = response.req
    // The client hung up, or a malformed body was answered already.
    if (request.socket.destroyed || response.writableEnded) return
    if (now - request.arrivedAt > maxDelayMs) shed(request, response)
    else serve(request, response)
  }

  function shed(request: Request, response: Response): void {
    request.isShed = true
    shedRequests++
    serve(request, response)
  }

  /**
   * Whether waiting requests must be served before new ones. Not as soon as one waits: queued requests make work for
   * the garbage collector, and a thousand clients that read one user each would be served half as fast.
   */
  function isBehind(now: number): boolean {
    const [first] = waiting
    return first !== undefined && now - (first.req as Request).arrivedAt > maxDelayMs / 2
  }

  return {
    addConnection: () => {
      const now = performance.now()
      beginTurn(now)
      newcomers.add(now)
    },

    admit: response => {
      const request: Request = response.req
      const now = performance.now()
      request.arrivedAt = now
      if (isHealthCheck(request.url)) serve(request, response)
      else if (hasTime(beginTurn(now), now) && !isBehind(now)) serve(request, response)
      else if (waiting.length < maxWaiting) waiting.push(response)
      else shed(request, response)
    },

    report: () => ({ waitingRequests: waiting.length, shedRequests }),
  }
}

function isHealthCheck(url: string): boolean {
  return /^\/(?:livez|readyz)(?:$|\?)/.test(url)
}
