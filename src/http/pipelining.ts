import type { Response } from 'express'
import type { Connection } from './connections.ts'

/** So many requests of a connection may wait before nothing more is read from it. */
const MAX_WAITING = 20

/** So many may wait in all, each of some kilobytes: past that, who fills this up is cut off. */
const MAX_WAITING_IN_ALL = 10_000

/**
 * Serves the requests of each connection one after another, whichever way they came: RFC 9112 9.3.2 wants it so for
 * those that change something, and a flood of requests on one connection then takes turns with all others.
 */
export function createPipelining(serve: (response: Response, connection: Connection) => void) {
  let waitingInAll = 0

  function begin(response: Response, connection: Connection): void {
    connection.current = response
    response.on('close', () => end(response, connection))
    // One that was refused while it waited, because the rest of it was broken, has its answer.
    if (!response.writableEnded) serve(response, connection)
  }

  function end(response: Response, connection: Connection): void {
    const { socket, waiting } = connection
    // Nothing of it is kept until the next request, by when the garbage collector would have taken it for long-lived: with
    // 2000 clients who read, that took a fifth of the CPU. One that was answered before its end is not over yet.
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

  /** A request that has just arrived. */
  return (response: Response, connection: Connection): void => {
    const { current, waiting, socket } = connection
    connection.newest = response
    if (waiting.length === 0 && (current === undefined || current.closed)) {
      begin(response, connection)
      return
    }
    waitingInAll++
    waiting.push(response)
    if (waiting.length > MAX_WAITING) hold(connection)
    if (waitingInAll > MAX_WAITING_IN_ALL && waiting.length > MAX_WAITING) socket.destroy()
  }
}

/** Node goes on reading by itself whenever an answer was sent, so that its way to do so is taken from it. */
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
