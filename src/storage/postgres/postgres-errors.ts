import pg from 'pg'
import { ServiceError } from '../../errors.ts'
import { UnusableDatabase } from '../unusable-database.ts'

/** Whether the server refused a row because of this constraint or index. */
export function violates(error: unknown, constraint: string): boolean {
  return (
    error instanceof pg.DatabaseError &&
    error.code?.startsWith('23') === true &&
    error.constraint === constraint
  )
}

/** The SQLSTATE of an error of the server: https://www.postgresql.org/docs/current/errcodes-appendix.html */
export function sqlStateOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}

/** Removes the fields in which the server quotes rows, with e-mails and digests: errors get into logs. */
export function hideRows(error: unknown): void {
  if (error instanceof pg.DatabaseError)
    Object.assign(error, { detail: undefined, where: undefined })
}

/** Whether the server closes the connection after this error. */
export function isFatal(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) || ['FATAL', 'PANIC'].includes(error.severity ?? '')
}

/** A crash of another session ends this one, perhaps after its commit. */
const CRASH = '57P02'

/** PgBouncer says so too if it loses the server, or has none. */
const CONNECTION_ERROR = '08'

/** Whether the server has undone the statement that threw this. Without an error of the server nobody knows. */
export function isUndone(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state !== undefined && state !== CRASH && !state.startsWith(CONNECTION_ERROR)
}

/**
 * Whether a statement that a connection has prepared no longer fits the schema (0A000), or got lost (26000). Another
 * connection prepares it anew.
 */
export function isStale(error: unknown): boolean {
  return ['0A000', '26000'].includes(sqlStateOf(error) ?? '')
}

/** The SQLSTATE of a write that a server refuses because it takes none. */
export const READ_ONLY = '25006'

/**
 * Classes and codes of causes outside the service that may pass: the connection (08), a deadlock or a conflict (40), no
 * resources (53), an operator or a timeout (57), the disk (58), a server that takes no writes, a lock that was not free.
 */
const UNAVAILABLE: readonly string[] = ['08', '40', '53', '57', '58', READ_ONLY, '55P03']

/** Damaged data and indexes. */
const DAMAGED: readonly string[] = ['XX001', 'XX002']

/** Whether the server cannot do now what it was asked for. */
export function isUnavailable(error: unknown): boolean {
  const state = sqlStateOf(error) ?? ''
  return UNAVAILABLE.some(start => state.startsWith(start))
}

/** Whether the server found damaged data or a damaged index. */
export function isDamage(error: unknown): boolean {
  return DAMAGED.includes(sqlStateOf(error) ?? '')
}

/**
 * The error for work that was not done because the database cannot be used now. Its cause loses its stack: during an outage
 * every request logs it, and it only shows the driver.
 */
export function unavailable(cause: unknown): ServiceError {
  if (cause instanceof Error) Object.assign(cause, { stack: undefined })
  return new ServiceError('storage_unavailable', { cause })
}

/** Wrong credentials (28), a database that does not exist, no rights (42501), an unknown option or a wrong value of one. */
const PERMANENT: readonly string[] = ['28', '3D000', '42501', '42704', '22023']

/** Whether an attempt to connect fails in the same way until an operator changes something. */
export function isPermanent(error: unknown): boolean {
  const state = sqlStateOf(error)
  if (state !== undefined) return PERMANENT.some(start => state.startsWith(start))
  return error instanceof UnusableDatabase || isCertificateError(error)
}

/** OpenSSL's reasons for which Node refuses a certificate: https://nodejs.org/api/tls.html#x509-certificate-error-codes */
function isCertificateError(error: unknown): boolean {
  const { code = '', message } = error as NodeJS.ErrnoException
  return (
    code.startsWith('ERR_TLS_') ||
    code.startsWith('ERR_SSL_') ||
    code.includes('CERT') ||
    code.startsWith('UNABLE_TO_') ||
    message === 'The server does not support SSL connections'
  )
}
