import { connect } from 'node:net'

export interface PipeliningNeighbour {
  close(): void
}

const STATUS_LINE = 'HTTP/1.1 '

export interface PipeliningOptions {
  readonly path?: string
  readonly depth?: number
  /** The value of the header `Authorization`, if there is one. */
  readonly authorization?: string
}

/** A client that always has several unanswered requests on one connection, whatever the responses are. */
export function createPipeliningNeighbour(
  port: number,
  { path = '/users/1', depth = 3, authorization }: PipeliningOptions = {},
): PipeliningNeighbour {
  const key = authorization === undefined ? '' : `Authorization: ${authorization}\r\n`
  const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${key}\r\n`
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('error', () => {})
  let received = ''
  socket.on('data', chunk => {
    // Keeps what may be the beginning of a status line: responses are counted by their status lines.
    received = received.slice(1 - STATUS_LINE.length) + chunk.toString('latin1')
    const answers = received.split(STATUS_LINE).length - 1
    if (answers > 0) socket.write(request.repeat(answers))
  })
  socket.write(request.repeat(depth))
  return { close: () => socket.destroy() }
}
