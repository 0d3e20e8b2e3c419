/** Stable names of what went wrong. Each code that clients see has a heading in `docs/errors.md`. */
export type ErrorCode =
  | 'request_malformed'
  | 'path_malformed'
  | 'body_malformed'
  | 'query_invalid'
  | 'idempotency_key_malformed'
  | 'key_required'
  | 'token_required'
  | 'blocked'
  | 'scope_missing'
  | 'origin_not_allowed'
  | 'path_not_found'
  | 'user_not_found'
  | 'method_not_allowed'
  | 'not_acceptable'
  | 'request_timeout'
  | 'idempotency_key_in_use'
  | 'idempotent_user_deleted'
  | 'version_mismatch'
  | 'body_too_large'
  | 'media_type_unsupported'
  | 'encoding_unsupported'
  | 'host_not_allowed'
  | 'validation_failed'
  | 'email_taken'
  | 'wrong_credentials'
  | 'limits_invalid'
  | 'idempotency_key_reused'
  | 'rate_limited'
  | 'headers_too_large'
  | 'internal_error'
  | 'storage_unavailable'
  | 'storage_damaged'
  | 'outcome_unknown'
  | 'words_unavailable'
  | 'reload_failed'
  | 'overloaded'
  | 'shutting_down'

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
