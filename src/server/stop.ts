import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Connections } from './connections.ts'
import type { Stopping } from './stopping.ts'

/** The stop of one server. */
export interface Stop {
  /** Call for every new connection. */
  addConnection(socket: Socket): void
  /** As `HttpServer.stop`. */
  run(timeoutMs: number): Promise<boolean>
}

export interface StopOptions {
  readonly server: Server
  readonly connections: Connections
  readonly stopping: Stopping
  /** The most connections that the system may hold before the server accepts them. */
  readonly backlog: number
}

const STOP_TURN_MS = 20

/**
 * How many turns a request may take to arrive. Turns and not time, because a turn reads everything that has arrived, however
 * long a busy process takes for it.
 */
const ARRIVAL_TURNS = 5

/**
 * Stops `server` and answers every request that was sent before the stop. A turn of the stop takes `STOP_TURN_MS`.
 *
 *     run
 *      |   1. arrival    All connections are served. Responses that are the last of their connection say
 *      |                 `Connection: close`, and /readyz answers 503.
 *      v   after ARRIVAL_TURNS turns
 *      |   2. backlog    The same, because the system may still hold connections from before the stop.
 *      v   the event loop turned once without a new connection, or more came than the backlog holds
 *      |   3. newcomers  New connections get 503 `shutting_down`. In each turn idle connections are closed; a
 *      |                 connection that has sent nothing yet is idle once it is ARRIVAL_TURNS turns old.
 *      v   only connections of newcomers are left
 *      |   4. closed     The port is closed, so that the system refuses new connections. The rest as in 3.
 *      v   no connection is left
 *     true (exit code 0)
 *
 * After `timeoutMs`, in any phase, the port and all idle connections are closed. The result is true if none is left
 * then; otherwise the rest are cut off and it is false (exit code 1). A second signal ends the process in any phase,
 * with exit code 1: `cli/serve/serve.ts`.
 */
export function createStop({ server, connections, stopping, backlog }: StopOptions): Stop {
  /** How many turns the stop has taken. */
  let turn = 0
  let connectionCount = 0
  /** The turn in which a connection was made, for those made after the first turn. */
  const turnMade = new WeakMap<Socket, number>()

  function addConnection(socket: Socket): void {
    connectionCount++
    if (turn > 0) turnMade.set(socket, turn)
    stopping.addConnection(socket)
  }

  /** Returns how many connections are left. */
  function closeIdle(): number {
    let isAnyArriving = false
    for (const { socket } of connections.values()) {
      if (socket.bytesRead > 0) continue
      if (turn - (turnMade.get(socket) ?? 0) < ARRIVAL_TURNS) isAnyArriving = true
      else socket.destroy()
    }
    // Node 26 treats a connection as idle whose first request is still on its way.
    if (!isAnyArriving) server.closeIdleConnections()
    return [...connections.values()].filter(({ socket }) => !socket.destroyed).length
  }

  /** libuv may accept only one connection in each turn of the event loop, so that the backlog empties over many. */
  function awaitEmptyBacklog(countAtStart: number): void {
    const countBefore = connectionCount
    setImmediate(() => {
      const isEmpty = connectionCount === countBefore
      if (isEmpty || connectionCount - countAtStart > backlog) stopping.refuseNewcomers()
      else awaitEmptyBacklog(countAtStart)
    })
  }

  function takeTurn(countAtStart: number): void {
    turn++
    if (turn === ARRIVAL_TURNS) awaitEmptyBacklog(countAtStart)
    if (!stopping.refusesNewcomers()) return
    closeIdle()
    const areAllLate = [...connections.values()].every(({ socket }) => stopping.isTooLate(socket))
    if (areAllLate && server.listening) server.close()
  }

  function announceClose(): void {
    for (const { newest, isHeld } of connections.values()) {
      // A held connection may have more requests, which have not been read yet.
      if (newest?.headersSent === false && !isHeld) newest.setHeader('Connection', 'close')
    }
  }

  function run(timeoutMs: number): Promise<boolean> {
    stopping.begin()
    announceClose()
    const countAtStart = connectionCount
    return new Promise(resolve => {
      const turns = setInterval(() => {
        // After the reads of this turn of the event loop, not before them.
        setImmediate(takeTurn, countAtStart)
        if (connections.size === 0 && !server.listening) end(true)
      }, STOP_TURN_MS)
      const deadline = setTimeout(() => {
        server.close()
        turn += ARRIVAL_TURNS
        const isAllAnswered = closeIdle() === 0
        server.closeAllConnections()
        end(isAllAnswered)
      }, timeoutMs)

      function end(isAllAnswered: boolean): void {
        clearInterval(turns)
        clearTimeout(deadline)
        resolve(isAllAnswered)
      }
    })
  }

  return { addConnection, run }
}
