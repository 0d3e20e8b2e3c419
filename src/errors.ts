/** A wrong field: where it is, and every rule that it breaks. */
export interface FieldError {
  /** The key of the field in `errors` of the response. */
  readonly field: string
  /** A JSON pointer into the request body, or the name of a query parameter; left out for what is not in the request. */
  readonly at?: { readonly pointer: string } | { readonly parameter: string }
  readonly messages: readonly string[]
}

/** What an error says beyond its code. */
export interface ErrorDetails {
  readonly errors?: readonly FieldError[]
  /** The rules whose limit was reached, for `rate_limited`. */
  readonly violatedPolicies?: readonly string[]
  /** Replaces the status of the code, as `message` replaces its message. */
  readonly status?: number
  readonly message?: string
  /** Added to the headers of the code, such as `Allow` for `method_not_allowed`. */
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** Everything about an error code. */
export interface ErrorKind {
  readonly status: number
  /** For people. `details.message` replaces it. */
  readonly message: string
  /** What happened, for the OpenAPI document, unless `message` says it all. Markdown. */
  readonly about?: string
  /** Headers with the same value on every response. `details.headers` adds to them. */
  readonly headers?: Readonly<Record<string, string>>
  /** Details of its example in the OpenAPI document. */
  readonly example?: ErrorDetails
  /** Whether it occurs before the target of the request is known. */
  readonly hasNoTarget?: true
  /** A log line with the cause, besides the line of the request. */
  readonly log?: { readonly level: 'error' | 'warn'; readonly message: string }
  /** The code that clients see instead. */
  readonly shownAs?: string
}

/** For errors that go away by themselves: a retry after a second may succeed. */
const RETRY_SOON = { 'Retry-After': '1' }

const UNAVAILABLE = {
  status: 503,
  message: 'The database is not available, please try again',
  about: 'The database cannot be read or written now. Nothing was changed.',
  headers: RETRY_SOON,
} as const

/** The challenge of both ports: RFC 6750 3. */
export const BEARER_CHALLENGE = 'Bearer realm="user-records"'

/** The challenge to a request whose key or token is not valid, whatever is wrong with it. */
export const INVALID_TOKEN = {
  'WWW-Authenticate': `${BEARER_CHALLENGE}, error="invalid_token"`,
}

/** The one table of error codes: what clients, the log and the OpenAPI document say about each. */
export const ERRORS = {
  request_malformed: {
    status: 400,
    message: 'The request is malformed',
    about: 'The request is not valid HTTP, or its `Host` is missing, repeated or invalid.',
    hasNoTarget: true,
  },
  path_malformed: {
    status: 400,
    message: 'The path cannot be decoded',
  },
  body_malformed: {
    status: 400,
    message: 'The body is not JSON in UTF-8',
    about: 'The body is not JSON, not UTF-8, or not what `Content-Encoding` says.',
  },
  query_invalid: {
    status: 400,
    message: 'Query parameters are invalid',
    about: 'A query parameter is unknown, given twice, empty or malformed; `errors` names it.',
  },
  idempotency_key_malformed: {
    status: 400,
    message: 'Idempotency-Key must be 1 to 255 visible characters, given once',
  },
  key_required: {
    status: 401,
    message: 'A valid API key is required',
    about:
      'The request has no API key that is valid: none, one that is unknown or revoked, or an expired one.',
    headers: { 'WWW-Authenticate': BEARER_CHALLENGE },
  },
  token_required: {
    status: 401,
    message: 'The token of the management port is required',
    headers: { 'WWW-Authenticate': BEARER_CHALLENGE },
  },
  blocked: {
    status: 403,
    message: 'Forbidden',
    about: 'A blocklist or a ban denies the request. A ban ends after `Retry-After` seconds.',
  },
  scope_missing: {
    status: 403,
    message: 'The API key lacks a scope',
    about: 'The API key lacks the scope that the operation needs; `message` names it.',
    example: {
      message: 'The API key lacks the scope users:write',
      headers: {
        'WWW-Authenticate': `${BEARER_CHALLENGE}, error="insufficient_scope", scope="users:write"`,
      },
    },
  },
  origin_not_allowed: {
    status: 403,
    message: 'Pages of other origins may not use the management port',
  },
  path_not_found: { status: 404, message: 'Not found' },
  user_not_found: { status: 404, message: 'User not found' },
  method_not_allowed: {
    status: 405,
    message: 'Method not allowed',
  },
  not_acceptable: {
    status: 406,
    message: 'Only application/json is available',
    about: '`Accept` allows no media type that this path can answer with.',
  },
  request_timeout: {
    status: 408,
    message: 'The request took too long to arrive',
    hasNoTarget: true,
  },
  idempotency_key_in_use: {
    status: 409,
    message: 'A request with this Idempotency-Key is still running',
    headers: RETRY_SOON,
  },
  idempotent_user_deleted: {
    status: 410,
    message: 'The user that this Idempotency-Key made has been deleted',
  },
  cursor_expired: {
    status: 410,
    message: 'Start again without a cursor',
    about:
      'The cursor is of another database or of a restored one, or older than the deletions that are kept. Start again ' +
      'without a cursor.',
  },
  version_mismatch: {
    status: 412,
    message: 'The version is not one that If-Match or If-None-Match allows',
    about:
      '`If-Match` names another version, or a weak one, or `If-None-Match` names this one. Nothing was changed.',
  },
  body_too_large: {
    status: 413,
    message: 'The body is too large',
    about: 'The body is too large, before or after inflating. The connection is closed.',
    headers: { Connection: 'close' },
  },
  target_too_long: {
    status: 414,
    message: 'The request target is too long',
    hasNoTarget: true,
  },
  media_type_unsupported: {
    status: 415,
    message: 'The body must be application/json in UTF-8',
    about: 'The body is not declared as `application/json` in UTF-8.',
    headers: { Accept: 'application/json' },
  },
  encoding_unsupported: {
    status: 415,
    message: 'The content encoding is not supported',
    headers: { 'Accept-Encoding': 'gzip, deflate, br' },
  },
  scheme_not_allowed: {
    status: 421,
    message: 'The target has another scheme than the connection',
    about:
      'The target is an absolute URL with a scheme that the request did not come by, such as `https` without TLS.',
  },
  host_not_allowed: {
    status: 421,
    message: 'This service does not answer to this host name',
  },
  validation_failed: {
    status: 422,
    message: 'Validation failed',
    about: 'Fields are wrong; `errors` names each. Nothing was changed.',
  },
  email_taken: {
    status: 422,
    message: 'Validation failed',
    about: 'Another user has this address.',
  },
  wrong_credentials: {
    status: 422,
    message: 'Wrong email or password',
    about:
      'No user has this e-mail and this password. The response does not tell which of the two is wrong.',
  },
  limits_invalid: {
    status: 422,
    message: 'The limits file is invalid, the previous rules stay in force',
  },
  idempotency_key_reused: {
    status: 422,
    message: 'This Idempotency-Key was used with another body',
  },
  rate_limited: {
    status: 429,
    message: 'Too many requests, please try again later.',
    example: { violatedPolicies: ['signups'] },
  },
  headers_too_large: {
    status: 431,
    message: 'The request headers are too large',
    about: 'The request line and headers are too large.',
    hasNoTarget: true,
  },
  internal_error: {
    status: 500,
    message: 'Internal Server Error',
    about: 'An error of the service itself; its log has the details.',
    log: { level: 'error', message: 'request failed' },
  },
  transfer_coding_unsupported: {
    status: 501,
    message: 'The transfer coding is not supported',
    about: '`Transfer-Encoding` names a coding other than `chunked`.',
    headers: { Connection: 'close' },
  },
  storage_unavailable: { ...UNAVAILABLE, log: { level: 'warn', message: 'database unavailable' } },
  storage_damaged: {
    ...UNAVAILABLE,
    // Clients can only retry in both cases. The difference matters to the operator.
    shownAs: 'storage_unavailable',
    log: { level: 'error', message: 'database is damaged or unreadable' },
  },
  outcome_unknown: {
    status: 503,
    message: 'The connection to the database broke: the change may have been made, or not',
    about:
      'The connection to the database broke before the result of a write arrived. The write may have been done or not. A ' +
      'retry with the same `Idempotency-Key` tells.',
    headers: RETRY_SOON,
    log: { level: 'warn', message: 'outcome of a write is unknown' },
  },
  words_unavailable: {
    status: 503,
    message: 'The index of words is being built, please try again later',
    about:
      'A list with `q` cannot be made yet, because the index of words is being built, as once after an upgrade. Lists without ' +
      '`q` are answered.',
    headers: { 'Retry-After': '10' },
  },
  reload_failed: {
    status: 503,
    message: 'The limits could not be reloaded, the previous rules stay in force',
    headers: RETRY_SOON,
  },
  overloaded: {
    status: 503,
    message: 'The service is overloaded, please try again',
    about: 'The service is overloaded. Nothing was changed.',
    headers: { 'Retry-After': '5' },
  },
  shutting_down: {
    status: 503,
    message: 'The service is shutting down, please try again',
    headers: RETRY_SOON,
  },
} as const satisfies Record<string, ErrorKind>

/** Stable names of what went wrong. Each code that clients see has a heading in `docs/errors.md`. */
export type ErrorCode = keyof typeof ERRORS

/** What the table says about a code. */
export function kindOf(code: ErrorCode): ErrorKind {
  return ERRORS[code]
}

/**
 * An error that a caller can cause or must handle. Anything else that is thrown is a bug.
 *
 * An `Error` by its prototype, without a stack: the code and the cause say what happened, and capturing a stack would take
 * a tenth of the CPU of an error response.
 */
export class ServiceError implements Error {
  readonly name = 'ServiceError'
  readonly message: string
  readonly cause: unknown
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    this.message = code
    this.cause = details.cause
    this.code = code
    this.details = details
  }
}

Object.setPrototypeOf(ServiceError.prototype, Error.prototype)

/** A command stopped by something outside the program, such as a setting or a file. `problems` are lines for the operator. */
export class OperatorError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options)
    this.name = 'OperatorError'
    this.problems = problems
  }
}
