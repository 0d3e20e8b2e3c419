import { ServiceError } from '../../errors.ts'
import { UnusableDatabase } from '../unusable-database.ts'
import { isPermanent, sqlStateOf } from './postgres-errors.ts'

const NO_RIGHTS = '42501'

const REASONS: Readonly<Record<string, string>> = {
  '28P01': 'the server refuses this user or password',
  '28000': 'the server has no such user, or its pg_hba.conf refuses it',
  '3D000': 'the server has no such database: create it',
  [NO_RIGHTS]: 'this user may not use it: GRANT the rights that are missing',
  '53300': 'the server has no connection left: raise its max_connections, or put a pooler in front',
  ECONNREFUSED: 'no server listens there',
  ENOTFOUND: 'its host is unknown',
  EAI_AGAIN: 'its host cannot be looked up now',
  ENOENT: 'no server listens on that socket',
}

/** Why a database cannot be opened, in words for an operator. Errors that are no fault of the database stay as they are. */
export function asUnusable(error: unknown): unknown {
  if (sqlStateOf(error) === NO_RIGHTS)
    return new UnusableDatabase(reasonOf(error), { cause: error })
  if (!(error instanceof ServiceError) || error.code === 'shutting_down') return error
  const { cause } = error
  return cause instanceof UnusableDatabase
    ? cause
    : new UnusableDatabase(reasonOf(cause), { cause })
}

/** Whether waiting may help, for work that may be repeated although it may have been done. */
export function mayPass(error: unknown): boolean {
  return (
    error instanceof ServiceError &&
    ['storage_unavailable', 'outcome_unknown'].includes(error.code) &&
    !isPermanent(error.cause)
  )
}

function reasonOf(cause: unknown): string {
  const { code = '', message } = cause as NodeJS.ErrnoException
  const reason = REASONS[code]
  if (reason !== undefined) return `${reason} (${code})`
  const state = sqlStateOf(cause)
  if (state !== undefined) return `the server refuses it: ${message} (${state})`
  return code === ''
    ? `it cannot be reached: ${message}`
    : `it cannot be reached: ${message} (${code})`
}
