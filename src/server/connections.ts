import type { Socket } from 'node:net'
import type { Response } from 'express'
import { watchTaking } from '../http/stream.ts'

/** One open connection, and what its client is waiting for. */
export interface Connection {
  readonly socket: Socket
  /** The response that is being made or sent. It stays after that while its request still arrives. */
  current: Response | undefined
  /** Responses to later requests, which wait for `current`, in order. */
  readonly waiting: Response[]
  /** For how many milliseconds its client has taken nothing, although something waits for it. */
  readonly stalledMs: () => number
}

/** The open connections of a server, oldest first. */
export type Connections = Map<Socket, Connection>

/** When more than this waits to be sent in all, clients have `HURRIED_TAKE_MS` instead of `takeMs`. */
const MAX_BACKLOG_BYTES = 32 * 1024 * 1024

const HURRIED_TAKE_MS = 3000

/** Adds a connection until it closes. If there are too many, closes the oldest idle one, or this one if none is idle. */
export function addConnection(connections: Connections, socket: Socket, most: number): void {
  if (connections.size >= most) {
    const idle = oldestIdle(connections) ?? socket
    idle.destroy()
    connections.delete(idle)
    if (idle === socket) return
  }
  const stalledMs = watchTaking(socket)
  connections.set(socket, { socket, current: undefined, waiting: [], stalledMs })
  socket.once('close', () => connections.delete(socket))
}

/** Looks at no more of them than it must, because there may be ten thousand. */
function oldestIdle(connections: Connections): Socket | undefined {
  for (const connection of connections.values()) if (isIdle(connection)) return connection.socket
  return undefined
}

/** Whether each request has been answered. The rest of the body of the last one may still arrive. */
export function isAnswered({ waiting, current }: Connection): boolean {
  return waiting.length === 0 && (current === undefined || current.writableFinished)
}

/** Whether each request has arrived and been answered. */
export function isIdle(connection: Connection): boolean {
  return isAnswered(connection) && connection.current?.req.complete !== false
}

/** The response to the newest request of a connection; `undefined` if none is open. */
export function newestResponse(connections: Connections, socket: Socket): Response | undefined {
  const connection = connections.get(socket)
  return connection?.waiting.at(-1) ?? connection?.current
}

/** Closes connections whose clients have accepted nothing of their responses for `takeMs`. Call it regularly. */
export function closeStalled(connections: Connections, takeMs: number): void {
  let backlogBytes = 0
  for (const { writableLength } of connections.keys()) backlogBytes += writableLength
  const patienceMs = backlogBytes > MAX_BACKLOG_BYTES ? HURRIED_TAKE_MS : takeMs
  for (const { socket, stalledMs } of connections.values()) {
    // A client of HTTP/1.0 would take the end of the connection for the end of the response.
    if (stalledMs() >= patienceMs) socket.resetAndDestroy()
  }
}
