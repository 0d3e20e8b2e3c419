import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, Request } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, type FieldError, kindOf, ServiceError } from '../errors.ts'
import { PROBLEM_TYPE, prefersToJson } from './negotiation.ts'
import { breakOff, type Reply, type SendReply } from './reply.ts'

/** Registered by draft-ietf-httpapi-ratelimit-headers. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/** Where an error happened. Empty for bytes that could not be parsed as a request. */
export interface ErrorContext {
  /** The path that was sent, with the path under which another application has mounted this one. */
  readonly path?: string
  readonly accept?: string | undefined
  /** `Request` if left out. */
  readonly resource?: string | undefined
}

export interface ErrorHandlerOptions {
  readonly log: Logger
  readonly sendReply: SendReply
  /** Milliseconds from the arrival of a request until an `overloaded` response to it. */
  readonly overloadPauseMs?: number
}

/**
 * Answers a `ServiceError` as `ERRORS` says, and any other error as 500 with the detail in the log only. It is also the
 * last layer of each router, so an error skips the routes of the routers after it.
 *
 * `overloaded` is answered no earlier than `overloadPauseMs` after arrival. Without the pause, 600 clients that retried at
 * once cut password throughput to 62 %.
 */
export function createErrorHandler(options: ErrorHandlerOptions): ErrorRequestHandler {
  const { log, sendReply, overloadPauseMs = 0 } = options
  return function handleError(thrown, request, response, next) {
    const error =
      thrown instanceof ServiceError
        ? thrown
        : new ServiceError('internal_error', { cause: thrown })
    const reply = errorReply(error, errorContextOf(request))
    const send = () =>
      sendReply(request, response, reply, failure => {
        if (error.code === 'internal_error') response.destroy()
        else handleError(failure, request, response, next)
      })
    if (error.code === 'overloaded' && !response.headersSent) {
      setTimeout(send, request.arrivedAt + overloadPauseMs - performance.now())
      return
    }
    const { log: line } = kindOf(error.code)
    if (line !== undefined)
      log[line.level]({ requestId: request.id, err: error.cause }, line.message)
    if (response.headersSent) breakOff(response)
    else send()
  }
}

/** The response to an error, in the format that the client prefers. */
export function errorReply(
  error: ServiceError,
  { path, accept, resource }: ErrorContext = {},
): Reply {
  const { code, details } = error
  const kind = kindOf(code)
  const { status = kind.status, message = kind.message, errors, violatedPolicies } = details
  const reason = (kind.shownAs ?? code) as ErrorCode
  const headers = { 'Cache-Control': 'no-store', ...kind.headers, ...details.headers }
  if (!prefersToJson(PROBLEM_TYPE, accept)) {
    const body = {
      message,
      resource: resource ?? 'Request',
      code: status,
      status: false,
      reason,
      ...(errors && {
        errors: Object.fromEntries(errors.map(({ field, messages }) => [field, messages])),
      }),
    }
    return { status, headers, body: JSON.stringify(body), reason }
  }
  const isQuota = violatedPolicies !== undefined && status === 429
  // RFC 9457.
  const problem = {
    type: isQuota ? QUOTA_EXCEEDED : 'about:blank',
    // The status phrase, as RFC 9457 4.2.1 requires for about:blank.
    title: phraseOf(status),
    status,
    detail: message,
    ...(path !== undefined && { instance: asUriReference(path) }),
    reason,
    ...(isQuota && { 'violated-policies': violatedPolicies }),
    ...(errors && { errors: errors.flatMap(problemsOfField) }),
  }
  return { status, headers, body: JSON.stringify(problem), type: PROBLEM_TYPE, reason }
}

/** Phrases of RFC 9110 that Node has in the words of older RFCs. */
const NEWER_PHRASES: Readonly<Record<number, string>> = {
  413: 'Content Too Large',
  422: 'Unprocessable Content',
}

/** The phrase of a status in the registry of IANA. */
export function phraseOf(status: number): string {
  return NEWER_PHRASES[status] ?? STATUS_CODES[status] ?? 'Error'
}

/** What an error response needs to know about its request. */
export function errorContextOf(request: Request): ErrorContext {
  const { accept } = request.headers
  try {
    const { path, baseUrl = '' } = request
    const sent = request.isPathMalformed ? path.replaceAll('%25', '%') : path
    return { path: baseUrl + sent, accept, resource: resourceOf(path) }
  } catch {
    // A target such as http://[/ has no path.
    return { accept }
  }
}

function resourceOf(path: string): string {
  return path.startsWith('/users') && (path.length === 6 || path[6] === '/') ? 'User' : 'Request'
}

function problemsOfField({ at, messages }: FieldError) {
  const place = at !== undefined && 'pointer' in at ? { pointer: `#${at.pointer}` } : at
  return messages.map(detail => ({ detail, ...place }))
}

/** Escapes what a URI must not contain, such as a stray percent sign. A path of `//x` would name a host. */
function asUriReference(path: string): string {
  const escaped = path.replace(/%(?![0-9A-Fa-f]{2})|[^\w.~!$&'()*+,;=:@%/-]/g, encodeURIComponent)
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}
