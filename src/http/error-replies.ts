import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, type ErrorDetails, type FieldError, ServiceError } from '../errors.ts'
import { ERROR_KINDS, type ErrorKind } from './error-kinds.ts'
import { PROBLEM_TYPE, prefersProblem } from './negotiation.ts'
import type { Reply, SendReply } from './reply.ts'
import { DEFAULT_RESOURCE, resourceOf } from './resources.ts'

/** Registered by draft-ietf-httpapi-ratelimit-headers. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/** Where an error happened. Empty for bytes that could not be parsed as a request. */
export interface ErrorContext {
  readonly path?: string
  /** The path under which another application has mounted this one. */
  readonly baseUrl?: string
  readonly accept?: string | undefined
  /** `Request` if left out. */
  readonly resource?: string | undefined
}

const fixedHeaders = new Map(
  Object.entries<ErrorKind>(ERROR_KINDS).map(([code, { headers }]) => [
    code,
    { 'Cache-Control': 'no-store', ...headers },
  ]),
)

/** Bodies of errors without details of their own, by reason and resource. */
const plainBodies = new Map<string, string>()

/** Answers a request with an error. */
export type SendError = (error: unknown, request: Request, response: Response) => void

export interface ErrorSenderOptions {
  readonly log: Logger
  readonly sendReply: SendReply
  /** Milliseconds from the arrival of a request until an `overloaded` response to it. */
  readonly overloadPauseMs?: number
}

/**
 * Answers a `ServiceError` as `ERROR_KINDS` says, and any other error as 500 with the detail in the log only.
 *
 * `overloaded` is answered no earlier than `overloadPauseMs` after arrival. Without the pause, 600 clients that retried at
 * once cut password throughput to 62 %.
 */
export function createErrorSender(options: ErrorSenderOptions): SendError {
  const { log, sendReply, overloadPauseMs = 0 } = options
  return (thrown, request, response) => {
    const error =
      thrown instanceof ServiceError
        ? thrown
        : new ServiceError('internal_error', { cause: thrown })
    const reply = errorReply(error, errorContextOf(request))
    if (error.code === 'overloaded') {
      const restMs = request.arrivedAt + overloadPauseMs - performance.now()
      setTimeout(() => sendReply(request, response, reply), restMs)
      return
    }
    const { log: line }: ErrorKind = ERROR_KINDS[error.code]
    if (line !== undefined)
      log[line.level]({ requestId: request.id, err: error.cause }, line.message)
    if (response.headersSent) response.destroy()
    else sendReply(request, response, reply)
  }
}

/** The error handler of Express. */
export function errorHandler(sendError: SendError): ErrorRequestHandler {
  return (error, request, response, _next) => sendError(error, request, response)
}

/**
 * Wraps `handler` so that its errors are answered immediately. Otherwise Express first matches the path with every later
 * route, which takes a fifth of the CPU of an error response.
 */
export function answerErrors(handler: RequestHandler, sendError: SendError): RequestHandler {
  return (request, response, next) =>
    handler(request, response, (error?: unknown) => {
      if (error instanceof ServiceError) sendError(error, request, response)
      else next(error)
    })
}

/** The response to an error, in the format that the client prefers. */
export function errorReply({ code, details }: ServiceError, context: ErrorContext = {}): Reply {
  const kind: ErrorKind = ERROR_KINDS[code]
  const { status = kind.status, message = kind.message, headers } = details
  const reason = kind.shownAs ?? code
  const facts = { reason, status, message, details, context }
  const isProblem = prefersProblem(context.accept)
  const fixed = fixedHeaders.get(code) ?? {}
  return {
    status,
    headers: headers === undefined ? fixed : withHeaders(fixed, headers),
    body: isProblem ? JSON.stringify(problem(facts)) : plainBody(facts),
    ...(isProblem && { type: PROBLEM_TYPE }),
    reason,
  }
}

type Headers = Readonly<Record<string, string>>

/** A second spread in one object would take a microsecond. */
function withHeaders(fixed: Headers, own: Headers): Headers {
  const headers: Record<string, string> = { ...fixed }
  for (const name of Object.keys(own)) headers[name] = own[name] as string
  return headers
}

interface ErrorFacts {
  readonly reason: ErrorCode
  readonly status: number
  readonly message: string
  readonly details: ErrorDetails
  readonly context: ErrorContext
}

/** What an error response needs to know about its request. */
export function errorContextOf(request: Request): ErrorContext {
  const { accept } = request.headers
  try {
    const { path, baseUrl } = request
    return { path, baseUrl, accept, resource: resourceOf(request) }
  } catch {
    // A target such as http://[/ has no path.
    return { accept }
  }
}

function plainBody(facts: ErrorFacts): string {
  const { reason, details, context } = facts
  const { status, message, errors } = details
  if (status !== undefined || message !== undefined || errors !== undefined) {
    return JSON.stringify(plainError(facts))
  }
  const key = `${reason} ${context.resource}`
  let body = plainBodies.get(key)
  if (body === undefined) {
    body = JSON.stringify(plainError(facts))
    plainBodies.set(key, body)
  }
  return body
}

function plainError({ reason, status, message, details: { errors }, context }: ErrorFacts) {
  return {
    message,
    resource: context.resource ?? DEFAULT_RESOURCE,
    code: status,
    status: false,
    reason,
    ...(errors && {
      errors: Object.fromEntries(errors.map(({ field, messages }) => [field, messages])),
    }),
  }
}

/** RFC 9457. */
function problem({ reason, status, message, details, context }: ErrorFacts) {
  const { path, baseUrl = '' } = context
  const { errors, violatedPolicies } = details
  const isQuota = violatedPolicies !== undefined && status === 429
  return {
    type: isQuota ? QUOTA_EXCEEDED : 'about:blank',
    // The status phrase, as RFC 9457 4.2.1 requires for about:blank.
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: message,
    ...(path !== undefined && { instance: asUriReference(baseUrl + path) }),
    reason,
    ...(isQuota && { 'violated-policies': violatedPolicies }),
    ...(errors && { errors: errors.flatMap(problemsOfField) }),
  }
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
