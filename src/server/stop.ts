import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { closeAfterBody } from '../http/reply.ts'
import { nextTurn, performance, sleep } from '../platform/timers.ts'
import { type Connections, isAnswered, isIdle } from './connections.ts'

/** Whether a service is stopping, and which connections came too late to be served. */
export type Stopping = ReturnType<typeof createStopping>

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

/** How long a request that was sent may take to arrive. */
const ARRIVAL_MS = 100

/**
 * A stop that has not begun. Every request that was sent before it is answered:
 *
 * 1. For `ARRIVAL_MS`, and until the system holds no connection from before, all connections are served. Responses that are
 *    the last of their connection say `Connection: close`, and /readyz answers 503.
 * 2. New connections are too late: their requests are answered 503. Idle connections are closed.
 * 3. When only connections are left that came too late, the port is closed too.
 */
export function createStopping() {
  const late = new WeakSet<Socket>()
  const isTooLate = (socket: Socket) => late.has(socket)
  let hasBegun = false
  let onBegin = () => {}
  const begin = new Promise<void>(resolve => {
    onBegin = resolve
  })

  /** Stops the server of the service. Resolves to whether all was answered within `timeoutMs`; the rest is cut off. */
  async function run({ server, connections, timeoutMs }: StopOptions): Promise<boolean> {
    const endsAt = performance.now() + timeoutMs
    const bytesRead = new WeakMap<Socket, number>()
    let refusesAll = false
    let accepted = 0
    hasBegun = true
    onBegin()
    server.on('connection', socket => {
      accepted++
      if (refusesAll) late.add(socket)
    })
    for (const { current, waiting } of connections.values()) {
      const isLast = waiting.length === 0
      if (isLast && current?.headersSent === false) current.setHeader('Connection', 'close')
    }
    closeIdle(connections, bytesRead)
    while (performance.now() < endsAt && (server.listening || connections.size > 0)) {
      await sleep(ARRIVAL_MS)
      // One more turn of the event loop reads all that has arrived, however busy the process was, and accepts a connection
      // if the system holds any: libuv may accept only one in each. What comes after a whole backlog was sent after the stop began.
      const before = accepted
      await nextTurn()
      refusesAll ||= accepted === before || accepted > LISTEN_BACKLOG
      closeIdle(connections, bytesRead)
      if (refusesAll && [...connections.keys()].every(isTooLate)) server.close()
    }
    const isComplete = [...connections.values()].every(isAnswered)
    server.close()
    for (const connection of connections.values()) {
      // A reset shows that a response is not whole.
      if (isAnswered(connection)) connection.socket.destroy()
      else connection.socket.resetAndDestroy()
    }
    return isComplete
  }

  return {
    hasBegun: () => hasBegun,
    /** Resolves when it begins. */
    begin,
    isTooLate,
    run,
  }
}

/** Closes the connections that are idle and have sent nothing since the last call, and those of answered requests that still arrive. */
function closeIdle(connections: Connections, bytesRead: WeakMap<Socket, number>): void {
  for (const connection of connections.values()) {
    const { socket, current } = connection
    if (isIdle(connection) && socket.bytesRead === bytesRead.get(socket)) socket.destroy()
    else bytesRead.set(socket, socket.bytesRead)
    if (current?.req.complete === false && isAnswered(connection) && socket.writable) {
      closeAfterBody(current.req)
      socket.destroySoon()
    }
  }
}
