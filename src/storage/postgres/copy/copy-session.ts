import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { checkHistory } from '../../migrations.ts'
import { OLDER_SCHEMA, UnusableDatabase } from '../../unusable-database.ts'
import { createClientConfigs } from '../client-config.ts'
import { connectToAny } from '../gateway.ts'
import { readHistory, requireUsable } from '../inspect-schema.ts'
import type { Row, Session } from '../postgres-connections.ts'
import { unavailable } from '../postgres-errors.ts'
import { postgresMigrations } from '../postgres-migrator.ts'
import { asUnusable } from '../unreachable-reasons.ts'

/** A connection for a whole copy. It throws `UnusableDatabase` for every error of the server and of the connection. */
export interface CopySession extends Session {
  close(): void
}

export interface CopySessionOptions {
  readonly isWritten: boolean
  /** How long a statement may take. A frozen server would otherwise hold the copy for ever. */
  readonly answerTimeoutMs?: number | undefined
}

const CONNECT_TIMEOUT_MS = 5000

/** Much longer than a chunk takes. */
const ANSWER_TIMEOUT_MS = 60_000

const LOCK_TIMEOUT_MS = 10_000

/** Connects to the host that takes writes. The source may also be one that takes none. */
export async function openCopySession(
  location: PostgresLocation,
  { isWritten, answerTimeoutMs = ANSWER_TIMEOUT_MS }: CopySessionOptions,
): Promise<CopySession> {
  const connection = await explained(() =>
    connectToAny(location.hosts.map(createClientConfigs(location)), {
      timeoutMs: location.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      settings: {
        lockTimeoutMs: LOCK_TIMEOUT_MS,
        statementTimeoutMs: answerTimeoutMs,
        hasGenericPlans: false,
        silenceMs: answerTimeoutMs,
      },
    }),
  )
  if (isWritten && connection.isReadOnly) {
    connection.end()
    throw new UnusableDatabase('its server takes no writes')
  }
  return {
    query: <R extends Row>(...statement: Parameters<Session['query']>) =>
      explained(() => connection.query<R>(...statement)),
    close: connection.end,
  }
}

/** The server's or driver's error is the cause. */
async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof UnusableDatabase ? error : asUnusable(unavailable(error))
  }
}

/** Whether a database has no schema yet. Throws `UnusableDatabase` for a schema other than that of this release. */
export async function lacksSchema(session: Session): Promise<boolean> {
  const migrations = postgresMigrations()
  await requireUsable(session)
  const applied = await readHistory(session)
  checkHistory(applied, migrations)
  if (applied.length > 0 && applied.length < migrations.length) {
    throw new UnusableDatabase(OLDER_SCHEMA)
  }
  return applied.length === 0
}

const NEVER_TIME_OUT = `SELECT set_config('idle_in_transaction_session_timeout', '0', true)`

/** An advisory lock of the schema: the object id of a table is unique in its database. The other half is any number. */
const LOCK_KEY = `('users'::regclass::oid::bigint << 32) + 1668247673`

const LOCKS = {
  source: {
    text: `SELECT pg_try_advisory_xact_lock_shared(${LOCK_KEY})`,
    refusal: 'it is the target of a copy that is running',
  },
  target: {
    text: `SELECT pg_try_advisory_xact_lock(${LOCK_KEY})`,
    refusal: 'another copy that is running uses it, or it is also the source',
  },
}

/**
 * Locks a database for the transaction that the session has begun: it may be the source of many copies, or the target of
 * one. A lock of the transaction also holds behind a pooler.
 */
export async function lockForCopy(session: Session, end: keyof typeof LOCKS): Promise<void> {
  const { text, refusal } = LOCKS[end]
  await session.query({ text: NEVER_TIME_OUT })
  const [row] = await session.query<[boolean]>({ text })
  if (!row?.[0]) throw new UnusableDatabase(refusal)
}
