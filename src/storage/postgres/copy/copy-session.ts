import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { createClientConfigs } from '../client-config.ts'
import { type Connection, openConnection, type SessionSettings } from '../open-connection.ts'
import type { Row, Session } from '../postgres-connections.ts'
import { asUnusable, unavailable } from '../postgres-errors.ts'

/** A connection for a whole copy. It throws `UnusableDatabase` for every error of the server and of the connection. */
export interface CopySession extends Session {
  /** Throws if the connection is broken. */
  requireOpen(): void
  close(): void
}

const CONNECT_TIMEOUT_MS = 5000

/** Much longer than a chunk takes. */
const ANSWER_TIMEOUT_MS = 60_000

const LOCK_TIMEOUT_MS = 10_000

export interface CopySessionOptions {
  readonly isWritten: boolean
  /** How long a statement may take. A frozen server would otherwise hold the copy for ever. */
  readonly answerTimeoutMs?: number | undefined
}

/** Connects to the first host that answers and, if it is to be written, takes writes. */
export async function openCopySession(
  location: PostgresLocation,
  { isWritten, answerTimeoutMs = ANSWER_TIMEOUT_MS }: CopySessionOptions,
): Promise<CopySession> {
  const timeoutMs = location.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
  const settings: SessionSettings = {
    lockTimeoutMs: LOCK_TIMEOUT_MS,
    statementTimeoutMs: answerTimeoutMs,
    hasGenericPlans: false,
  }
  const configOf = createClientConfigs(location)
  let failure: unknown
  for (const host of location.hosts) {
    try {
      const connection = await openConnection({ config: configOf(host), timeoutMs, settings })
      if (!(isWritten && connection.isReadOnly)) return createSession(connection)
      connection.end()
      failure ??= new UnusableDatabase('its server takes no writes')
    } catch (error) {
      failure ??= explain(error)
    }
  }
  throw failure
}

function createSession(connection: Connection): CopySession {
  async function query<R extends Row>(...statement: Parameters<Session['query']>): Promise<R[]> {
    try {
      return await connection.query<R>(...statement)
    } catch (error) {
      throw explain(error)
    }
  }

  return {
    query,
    requireOpen: () => {
      if (connection.isBroken) throw new UnusableDatabase('its server closed a connection')
    },
    close: connection.end,
  }
}

/** The server's or driver's error is the cause. */
function explain(error: unknown): unknown {
  return error instanceof UnusableDatabase ? error : asUnusable(unavailable(error))
}
