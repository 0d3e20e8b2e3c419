import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Request, Response } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, ServiceError } from '../errors.ts'
import { errorContextOf, errorReply } from '../http/error-handler.ts'
import { fixedHeaders, writeReply } from '../http/reply.ts'
import type { RequestMetrics } from '../http/request-metrics.ts'

export interface ClientErrorOptions {
  readonly log: Logger
  readonly newRequestId: () => string
  /** Counts each request that is refused. Nothing is counted if left out. */
  readonly metrics?: Pick<RequestMetrics, 'addMalformed'> | undefined
  /** The response to the newest request of a connection; `undefined` if none is open. */
  readonly newestResponse: (socket: Socket) => Response | undefined
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Node's error for bytes that are not a valid request. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  /** How many bytes of `rawPacket` were read before the error. */
  readonly bytesParsed?: number
}

interface LoggedRefusal {
  readonly requestId: string
  readonly status: number
  readonly refusal: ServiceError
  readonly error: ParserError
  readonly socket: Socket
}

/**
 * Returns a function that answers a request that Node's parser refuses, in the format of all other errors. It closes the
 * connection, because nobody can know where the next request begins.
 */
export function createClientErrorListener(options: ClientErrorOptions) {
  const { log, newRequestId, metrics, newestResponse } = options
  const refused = new WeakSet<Socket>()

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
    logRefusal({ requestId, status, refusal, error, socket })
  }

  /** For an error in the body: the application already has the request, or the request waits for its turn. */
  function refuseUnfinished(refusal: ServiceError, error: ParserError, response: Response): void {
    const request: Request = response.req
    if (response.headersSent) {
      request.socket.destroySoon()
      return
    }
    const isKnown = request.id !== undefined
    request.id ??= newRequestId()
    const reply = errorReply(refusal, errorContextOf(request))
    response.setHeader('Connection', 'close')
    writeReply(request, response, reply)
    if (isKnown) return
    logRefusal({
      requestId: request.id,
      status: reply.status,
      refusal,
      error,
      socket: request.socket,
    })
  }

  function logRefusal({ requestId, status, refusal, error, socket }: LoggedRefusal): void {
    const { remoteAddress: client } = socket
    const parserCode = error.code
    metrics?.addMalformed(status)
    log.info({ requestId, status, reason: refusal.code, parserCode, client }, 'request refused')
  }

  return (error: ParserError, socket: Socket): void => {
    const refusal = new ServiceError(CODES[error.code ?? ''] ?? 'request_malformed')
    const response = newestResponse(socket)
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    // Node's parser refuses every later packet too, while the first refusal may wait for earlier responses.
    if (refused.has(socket)) return
    refused.add(socket)
    if (response !== undefined && !response.req.complete) {
      refuseUnfinished(refusal, error, response)
    } else if (response !== undefined && !response.writableFinished) {
      // The error is in a later request of the same connection, so that earlier responses go first.
      response.once('close', () => writeRefusal(refusal, error, socket))
    } else {
      writeRefusal(refusal, error, socket)
    }
  }
}

/** Whether the malformed request seems to be a HEAD, whose response must have no body. */
function isOfHead({ rawPacket, bytesParsed }: ParserError): boolean {
  const read = rawPacket?.toString('latin1', 0, bytesParsed) ?? ''
  return read.startsWith('HEAD ') && !read.includes('\r\n\r\n')
}
