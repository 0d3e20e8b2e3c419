import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, Request } from 'express'
import type { Logger } from 'pino'
import { type ErrorCode, type ErrorDetails, type FieldError, ServiceError } from '../errors.ts'
import { PROBLEM_TYPE, prefersProblem } from './negotiation.ts'
import type { Reply, SendReply } from './reply.ts'

interface ErrorKind {
  readonly status: number
  readonly message: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Registered by draft-ietf-httpapi-ratelimit-headers. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/** A pause after which a retry is worth it, for refusals that pass by themselves. */
const RETRY_SOON = { 'Retry-After': '1' }

/** The one table from codes to answers. */
export const ERROR_KINDS = {
  request_malformed: { status: 400, message: 'The request is malformed' },
  path_malformed: { status: 400, message: 'The path cannot be decoded' },
  body_malformed: { status: 400, message: 'The body is not JSON in UTF-8' },
  query_invalid: { status: 400, message: 'Query parameters are invalid' },
  idempotency_key_malformed: {
    status: 400,
    message: 'Idempotency-Key must be 1 to 255 visible characters, given once',
  },
  blocked: { status: 403, message: 'Forbidden' },
  path_not_found: { status: 404, message: 'Not found' },
  user_not_found: { status: 404, message: 'User not found' },
  method_not_allowed: { status: 405, message: 'Method not allowed' },
  not_acceptable: { status: 406, message: 'Only application/json is available' },
  request_timeout: { status: 408, message: 'The request took too long to arrive' },
  idempotency_key_in_use: {
    status: 409,
    message: 'A request with this Idempotency-Key is still running',
    headers: RETRY_SOON,
  },
  idempotent_user_deleted: {
    status: 410,
    message: 'The user that this Idempotency-Key made has been deleted',
  },
  version_mismatch: { status: 412, message: 'The user is not of the version that If-Match names' },
  body_too_large: { status: 413, message: 'The body is too large' },
  media_type_unsupported: {
    status: 415,
    message: 'The body must be application/json in UTF-8',
    headers: { Accept: 'application/json' },
  },
  encoding_unsupported: {
    status: 415,
    message: 'The content encoding is not supported',
    headers: { 'Accept-Encoding': 'gzip, deflate, br' },
  },
  validation_failed: { status: 422, message: 'Validation failed' },
  email_taken: { status: 422, message: 'Validation failed' },
  idempotency_key_reused: {
    status: 422,
    message: 'This Idempotency-Key was used with another body',
  },
  rate_limited: { status: 429, message: 'Too many requests, please try again later.' },
  headers_too_large: { status: 431, message: 'The request headers are too large' },
  internal_error: { status: 500, message: 'Internal Server Error' },
  storage_unavailable: {
    status: 503,
    message: 'The database is not available, please try again',
    headers: RETRY_SOON,
  },
  overloaded: {
    status: 503,
    message: 'The service is overloaded, please try again',
    headers: { 'Retry-After': '5' },
  },
  shutting_down: {
    status: 503,
    message: 'The service is shutting down, please try again',
    headers: RETRY_SOON,
  },
} as const satisfies Record<ErrorCode, ErrorKind>

/** Where an error happened, as far as it is known: nothing is of a request that could not be parsed. */
export interface ErrorPlace {
  readonly path?: string
  readonly accept?: string | undefined
}

/**
 * Answers every error: what the table knows as it says, anything else as 500 with the detail in the log only.
 *
 * That there is too much to do is told no sooner than `overloadPauseMs` after the request came. Clients who come back at
 * once, whatever `Retry-After` says, would otherwise leave too little time for those who are served: beside 600 who create
 * users with passwords, 0.62 of what could be hashed was.
 */
export function errorHandler(
  log: Logger,
  sendReply: SendReply,
  overloadPauseMs = 0,
): ErrorRequestHandler {
  return (error: unknown, request, response, _next) => {
    const refusal = asServiceError(error)
    if (refusal.code === 'overloaded') {
      const restMs = request.arrivedAt + overloadPauseMs - performance.now()
      const reply = errorReply(refusal, placeOf(request))
      setTimeout(() => sendReply(request, response, reply), restMs)
      return
    }
    if (refusal.code === 'internal_error') {
      log.error({ requestId: request.id, err: error }, 'request failed')
    } else if (refusal.details.isDamaged) {
      log.error(
        { requestId: request.id, err: refusal.cause },
        'the database is damaged or cannot be read',
      )
    } else if (refusal.code === 'storage_unavailable') {
      log.warn({ requestId: request.id, err: refusal.cause }, 'database unavailable')
    }
    if (response.headersSent) response.destroy()
    else sendReply(request, response, errorReply(refusal, placeOf(request)))
  }
}

export function errorReply({ code, details }: ServiceError, place: ErrorPlace = {}): Reply {
  const kind: ErrorKind = ERROR_KINDS[code]
  const status = details.status ?? kind.status
  const told = { status, message: details.message ?? kind.message, details, place }
  const isProblem = prefersProblem(place.accept)
  return {
    status,
    headers: {
      'Cache-Control': 'no-store',
      ...kind.headers,
      ...details.headers,
    },
    body: JSON.stringify(isProblem ? problem(told) : plainError(told)),
    ...(isProblem ? { type: PROBLEM_TYPE } : {}),
  }
}

interface Told {
  readonly status: number
  readonly message: string
  readonly details: ErrorDetails
  readonly place: ErrorPlace
}

function asServiceError(error: unknown): ServiceError {
  return error instanceof ServiceError
    ? error
    : new ServiceError('internal_error', { cause: error })
}

export function placeOf(request: Request): ErrorPlace {
  const { accept } = request.headers
  try {
    return { path: request.path, accept }
  } catch {
    // A target such as http://[/ is a path to nobody.
    return { accept }
  }
}

function plainError({ status, message, details: { errors }, place }: Told) {
  const isUser = place.path === '/users' || place.path?.startsWith('/users/')
  return {
    message,
    resource: isUser ? 'User' : 'Request',
    code: status,
    status: false,
    ...(errors && {
      errors: Object.fromEntries(errors.map(({ field, messages }) => [field, messages])),
    }),
  }
}

/** RFC 9457. */
function problem({ status, message, details: { errors, violatedPolicies }, place }: Told) {
  const isQuota = violatedPolicies !== undefined && status === 429
  return {
    type: isQuota ? QUOTA_EXCEEDED : 'about:blank',
    // The status phrase, as RFC 9457 4.2.1 wants it of about:blank.
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: message,
    ...(place.path !== undefined && { instance: asUriReference(place.path) }),
    ...(isQuota && { 'violated-policies': violatedPolicies }),
    ...(errors && { errors: errors.flatMap(problemsOfField) }),
  }
}

function problemsOfField({ at, messages }: FieldError) {
  const where = 'pointer' in at ? { pointer: `#${at.pointer}` } : at
  return messages.map(detail => ({ detail, ...where }))
}

/** A path may hold what a URI may not, such as a stray percent sign, or begin as the name of a host does. */
function asUriReference(path: string): string {
  const escaped = path.replace(/%(?![0-9A-Fa-f]{2})|[^\w.~!$&'()*+,;=:@%/-]/g, encodeURIComponent)
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}
