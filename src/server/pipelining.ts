import type { Response } from 'express'
import type { Connection } from './connections.ts'

/** When more requests of a connection wait, reading from it stops. */
const MAX_WAITING = 20

/** A request takes some kilobytes. When more wait in all, connections with over `MAX_WAITING` are closed. */
const MAX_WAITING_IN_ALL = 10_000

export interface PipeliningOptions {
  readonly serve: (response: Response, connection: Connection) => void
  /** Called for each request that arrives before earlier ones of its connection are answered. */
  readonly onWaiting: () => void
}

/**
 * Returns a function to call for each request that arrives. It serves the requests of a connection one after another:
 * RFC 9112 9.3.2 requires that of unsafe methods, and a flood of requests on one connection then takes turns with the
 * other connections.
 */
export function createPipelining({ serve, onWaiting }: PipeliningOptions) {
  let waitingInAll = 0

  function begin(response: Response, connection: Connection): void {
    connection.current = response
    response.on('close', () => end(response, connection))
    // A request whose body turned out malformed while it waited has been answered already.
    if (!response.writableEnded) serve(response, connection)
  }

  function end(response: Response, connection: Connection): void {
    const { socket, waiting } = connection
    // Drop it now. Kept until the next request, it would reach the garbage collector's old generation: with 2000
    // clients that read, that took a fifth of the CPU. A request that was answered before its end is still needed.
    if (response.req.complete) {
      connection.current = undefined
      if (connection.newest === response) connection.newest = undefined
    }
    if (socket.destroyed) {
      waitingInAll -= waiting.length
      waiting.length = 0
      return
    }
    const next = waiting.shift()
    if (next === undefined) return
    waitingInAll--
    if (waiting.length === 0) release(connection)
    begin(next, connection)
  }

  return (response: Response, connection: Connection): void => {
    const { current, waiting, socket } = connection
    connection.newest = response
    if (waiting.length === 0 && (current === undefined || current.closed)) {
      begin(response, connection)
      return
    }
    waitingInAll++
    waiting.push(response)
    onWaiting()
    if (waiting.length > MAX_WAITING) hold(connection)
    if (waitingInAll > MAX_WAITING_IN_ALL && waiting.length > MAX_WAITING) socket.destroy()
  }
}

/** Node resumes the socket whenever a response was sent, so that `resume` is disabled until `release`. */
function hold(connection: Connection): void {
  if (connection.isHeld) return
  connection.isHeld = true
  const { socket } = connection
  socket.pause()
  socket.resume = () => socket
}

function release(connection: Connection): void {
  if (!connection.isHeld) return
  connection.isHeld = false
  const { socket } = connection
  Reflect.deleteProperty(socket, 'resume')
  socket.resume()
}
