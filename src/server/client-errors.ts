import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Request, Response } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, ServiceError } from '../errors.ts'
import { errorReply } from '../http/error-handler.ts'
import { breakOff, writeReply } from '../http/reply.ts'
import { type RequestMetrics, requestIdOf } from '../http/request-log.ts'
import { type Connections, newestResponse } from './connections.ts'

export interface ClientErrorOptions {
  readonly log: Logger
  /** Counts each request that is refused. Nothing is counted if left out. */
  readonly metrics?: Pick<RequestMetrics, 'addMalformed'> | undefined
  readonly connections: Connections
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Node's error for bytes that are not a valid request: the bytes, and how many of them were read before the error. */
type ParserError = NodeJS.ErrnoException & { rawPacket?: Buffer; bytesParsed?: number }

/**
 * Returns a function that answers a request that Node's parser refuses, in the format of all other errors. It closes the
 * connection, because nothing shows where the next request begins.
 */
export function createClientErrorListener(options: ClientErrorOptions) {
  const { log, metrics, connections } = options
  const refused = new WeakSet<Socket>()

  function refuse(error: ParserError, response: Response): void {
    const request: Request = response.req
    const { socket } = request
    if (response.headersSent) {
      if (response.writableEnded) socket.destroySoon()
      else breakOff(response)
      return
    }
    // If the application has the request already, it also logs and counts it.
    const isKnown = request.id !== undefined
    request.id ??= requestIdOf(request)
    const refusal = new ServiceError(codeOf(error))
    const reply = errorReply(refusal, request)
    response.setHeader('Connection', 'close')
    writeReply(request, response, reply)
    if (isKnown) return
    metrics?.addMalformed(reply.status)
    const line = { requestId: request.id, status: reply.status, reason: refusal.code }
    log.info({ ...line, parserCode: error.code, client: socket.remoteAddress }, 'request refused')
  }

  return (error: ParserError, socket: Socket): void => {
    const newest = newestResponse(connections, socket)
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    // Node's parser refuses every later packet too, while the first refusal may wait for earlier responses.
    if (refused.has(socket)) return
    refused.add(socket)
    // The error is in the body of the newest request, or in a request after it, whose response must wait for the
    // earlier ones.
    if (newest?.req.complete === false) refuse(error, newest)
    else if (newest === undefined || newest.closed) refuse(error, createResponse(error, socket))
    else newest.once('close', () => socket.writable && refuse(error, createResponse(error, socket)))
  }
}

/** A request line without its end. After the first packet of a request, it may also be the line of a header. */
const OPEN_REQUEST_LINE = /(?:^|\r\n\r\n)(?:[A-Z-]{1,20} )?[^\s;]*$/

function codeOf(error: ParserError): ErrorCode {
  const code = CODES[error.code ?? ''] ?? 'request_malformed'
  const isInTarget = code === 'headers_too_large' && OPEN_REQUEST_LINE.test(readBefore(error))
  return isInTarget ? 'target_too_long' : code
}

/** The part of the last packet that was read before the error. */
function readBefore({ rawPacket, bytesParsed }: ParserError): string {
  return rawPacket?.toString('latin1', 0, bytesParsed) ?? ''
}

/** A response to bytes that are not a request. */
function createResponse(error: ParserError, socket: Socket): Response {
  const request = Object.assign(new IncomingMessage(socket), { arrival: { at: 0 } })
  const read = readBefore(error)
  // The response to a HEAD has no body. After the end of its head, the error is in a later request.
  request.method = read.startsWith('HEAD ') && !read.includes('\r\n\r\n') ? 'HEAD' : 'GET'
  const response = new ServerResponse(request)
  response.assignSocket(socket)
  return response.on('finish', () => socket.end()) as Response
}
