/** What went wrong, in the words of `docs/errors.md`, which has a heading for each. */
export type ErrorCode =
  | 'request_malformed'
  | 'path_malformed'
  | 'body_malformed'
  | 'query_invalid'
  | 'idempotency_key_malformed'
  | 'blocked'
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
  | 'validation_failed'
  | 'email_taken'
  | 'idempotency_key_reused'
  | 'rate_limited'
  | 'headers_too_large'
  | 'internal_error'
  | 'storage_unavailable'
  | 'overloaded'
  | 'shutting_down'

/** One wrong field, where it stands, and every rule it breaks. */
export interface FieldError {
  /** The name under which the field is reported. */
  readonly field: string
  /** A JSON pointer into the request body, or the name of a query parameter. */
  readonly at: { readonly pointer: string } | { readonly parameter: string }
  readonly messages: readonly string[]
}

export interface ErrorDetails {
  readonly errors?: readonly FieldError[]
  /** The rules whose limit was reached, for `rate_limited`. */
  readonly violatedPolicies?: readonly string[]
  /** In place of what the code stands for. */
  readonly status?: number
  readonly message?: string
  /** Besides those that the code stands for, such as `Allow` of `method_not_allowed`. */
  readonly headers?: Readonly<Record<string, string>>
  /** For `storage_unavailable` that will hardly pass by itself, so that the operator has to know. */
  readonly isDamaged?: boolean
  readonly cause?: unknown
}

/** A refusal that a caller can cause or must handle. Anything else that is thrown is a fault of ours. */
export class ServiceError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    super(code, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'ServiceError'
    this.code = code
    this.details = details
  }
}

/** Something outside keeps a command from being done. One line for the operator in each of `problems`. */
export class OperatorError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options)
    this.name = 'OperatorError'
    this.problems = problems
  }
}
