import { isNativeError } from 'node:util/types'
import pg, { type ClientConfig } from 'pg'
import { ServiceError } from '../../errors.ts'
import { isOutage } from '../join-calls.ts'
import { UnusableDatabase } from '../unusable-database.ts'

/** Whether the server refused a row because of this constraint or index. */
export function violates(error: unknown, constraint: string): boolean {
  return isOfState(error, ['23']) && (error as pg.DatabaseError).constraint === constraint
}

/** The SQLSTATE of an error of the server: https://www.postgresql.org/docs/current/errcodes-appendix.html */
export function sqlStateOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}

/** Whether an error is, or stands for, one of the server with one of these SQLSTATEs, or of one of these classes (two characters). */
export function isOfState(error: unknown, states: readonly string[]): boolean {
  const state = sqlStateOf(error) ?? sqlStateOf((error as Error).cause)
  return state !== undefined && states.some(start => state.startsWith(start))
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
  return sqlStateOf(error) !== undefined && !isOfState(error, [CRASH, CONNECTION_ERROR])
}

/**
 * Whether a statement that a connection has prepared no longer fits the schema (0A000), or got lost (26000). Another
 * connection prepares it anew.
 */
export function isStale(error: unknown): boolean {
  return isOfState(error, ['0A000', '26000'])
}

/** The SQLSTATE of a write that a server refuses because it takes none. */
export const READ_ONLY = '25006'

/** The SQLSTATE of a wait for a lock that took too long. */
export const LOCK_NOT_AVAILABLE = '55P03'

/** This role may not do what it tried, or row-level security could hide rows from it. */
export const NO_RIGHTS = '42501'

/**
 * Classes and codes of causes outside the service that may pass: the connection (08), a deadlock or a conflict (40), no
 * resources (53), an operator or a timeout (57), the disk (58), a server that takes no writes, a lock that was not free, rights
 * that an operator took.
 */
const UNAVAILABLE = ['08', '40', '53', '57', '58', READ_ONLY, LOCK_NOT_AVAILABLE, NO_RIGHTS]

/** Damaged data and indexes. */
const DAMAGED: readonly string[] = ['XX001', 'XX002']

/** What became of work that failed. */
export interface Loss {
  /** Whether its connection is lost with it. */
  isLost: boolean
  /** Whether what it wrote may be committed. */
  mayBeDone: boolean
}

/** The error for the caller of work that failed. Errors that tell of no outage and no damage stay as they are. */
export function explainFailure(error: unknown, { isLost, mayBeDone }: Loss): unknown {
  if (mayBeDone) return new ServiceError('outcome_unknown', { cause: error })
  if (isOfState(error, DAMAGED)) return new ServiceError('storage_damaged', { cause: error })
  if (error instanceof ServiceError) return error
  return isLost || isOfState(error, UNAVAILABLE) ? unavailable(error) : error
}

/**
 * The error for work that was not done because the database cannot be used now. Its causes lose their stacks: during an outage
 * every request logs it, and it only shows the driver.
 */
export function unavailable(cause: unknown): ServiceError {
  for (let error = cause; isNativeError(error); error = error.cause) {
    Object.assign(error, { stack: undefined })
  }
  return new ServiceError('storage_unavailable', { cause })
}

/** The sequence of ids has reached its end. */
export const NO_MORE_IDS = '2200H'

/** Wrong credentials (28), a database that does not exist, no rights, an unknown option or a wrong value of one. */
const PERMANENT: readonly string[] = ['28', '3D000', NO_RIGHTS, '42704', '22023']

/** Whether an attempt to connect fails in the same way until an operator changes something. */
export function isPermanent(error: unknown): boolean {
  if (sqlStateOf(error) !== undefined) return isOfState(error, PERMANENT)
  return error instanceof UnusableDatabase || isCertificateError(error)
}

/** OpenSSL's reasons for which Node refuses a certificate: https://nodejs.org/api/tls.html#x509-certificate-error-codes */
function isCertificateError(error: unknown): boolean {
  const { code = '', message } = error as NodeJS.ErrnoException
  return (
    ['ERR_TLS_', 'ERR_SSL_', 'UNABLE_TO_'].some(start => code.startsWith(start)) ||
    code.includes('CERT') ||
    message === 'The server does not support SSL connections'
  )
}

/** Whether to try again later. Only for work that is safe to repeat even if it was done. */
export function mayPass(error: unknown): boolean {
  return isOutage(error) && !isPermanent(error.cause)
}

const REASONS: Readonly<Record<string, string>> = {
  '28P01': 'the server refuses this user or password',
  '28000': 'the server has no such user, or its pg_hba.conf refuses it',
  [NO_RIGHTS]: 'this user may not use it: GRANT the rights that are missing',
  '53300':
    'no connection is left: raise max_connections, or the CONNECTION LIMIT of the role or database, or put a pooler in front',
  ECONNREFUSED: 'no server listens there',
  ENOTFOUND: 'its host is unknown',
  EAI_AGAIN: 'its host cannot be looked up now',
  ENOENT: 'no server listens on that socket',
}

/** What a server wants that refuses a connection, where its error does not say it. Other errors stay as they are. */
export function explainRefusal(error: unknown, { database, host, ssl }: ClientConfig): unknown {
  const state = sqlStateOf(error)
  const explain = (why: string) => new UnusableDatabase(`${why} (${state})`, { cause: error })
  if (state === '3D000') {
    // What was meant for a parameter may hold a password.
    const name = /[=&;]/.test(database ?? '') ? 'of this name' : JSON.stringify(database)
    return explain(`the server has no database ${name}: create it`)
  }
  if (state === undefined || ssl || host?.startsWith('/')) return error
  if (state === '28000') {
    return explain(
      `${REASONS[state]}; if the server takes only TLS, add sslmode=require to the URL`,
    )
  }
  // PgBouncer and services that run PostgreSQL have other codes for it.
  const isForTls = /\bSSL\b|sslmode/.test((error as Error).message)
  return isForTls ? explain('the server takes only TLS: add sslmode=require to the URL') : error
}

/** Why a database cannot be opened, in words for an operator. Errors that are no fault of the database stay as they are. */
export function asUnusable(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code === 'shutting_down') return error
  const { cause } = error
  return cause instanceof UnusableDatabase
    ? cause
    : new UnusableDatabase(reasonOf(cause), { cause })
}

function reasonOf(cause: unknown): string {
  const { code = '', message } = cause as NodeJS.ErrnoException
  const reason = REASONS[code]
  if (reason !== undefined) return `${reason} (${code})`
  if (sqlStateOf(cause) !== undefined) return `the server refuses it: ${message} (${code})`
  return `it cannot be reached: ${message}${code && ` (${code})`}`
}
