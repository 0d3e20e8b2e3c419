import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, Request } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, type FieldError, kindOf, ServiceError } from '../errors.ts'
import { performance, setTimeout } from '../platform/timers.ts'
import { mountPath, uriPath } from './forwarded.ts'
import { PROBLEM_TYPE, prefersToJson } from './negotiation.ts'
import { breakOff, type Reply, type SendReply } from './reply.ts'

/** Registered by draft-ietf-httpapi-ratelimit-headers. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

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
    const reply = errorReply(error, request)
    const send = () =>
      sendReply(request, response, reply, failure => {
        if (error.code === 'internal_error') response.destroy()
        else handleError(failure, request, response, next)
      })
    if (error.code === 'overloaded' && !response.headersSent) {
      setTimeout(send, request.arrival.at + overloadPauseMs - performance.now())
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
export function errorReply({ code, status, details }: ServiceError, request: Request): Reply {
  const kind = kindOf(code)
  const path = parsedPath(request)
  const { message = kind.message, errors, violatedPolicies } = details
  const reason = (kind.shownAs ?? code) as ErrorCode
  const headers = { 'Cache-Control': 'no-store', ...kind.headers, ...details.headers }
  if (!prefersToJson(PROBLEM_TYPE, request.headers.accept)) {
    const body = {
      message,
      resource: /^\/users(?:\/|$)/.test(path) ? 'User' : 'Request',
      code: status,
      status: false,
      reason,
      ...(errors && { errors: messagesByField(errors) }),
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
    // The path that was sent, below that under which clients find the service.
    ...(path !== '' && { instance: uriPath(mountPath(request) + path) }),
    reason,
    ...(isQuota && { 'violated-policies': violatedPolicies }),
    ...(errors && { errors: errors.flatMap(problemsOfField) }),
  }
  return { status, headers, body: JSON.stringify(problem), type: PROBLEM_TYPE, reason }
}

/** Everything that is wrong with each field. Keys beside the user may have the names of its attributes. */
export function messagesByField(
  errors: readonly FieldError[],
): Readonly<Record<string, readonly string[]>> {
  const fields = new Map<string, readonly string[]>()
  for (const { field, messages } of errors) {
    fields.set(field, [...(fields.get(field) ?? []), ...messages])
  }
  return Object.fromEntries(fields)
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

/** Empty for a target without a path, such as `http://[/`, and for bytes that could not be parsed as a request. */
function parsedPath(request: Partial<Request>): string {
  try {
    return request.path ?? ''
  } catch {
    return ''
  }
}

function problemsOfField({ at, messages }: FieldError) {
  const place = at !== undefined && 'pointer' in at ? { pointer: asFragment(at.pointer) } : at
  return messages.map(detail => ({ detail, ...place }))
}

/** A JSON pointer as the fragment of a URI: RFC 6901 6. A name in it may be anything. */
function asFragment(pointer: string): string {
  return `#${encodeURI(pointer.toWellFormed()).replaceAll('#', '%23')}`
}
