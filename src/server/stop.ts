import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type Connections, isIdle } from './connections.ts'

/** Whether a service is stopping, and which connections came too late to be served. */
export interface Stopping {
  hasBegun(): boolean
  isTooLate(socket: Socket): boolean
  /** Stops the server of the service. Resolves to whether all was answered within `timeoutMs`; the rest is cut off. */
  run(options: StopOptions): Promise<boolean>
}

export interface StopOptions {
  readonly server: Server
  readonly connections: Connections
  readonly timeoutMs: number
}

/**
 * How many connections the system may hold until they are accepted; it may reduce the number. Further clients try again after
 * a second. Node's default of 511 is too low for a thousand clients at once.
 */
export const LISTEN_BACKLOG = 4096

const TURN_MS = 20

/**
 * How many turns a request may take to arrive. Turns and not time, because a turn reads everything that has arrived, however
 * long a busy process takes for it.
 */
const ARRIVAL_TURNS = 5

/**
 * A stop that has not begun. It answers every request that was sent before it began:
 *
 * 1. For `ARRIVAL_TURNS` all connections are served. Responses that are the last of their connection say
 *    `Connection: close`, and /readyz answers 503.
 * 2. The same for connections that the system still holds from before, until none comes in a turn of the event loop: libuv
 *    may accept only one in each. Of more than `LISTEN_BACKLOG`, the last came later.
 * 3. New connections are too late: their requests are answered 503. Idle connections are closed.
 * 4. When only connections are left that came too late, the port is closed too.
 */
export function createStopping(): Stopping {
  const late = new WeakSet<Socket>()
  const isTooLate = (socket: Socket) => late.has(socket)
  let hasBegun = false

  async function run({ server, connections, timeoutMs }: StopOptions): Promise<boolean> {
    const endsAt = performance.now() + timeoutMs
    let refusesAll = false
    let accepted = 0
    hasBegun = true
    server.on('connection', socket => {
      accepted++
      if (refusesAll) late.add(socket)
    })
    for (const { current, waiting } of connections.values()) {
      const isLast = waiting.length === 0
      if (isLast && current?.headersSent === false) current.setHeader('Connection', 'close')
    }
    const bytesRead = new WeakMap<Socket, number>()
    closeIdle(connections, bytesRead)
    for (let turn = 1; server.listening || connections.size > 0; turn++) {
      if (performance.now() >= endsAt) break
      await sleep(TURN_MS)
      const before = accepted
      // After the reads of this turn of the event loop, not before them.
      await nextTurn()
      if (turn % ARRIVAL_TURNS === 0) closeIdle(connections, bytesRead)
      refusesAll ||= turn >= ARRIVAL_TURNS && (accepted === before || accepted > LISTEN_BACKLOG)
      if (refusesAll && [...connections.keys()].every(isTooLate)) server.close()
    }
    const isComplete = [...connections.values()].every(isIdle)
    server.close()
    for (const socket of connections.keys()) socket.destroy()
    return isComplete
  }

  return { hasBegun: () => hasBegun, isTooLate, run }
}

/** Closes the connections that are idle and have sent nothing since the last call. */
function closeIdle(connections: Connections, bytesRead: WeakMap<Socket, number>): void {
  for (const connection of connections.values()) {
    const { socket } = connection
    if (isIdle(connection) && socket.bytesRead === bytesRead.get(socket)) socket.destroy()
    else bytesRead.set(socket, socket.bytesRead)
  }
}
