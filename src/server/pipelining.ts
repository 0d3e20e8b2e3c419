import type { Response } from 'express'
import type { Connection } from './connections.ts'

/** While more requests of a connection wait, nothing is read from it. */
const MAX_WAITING = 20

/** A request takes some kilobytes. When more wait in all, connections with over `MAX_WAITING` are closed. */
const MAX_WAITING_IN_ALL = 10_000

type Serve = (response: Response, connection: Connection) => void

/**
 * Returns a function to call for each request that arrives. It serves the requests of a connection one after another:
 * RFC 9112 9.3.2 requires that of unsafe methods, and a flood of requests on one connection then takes turns with the
 * other connections. Those that follow a response which closes the connection are dropped: nobody would learn what they changed.
 * `onWaiting` is called for each that arrives before earlier ones of its connection are answered.
 */
export function createPipelining(serve: Serve, onWaiting: () => void) {
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
    if (response.req.complete) connection.current = undefined
    waitingInAll -= waiting.length
    if (!socket.writable) waiting.length = 0
    const next = waiting.shift()
    waitingInAll += waiting.length
    if (next === undefined) return
    if (waiting.length === MAX_WAITING) {
      Reflect.deleteProperty(socket, 'resume')
      socket.resume()
    }
    begin(next, connection)
  }

  return (response: Response, connection: Connection): void => {
    const { current, waiting, socket } = connection
    if (!socket.writable) {
      response.req.resume()
      return
    }
    if (waiting.length === 0 && (current === undefined || current.closed)) {
      begin(response, connection)
      return
    }
    waitingInAll++
    onWaiting()
    if (waiting.push(response) <= MAX_WAITING) return
    socket.pause()
    // Node resumes the socket whenever a response was sent.
    socket.resume = () => socket
    if (waitingInAll > MAX_WAITING_IN_ALL) socket.destroy()
  }
}
