import { UnusableDatabase } from '../../unusable-database.ts'
import type { Session } from '../postgres-connections.ts'

/** An advisory lock of the schema: the object id of a table is unique in its database. The other half is any number. */
const KEY = `('users'::regclass::oid::bigint << 32) + 1668247673`

const LOCK_AS_SOURCE = `SELECT pg_try_advisory_xact_lock_shared(${KEY})`

const LOCK_AS_TARGET = `SELECT pg_try_advisory_xact_lock(${KEY})`

const NEVER_TIME_OUT = `SELECT set_config('idle_in_transaction_session_timeout', '0', true)`

/**
 * Locks a database for the transaction that the session has begun: it may be the source of many copies, or the target of
 * one. A lock of the transaction also holds behind a pooler.
 */
export async function lockForCopy(session: Session, end: 'source' | 'target'): Promise<void> {
  await session.query({ text: NEVER_TIME_OUT })
  const text = end === 'source' ? LOCK_AS_SOURCE : LOCK_AS_TARGET
  const [row] = await session.query<[boolean]>({ text })
  if (row?.[0]) return
  throw new UnusableDatabase(
    end === 'source'
      ? 'it is the target of a copy that is running'
      : 'another copy that is running uses it, or it is also the source',
  )
}
