import type { Request, Response } from 'express'
import type { ErrorCode } from '../errors.ts'
import { clearTimeout, setTimeout } from '../platform/timers.ts'
import { writeFlatHead } from './fast/express-server.ts'
import { sendTogether } from './fast/send-together.ts'

/** A response as a value: what an endpoint returns, and what an error becomes. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** A buffer is sent without a copy, so it may be kept and sent again. */
  readonly body?: string | Buffer
  /** The Content-Type; JSON if left out. */
  readonly type?: string
  /** The code of an error, for the log line of the request. */
  readonly reason?: ErrorCode
}

/** Alternating names and values. */
type HeaderFields = string[]

/** Headers of every response, unless the reply replaces them. */
const FIXED_HEADERS = {
  // Users are personal data: no shared cache may store them, and a private one must revalidate each time.
  'Cache-Control': 'private, no-cache',
  Vary: 'Accept',
  'X-Content-Type-Options': 'nosniff',
  // Browsers may show a response, but load and run nothing.
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
}

const FIXED_FIELDS: readonly string[] = Object.entries(FIXED_HEADERS).flat()

const BODILESS_STATUSES = new Set([204, 205, 304])

const JSON_CONTENT_TYPE = 'application/json; charset=utf-8'

/** Writes a response with all its headers. Every response of the application comes through here. Throws if it cannot be written. */
export function writeReply(request: Request, response: Response, reply: Reply): void {
  // A request may be answered with an error while its body still arrives; its handler ends later.
  if (response.headersSent) return
  const body = BODILESS_STATUSES.has(reply.status) ? undefined : reply.body
  const isLast =
    !response.shouldKeepAlive ||
    response.getHeader('Connection') === 'close' ||
    reply.headers?.Connection === 'close' ||
    request.arrival.awaitsContinue
  sendHead(response, reply.status, headOf(request, response, reply, body))
  if (isLast && !request.complete) closeAfterBody(request)
  response.end(body)
}

/** Writes the head of a response whose body follows in parts, without a Content-Length. */
export function beginReply(request: Request, response: Response, head: Omit<Reply, 'body'>): void {
  sendHead(response, head.status, headOf(request, response, head, undefined))
}

/** Sets each header first, because other middleware looks at those that are set. */
function sendHead(response: Response, status: number, fields: HeaderFields): void {
  if (writeFlatHead(response, status, fields)) return
  for (let at = 0; at < fields.length; at += 2) {
    response.setHeader(fields[at] as string, fields[at + 1] as string)
  }
  try {
    response.writeHead(status)
  } catch (error) {
    // What is sent in its place must not have them.
    for (let at = 0; at < fields.length; at += 2) response.removeHeader(fields[at] as string)
    throw error
  }
}

function headOf(
  request: Request,
  response: Response,
  { headers, type, reason }: Reply,
  body: Reply['body'],
): HeaderFields {
  const fields = ['X-Request-Id', request.id, ...FIXED_FIELDS]
  const contentType = body === undefined ? type : (type ?? JSON_CONTENT_TYPE)
  if (contentType !== undefined) fields.push('Content-Type', contentType)
  for (const name in request.replyHeaders) setField(fields, name, request.replyHeaders[name])
  for (const name in headers) setField(fields, name, headers[name])
  if (body !== undefined) setField(fields, 'Content-Length', `${Buffer.byteLength(body)}`)
  const otherVary = response.getHeader('Vary')
  if (otherVary !== undefined)
    setField(fields, 'Vary', `${headers?.Vary ?? 'Accept'}, ${otherVary}`)
  if (reason !== undefined) request.line = { ...request.line, reason }
  // The client may send its body although it was not told to. So nothing shows where the next request begins.
  if (request.arrival.awaitsContinue) setField(fields, 'Connection', 'close')
  return fields
}

/**
 * Breaks a response off, so that its client notices. A client of HTTP/1.0 takes the end of the connection for the end of
 * the response, so a TCP connection is reset instead.
 */
export function breakOff(response: Response): void {
  const { socket } = response
  const isTcp = socket?.remoteAddress !== undefined && !('encrypted' in socket)
  if (isTcp) {
    // Otherwise Node sends a plain end first, once what was written is on its way.
    socket.destroySoon = () => socket.destroy()
    socket.resetAndDestroy()
  } else {
    response.destroy()
  }
}

/** How long the rest of a refused body is read and discarded. */
const DISCARDING_MS = 2000

/**
 * A connection that is closed while its client still sends is reset, and the client may never read the response. So only the
 * side of the service is closed at first. A client may also send a body that it was not invited to send.
 */
export function closeAfterBody({ socket }: Pick<Request, 'socket'>): void {
  // Node calls it once the last response is written, and then reads and discards the rest of the body.
  socket.destroySoon = () => {
    const timer = setTimeout(() => socket.destroy(), DISCARDING_MS)
    socket.once('close', () => clearTimeout(timer)).end()
  }
}

function setField(fields: HeaderFields, name: string, value = ''): void {
  let at = 0
  while (at < fields.length && fields[at] !== name) at += 2
  fields[at] = name
  fields[at + 1] = value
}

/**
 * Answers a request. A second reply to the same request is dropped. Calls `onFailure` if the reply cannot be written,
 * perhaps because of an invalid header. The headers that the limits added are dropped before that.
 */
export type SendReply = (
  request: Request,
  response: Response,
  reply: Reply,
  onFailure: (error: unknown) => void,
) => void

export function createReplySender(): SendReply {
  const send: SendReply = (request, response, reply, onFailure) => {
    try {
      writeReply(request, response, reply)
    } catch (error) {
      request.replyHeaders = undefined
      onFailure(error)
    }
  }
  return sendTogether(send, (_request, _response, { body = '' }) => body.length)
}

/** The headers of every response, for responses that `writeReply` does not write. */
export function fixedHeaders(requestId: string): Readonly<Record<string, string>> {
  return { 'X-Request-Id': requestId, ...FIXED_HEADERS }
}

/** A response with a JSON value about the service, which no cache may keep. */
export function jsonReply(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  return {
    status,
    headers: { 'Cache-Control': 'no-store', ...headers },
    body: JSON.stringify(value),
  }
}
