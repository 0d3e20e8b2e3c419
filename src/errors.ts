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
  request_malformed: { status: 400, message: 'The request is malformed' },
  path_malformed: { status: 400, message: 'The path cannot be decoded' },
  body_malformed: { status: 400, message: 'The body is not JSON in UTF-8' },
  query_invalid: { status: 400, message: 'Query parameters are invalid' },
  idempotency_key_malformed: {
    status: 400,
    message: 'Idempotency-Key must be 1 to 255 visible characters, given once',
  },
  key_required: {
    status: 401,
    message: 'A valid API key is required',
    headers: { 'WWW-Authenticate': BEARER_CHALLENGE },
  },
  token_required: {
    status: 401,
    message: 'The token of the management port is required',
    headers: { 'WWW-Authenticate': BEARER_CHALLENGE },
  },
  token_unset: {
    status: 403,
    message: 'Users are on this port only with MANAGEMENT_TOKEN, because API keys are required',
    shownAs: 'token_required',
  },
  blocked: {
    status: 403,
    message: 'Forbidden',
    about: 'A blocklist or a ban denies the request. A ban ends after `Retry-After` seconds.',
  },
  scope_missing: { status: 403, message: 'The API key lacks a scope' },
  origin_not_allowed: {
    status: 403,
    message: 'Pages of other origins may not use the management port',
  },
  path_not_found: { status: 404, message: 'Not found' },
  user_not_found: { status: 404, message: 'User not found' },
  method_not_allowed: { status: 405, message: 'Method not allowed' },
  not_acceptable: { status: 406, message: 'Accept allows no media type of this path' },
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
  cursor_expired: { status: 410, message: 'Start again without a cursor' },
  version_mismatch: {
    status: 412,
    message: 'The version is not one that If-Match or If-None-Match allows',
  },
  body_too_large: {
    status: 413,
    message: 'The body is too large',
    headers: { Connection: 'close' },
  },
  target_too_long: { status: 414, message: 'The request target is too long' },
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
  scheme_not_allowed: { status: 421, message: 'The target has another scheme than the connection' },
  host_not_allowed: { status: 421, message: 'This service does not answer to this host name' },
  validation_failed: { status: 422, message: 'Validation failed' },
  email_taken: {
    status: 422,
    message: 'Validation failed',
    about: 'Another user has this address.',
  },
  wrong_credentials: { status: 422, message: 'Wrong email or password' },
  limits_invalid: {
    status: 422,
    message: 'The limits file is invalid, the previous rules stay in force',
  },
  idempotency_key_reused: {
    status: 422,
    message: 'This Idempotency-Key was used with another body',
  },
  rate_limited: { status: 429, message: 'Too many requests, please try again later.' },
  headers_too_large: { status: 431, message: 'The request headers are too large' },
  internal_error: {
    status: 500,
    message: 'Internal Server Error',
    log: { level: 'error', message: 'request failed' },
  },
  transfer_coding_unsupported: {
    status: 501,
    message: 'The transfer coding is not supported',
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
    headers: RETRY_SOON,
    log: { level: 'warn', message: 'outcome of a write is unknown' },
  },
  reload_failed: {
    status: 503,
    message: 'The limits could not be reloaded, the previous rules stay in force',
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

  /** The status of the response, where reporters of errors (Sentry) and error handlers look for it. */
  get status(): number {
    return this.details.status ?? kindOf(this.code).status
  }
}

Object.setPrototypeOf(ServiceError.prototype, Error.prototype)

const READ_FAILURES: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'this user may not read it',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'it is not UTF-8',
}

/** Why a file cannot be read, in words; the code of the error where there are none. */
export function readFailureInWords(error: unknown): string | undefined {
  const { code } = error as NodeJS.ErrnoException
  return code === undefined ? undefined : (READ_FAILURES[code] ?? code)
}

/** The text of a file, without a byte order mark. `refuse` makes the error for one in another encoding. */
export function decodeFile(bytes: Buffer, refuse: (reason: string) => OperatorError): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    // UTF-16 without a mark.
    if (!text.includes('\0')) return text
  } catch {}
  throw refuse('is not in UTF-8, but perhaps in UTF-16: save it as UTF-8')
}

/** A command stopped by something outside the program, such as a setting or a file. `problems` are lines for the operator. */
export class OperatorError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options)
    this.name = 'OperatorError'
    this.problems = problems
  }
}
