import type { Request, Response } from 'express'

declare global {
  namespace Express {
    interface Request {
      /** When its turn came up, by `performance.now()`. */
      arrivedAt: number
      /** Whether it is to be refused because there is too much to do. */
      isShed?: boolean
    }
  }
}

/** Decides when a request is served, and whether. */
export interface Admission {
  /** To be told of each new connection. */
  connected(): void
  /** Serves a request: now, later, or by its refusal. */
  take(response: Response): void
}

export interface AdmissionOptions {
  /** How long a request may wait for its turn. */
  readonly maxDelayMs: number
  /** How many requests may wait for theirs. */
  readonly maxWaiting: number
  readonly serve: (request: Request, response: Response) => void
}

/** So long requests are served without a look at what else has happened. */
const SLICE_MS = 75

/** A turn of the event loop that takes longer keeps those waiting who connect. */
const LONG_TURN_MS = 5

/** While clients connect, those that are there are served and others taken in for so long in turn. */
const ACCEPTING_MS = 20

/** After so many turns in which nobody connected, nobody is waiting to. */
const NEWCOMER_TURNS = 3

/** So many at a time come up for a slice, each in a callback of its own, so that all it does counts in its time. */
const BATCH = 1000

/**
 * Serves a request at once as long as the event loop keeps up. Past that requests wait in a queue and are served in
 * slices between which everything else has its turn; those that waited too long, or find too many before them, are
 * refused before anything was done for them. Health checks never wait.
 *
 * Refusing takes almost as long as reading a user, so that it is by their wait that requests are refused and not by the
 * load: a client whom the refusal makes come back at once has waited that long before, and costs little.
 */
export function createAdmission(options: AdmissionOptions): Admission {
  const { maxDelayMs, maxWaiting, serve } = options
  const waiting: Response[] = []
  let turnStartedAt: number | undefined
  let sliceStartedAt: number | undefined
  /** How many of the batch have not come up yet. */
  let left = 0
  let lastTurnMs = 0
  /** In how many turns, this one included, it is still to be expected that others connect. */
  let newcomerTurns = 0
  let acceptingUntil = 0

  function shed(request: Request, response: Response): void {
    request.isShed = true
    serve(request, response)
  }

  function beginTurn(now: number): number {
    if (turnStartedAt === undefined) {
      turnStartedAt = now
      setImmediate(endTurn)
    }
    return turnStartedAt
  }

  function endTurn(): void {
    lastTurnMs = performance.now() - (turnStartedAt ?? 0)
    turnStartedAt = undefined
    if (newcomerTurns > 0) newcomerTurns--
    if (left === 0) beginSlice()
  }

  function beginSlice(): void {
    sliceStartedAt = undefined
    const mayAccept = isAccepting(performance.now())
    // A turn in which nothing arrives has no other end than this.
    if (mayAccept) newcomerTurns--
    left = Math.min(waiting.length, mayAccept ? 1 : BATCH)
    for (let count = 0; count < left; count++) setImmediate(serveNext)
  }

  function serveNext(): void {
    const now = performance.now()
    sliceStartedAt ??= now
    if (now - sliceStartedAt < sliceMs() && !isAccepting(now)) {
      const response = waiting.shift() as Response
      const request: Request = response.req
      // Whoever hung up meanwhile needs nothing, and what was broken has its answer.
      const isOver = request.socket.destroyed || response.writableEnded
      if (!isOver && now - request.arrivedAt > maxDelayMs) shed(request, response)
      else if (!isOver) serve(request, response)
    }
    left--
    if (left === 0) beginSlice()
  }

  function sliceMs(): number {
    return newcomerTurns > 0 ? ACCEPTING_MS : SLICE_MS
  }

  /** libuv takes one connection in each turn of the event loop, so that only short turns take many. */
  function isAccepting(now: number): boolean {
    return newcomerTurns > 0 && now < acceptingUntil
  }

  /**
   * Whether it is time that those who wait come first. Not from the start: requests that are kept make work for the
   * garbage collector, and a thousand clients who read one user each would be served half as fast.
   */
  function isBehind(now: number): boolean {
    const [first] = waiting
    return first !== undefined && now - (first.req as Request).arrivedAt > maxDelayMs / 2
  }

  return {
    connected: () => {
      const now = performance.now()
      beginTurn(now)
      newcomerTurns = NEWCOMER_TURNS
      const isTheirTurn = now > acceptingUntil + ACCEPTING_MS
      if (isTheirTurn && lastTurnMs > LONG_TURN_MS) acceptingUntil = now + ACCEPTING_MS
    },

    take: response => {
      const request: Request = response.req
      const now = performance.now()
      request.arrivedAt = now
      if (isHealthCheck(request.url)) {
        serve(request, response)
        return
      }
      const isInTime = now - beginTurn(now) < sliceMs() && !isBehind(now) && !isAccepting(now)
      if (isInTime) serve(request, response)
      else if (waiting.length < maxWaiting) waiting.push(response)
      else shed(request, response)
    },
  }
}

function isHealthCheck(url: string): boolean {
  return /^\/(?:livez|readyz)(?:$|\?)/.test(url)
}
