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

  function serveNext(connection: Connection): void {
    const { socket, waiting } = connection
    if (socket.destroyed) {
      waitingInAll -= waiting.length
      waiting.length = 0
      return
    }
    const next = waiting.shift()
    if (next === undefined) return
    waitingInAll--
    connection.current = next
    if (waiting.length > 0) next.once('close', () => serveNext(connection))
    else release(connection)
    // One that was refused while it waited, because the rest of it was broken, has its answer.
    if (!next.writableEnded) serve(next, connection)
  }

  /** A request that has just arrived. */
  return (response: Response, connection: Connection): void => {
    const { current, waiting, socket } = connection
    connection.newest = response
    if (waiting.length === 0 && (current === undefined || current.writableFinished)) {
      connection.current = response
      serve(response, connection)
      return
    }
    waitingInAll++
    if (waiting.push(response) === 1) current?.once('close', () => serveNext(connection))
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
