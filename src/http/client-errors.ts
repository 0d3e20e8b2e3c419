import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Request, Response } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, ServiceError } from '../errors.ts'
import { errorReply, placeOf } from './error-replies.ts'
import { fixedHeaders, writeReply } from './reply.ts'

export interface ClientErrorOptions {
  readonly log: Logger
  readonly newRequestId: () => string
  /** The response to the newest request of a connection, if it ever made one. */
  readonly newestResponse: (socket: Socket) => Response | undefined
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** What Node's parser tells of bytes that are no request. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  /** Of `rawPacket`. */
  readonly bytesParsed?: number
}

/**
 * Answers what Node's parser refuses, in the format of all other errors, and closes the connection: nothing that
 * comes after such a request can be trusted to be one.
 */
export function clientErrorListener(options: ClientErrorOptions) {
  const { log, newRequestId, newestResponse } = options

  function writeRefusal(refusal: ServiceError, error: ParserError, socket: Socket): void {
    if (!socket.writable) return
    const requestId = newRequestId()
    const { status, headers, body = '' } = errorReply(refusal)
    const lines = Object.entries({
      ...fixedHeaders(requestId),
      ...headers,
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(body),
      Date: new Date().toUTCString(),
      Connection: 'close',
    }).map(([name, value]) => `${name}: ${value}\r\n`)
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n`
    socket.end(isOfHead(error) ? head : head + body)
    logRefusal(requestId, status, error.code, socket)
  }

  /** The error stands in the body of a request that the application has already, or that still waits for its turn. */
  function refuseUnfinished(
    refusal: ServiceError,
    reason: string | undefined,
    response: Response,
  ): void {
    const request: Request = response.req
    if (response.headersSent) {
      request.socket.destroySoon()
      return
    }
    const isKnown = request.id !== undefined
    request.id ??= newRequestId()
    const reply = errorReply(refusal, placeOf(request))
    response.setHeader('Connection', 'close')
    writeReply(request, response, reply)
    if (!isKnown) logRefusal(request.id, reply.status, reason, request.socket)
  }

  function logRefusal(
    requestId: string,
    status: number,
    reason: string | undefined,
    { remoteAddress: client }: Socket,
  ): void {
    log.info({ requestId, status, reason, client }, 'request refused')
  }

  return (error: ParserError, socket: Socket): void => {
    const refusal = new ServiceError(CODES[error.code ?? ''] ?? 'request_malformed')
    const response = newestResponse(socket)
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
    } else if (response !== undefined && !response.req.complete) {
      refuseUnfinished(refusal, error.code, response)
    } else if (response !== undefined && !response.writableFinished) {
      // The refusal is of a later request on the same connection, so the earlier answers go first.
      response.once('close', () => writeRefusal(refusal, error, socket))
    } else {
      writeRefusal(refusal, error, socket)
    }
  }
}

/** Whether it was a HEAD that could not be read, as far as one can tell: nobody reads a body behind its answer. */
function isOfHead({ rawPacket, bytesParsed }: ParserError): boolean {
  const read = rawPacket?.toString('latin1', 0, bytesParsed) ?? ''
  return read.startsWith('HEAD ') && !read.includes('\r\n\r\n')
}
