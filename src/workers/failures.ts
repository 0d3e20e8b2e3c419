import { type ErrorCode, type ErrorDetails, ServiceError } from '../errors.ts'

/** An error as JSON. */
export interface Failure {
  /** The code of a `ServiceError`. */
  readonly code?: ErrorCode
  /** What else a `ServiceError` says. */
  readonly details?: Omit<ErrorDetails, 'cause'>
  /** What else was thrown, or the cause of the `ServiceError`. */
  readonly error?: PlainError
}

/** An error, for the log of another process. */
export interface PlainError {
  readonly name: string
  readonly message: string
  readonly stack?: string | undefined
  readonly code?: string | undefined
  readonly cause?: PlainError
}

/** More causes in a row than this are left out. An error may be its own cause. */
const MAX_CAUSES = 10

/** What was thrown, in a form that can be sent. */
export function failureOf(error: unknown): Failure {
  if (!(error instanceof ServiceError)) return { error: plainErrorOf(error) }
  const { cause, ...details } = error.details
  return {
    code: error.code,
    ...(Object.keys(details).length > 0 && { details }),
    ...(cause !== undefined && { error: plainErrorOf(cause) }),
  }
}

/** The error that was sent. A `ServiceError` keeps its class; anything else becomes an `Error` with the same properties. */
export function errorOf({ code, details, error }: Failure): unknown {
  const cause = error && errorLike(error)
  return code === undefined ? cause : new ServiceError(code, { ...details, cause })
}

function plainErrorOf(error: unknown, depth = 0): PlainError {
  const { name, message, stack, code, cause } = Object(error) as Partial<PlainError>
  return {
    name: name ?? 'Error',
    message: message ?? String(error),
    stack,
    code,
    ...(cause !== undefined && depth < MAX_CAUSES && { cause: plainErrorOf(cause, depth + 1) }),
  }
}

function errorLike({ cause, ...properties }: PlainError): Error {
  const options = cause === undefined ? {} : { cause: errorLike(cause) }
  return Object.assign(new Error(properties.message, options), properties)
}
