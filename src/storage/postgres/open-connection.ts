import type { Socket } from 'node:net'
import pg, { type Client, type ClientConfig } from 'pg'
import { PostgresClient } from './postgres-client.ts'
import type { Row, Session, Statement } from './postgres-connections.ts'
import { hideRows, isFatal } from './postgres-errors.ts'

/** One open connection. */
export interface Connection extends Session {
  /** Whether the server takes no writes, because it is a standby or was told so. */
  readonly isReadOnly: boolean
  /** Whether a pooler gives each transaction another session, so that nothing may be kept in a session. */
  readonly isPooled: boolean
  /** Becomes true when the connection cannot be used any more. */
  readonly isBroken: boolean
  /** Ends the connection at once. Statements that wait for a result throw `reason`. */
  destroy(reason: Error): void
  /** Ends the connection in order. */
  end(): void
}

export interface SessionSettings {
  readonly lockTimeoutMs: number
  readonly statementTimeoutMs: number
  /** Whether a plan is made once for any values of the parameters. */
  readonly hasGenericPlans: boolean
  /** How long a statement may stay unanswered before the connection is given up; left out where the caller has a deadline. */
  readonly silenceMs?: number
}

export interface OpenConnectionOptions {
  readonly config: ClientConfig
  /** For connecting and the first statements together. Time in which the process was too busy to listen hardly counts. */
  readonly timeoutMs: number
  readonly settings: SessionSettings
  /** Called once when the connection breaks, also while it is idle. */
  readonly onBroken?: () => void
}

const SELECT_FACTS = `
  SELECT pg_backend_pid(), current_setting('transaction_read_only') = 'on'`

const SETTINGS = `
  SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),
    set_config('plan_cache_mode', $3, false), set_config('default_transaction_isolation', 'read committed', false),
    set_config('jit', 'off', false), set_config('bytea_output', 'hex', false), set_config('array_nulls', 'on', false)`

const KEEP_ALIVE_AFTER_MS = 10_000

type FactsRow = readonly [pid: number, isReadOnly: boolean]

/** Connects to one host. Throws the error of the driver or of the server. */
export async function openConnection(options: OpenConnectionOptions): Promise<Connection> {
  const { config, timeoutMs, settings, onBroken = () => {} } = options
  const client = new PostgresClient({
    ...config,
    types: { getTypeParser },
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
  })
  const link = watch(client, { onBroken, silenceMs: settings.silenceMs })
  let lateness: Error | undefined
  const cancel = afterListening(timeoutMs, () => {
    lateness = new Error('no answer in time')
    link.destroy(lateness)
  })
  try {
    await client.connect()
    const [facts] = await link.query<FactsRow>({ text: SELECT_FACTS })
    const [pid, isReadOnly] = facts as FactsRow
    // A pooler has process ids of its own.
    const isPooled = pid !== (client as unknown as { processID: number }).processID
    if (!isPooled) await applySettings(link, settings)
    return Object.assign(link, { isReadOnly, isPooled })
  } catch (error) {
    link.destroy(error as Error)
    throw lateness ?? error
  } finally {
    cancel()
  }
}

/** Into how many parts `afterListening` divides its time. */
const PARTS = 5

/**
 * Calls `onEnd` after a time, unless the returned function is called first. Node runs timers before it reads sockets, so a
 * process that was busy would miss an answer that has arrived. Here a busy stretch, however long, counts as one part only.
 */
export function afterListening(ms: number, onEnd: () => void): () => void {
  let left = PARTS
  const timer = setInterval(() => {
    left--
    if (left > 0) return
    clearInterval(timer)
    onEnd()
  }, ms / PARTS)
  return () => clearInterval(timer)
}

async function applySettings(link: Session, settings: SessionSettings): Promise<void> {
  const { lockTimeoutMs, statementTimeoutMs, hasGenericPlans } = settings
  await link.query({ text: SETTINGS }, [
    String(lockTimeoutMs),
    String(statementTimeoutMs),
    hasGenericPlans ? 'force_generic_plan' : 'auto',
  ])
}

type Link = Omit<Connection, 'isReadOnly' | 'isPooled'>

/** A client whose end is watched. */
function watch(
  client: Client,
  {
    onBroken,
    silenceMs,
  }: { readonly onBroken: () => void; readonly silenceMs: number | undefined },
): Link {
  let broken: Error | undefined
  let isEnding = false

  function breakWith(reason: Error): void {
    if (broken !== undefined) return
    broken = reason
    if (!isEnding) onBroken()
  }

  client.on('error', breakWith)
  client.on('end', () => breakWith(new Error('the server closed the connection')))

  async function query<R extends Row>(
    { name, text, isUnbounded = false }: Statement,
    values: readonly unknown[] = [],
  ): Promise<R[]> {
    const cancel =
      silenceMs === undefined || isUnbounded ? undefined : afterListening(silenceMs, giveUp)
    try {
      const isPrepared = name !== undefined && !link.isPooled
      const config = { text, values: values as unknown[], rowMode: 'array' as const }
      const { rows } = await client.query<R>(isPrepared ? { ...config, name } : config)
      return rows
    } catch (error) {
      hideRows(error)
      if (isFatal(error)) breakWith(error as Error)
      throw broken ?? error
    } finally {
      cancel?.()
    }
  }

  function giveUp(): void {
    link.destroy(new Error(`no answer in ${Number(silenceMs) / 1000} s`))
  }

  const link = {
    isPooled: false,
    query,
    get isBroken() {
      return broken !== undefined || isEnding
    },
    destroy: (reason: Error) => {
      breakWith(reason)
      streamOf(client).destroy()
    },
    end: () => {
      isEnding = true
      client.end().catch(() => {})
      // A frozen server never closes its end, and must not keep the process alive.
      streamOf(client).unref()
    },
  }
  return link
}

function streamOf(client: Client): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream
}

const BIGINT_OID = 20

/** Numbers of the service fit into a JavaScript number. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): unknown {
  if (oid === BIGINT_OID) return Number
  return (pg.types.getTypeParser as (oid: number, format?: string) => unknown)(oid, format)
}
