import pg, { type ClientConfig } from 'pg'
import { createPatience, NoAnswer, withinPatience } from '../../waiting/patience.ts'
import { PostgresClient } from './client-config.ts'
import type { Row, Session, SpecialStatement, Statement } from './postgres-connections.ts'
import { explainRefusal, hideRows, isFatal } from './postgres-errors.ts'

/** One open connection. A statement without an answer ends it, and throws `NoAnswer`. */
export interface Connection extends Session {
  /** Whether the server takes no writes, because it is a standby or was told so. */
  readonly isReadOnly: boolean
  /** Whether a pooler gives each transaction another session, so that nothing may be kept in a session. */
  readonly isPooled: boolean
  readonly settings: SessionSettings
  /** The `Hosts` that made it use it only while this is theirs. */
  generation: number
  /** Becomes true when the connection cannot be used any more. */
  readonly isBroken: boolean
  /** Ends the connection at once. Statements that wait for a result throw `reason`. */
  destroy(reason: Error): void
  /** Ends the connection in order. */
  end(): void
}

export interface SessionSettings {
  readonly lockTimeoutMs: number
  /** For the server. This process waits a moment longer for its answer. */
  readonly statementTimeoutMs: number
  /** How long the server lets the session wait inside a transaction; left out: for ever. */
  readonly idleTimeoutMs?: number
  /** Whether a plan is made once for any values of the parameters. */
  readonly hasGenericPlans: boolean
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

/** With the settings of TCP, the server notices within half a minute that this process or its machine is gone. */
const SETTINGS = `
  SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),
    set_config('idle_in_transaction_session_timeout', $3, false), set_config('plan_cache_mode', $4, false),
    set_config('default_transaction_isolation', 'read committed', false), set_config('jit', 'off', false),
    set_config('bytea_output', 'hex', false), set_config('array_nulls', 'on', false),
    set_config('standard_conforming_strings', 'on', false), set_config('tcp_user_timeout', '20s', false),
    set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '2', false)`

const KEEP_ALIVE_AFTER_MS = 10_000

/** From the time at which the server ends a statement to the end of a connection on which no answer came. */
const SILENCE_MS = 300

/** Between two looks at a statement. A stretch in which the process was too busy to listen counts as one. */
const LOOK_MS = 100

/** Those that were not used for longest are forgotten: each takes some 50 kB of the server's memory. */
const MAX_PREPARED = 100

type FactsRow = readonly [pid: number, isReadOnly: boolean]

/** Connects to one host. Throws the error of the driver or of the server, `UnusableDatabase` and `NoAnswer`. */
export async function openConnection(options: OpenConnectionOptions): Promise<Connection> {
  const client = new PostgresClient({
    ...options.config,
    types: { getTypeParser },
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
  })
  const connection = watch(client, options)
  try {
    return await withinPatience(options.timeoutMs, prepare(client, connection))
  } catch (error) {
    connection.destroy(error as Error)
    throw explainRefusal(error, options.config)
  }
}

async function prepare(client: PostgresClient, connection: Connection): Promise<Connection> {
  await client.connect()
  const [facts] = await connection.query<FactsRow>(SELECT_FACTS)
  const [pid, isReadOnly] = facts as FactsRow
  const { settings } = connection
  // A pooler has process ids of its own.
  const isPooled = pid !== client.processID
  const plans = settings.hasGenericPlans ? 'force_generic_plan' : 'auto'
  if (!isPooled) await connection.query(SETTINGS, [...limitsOf(settings), plans])
  return Object.assign(connection, { isReadOnly, isPooled })
}

/** The values of `lock_timeout`, `statement_timeout` and `idle_in_transaction_session_timeout`. */
export function limitsOf(settings: SessionSettings): readonly string[] {
  const { lockTimeoutMs, statementTimeoutMs, idleTimeoutMs = 0 } = settings
  return [lockTimeoutMs, statementTimeoutMs, idleTimeoutMs].map(String)
}

/** The connection of a client, whose end is watched. Nothing is known of the server yet. */
function watch(
  client: PostgresClient,
  { settings, onBroken = () => {} }: OpenConnectionOptions,
): Connection {
  const prepared = new Set<string>()
  const patience = createPatience({ tickMs: LOOK_MS })
  let broken: Error | undefined
  let isEnding = false

  function breakWith(reason: Error): void {
    if (broken !== undefined) return
    broken = reason
    if (!isEnding) onBroken()
  }

  client.on('error', breakWith)
  client.on('end', () => breakWith(new Error('the server closed the connection')))

  /** The driver never forgets a statement. The message goes with the next one, and needs no answer. */
  function notePrepared(name: string): void {
    prepared.delete(name)
    prepared.add(name)
    if (prepared.size <= MAX_PREPARED) return
    const [oldest] = prepared as Set<string> & [string]
    prepared.delete(oldest)
    delete client.connection.parsedStatements[oldest]
    client.connection.close({ type: 'S', name: oldest }, true)
  }

  async function query<R extends Row>(
    statement: Statement,
    values: readonly unknown[] = [],
  ): Promise<R[]> {
    const special = typeof statement === 'string' ? { text: statement } : statement
    const { name, text, withinMs = settings.statementTimeoutMs }: SpecialStatement = special
    const wait = patience.begin(withinMs + SILENCE_MS, () =>
      connection.destroy(new NoAnswer(`no answer in ${withinMs / 1000} s`)),
    )
    try {
      const isPrepared = name !== undefined && !connection.isPooled
      if (isPrepared) notePrepared(name)
      const config = { text, values: values as unknown[], rowMode: 'array' as const }
      const { rows } = await client.query<R>(isPrepared ? { ...config, name } : config)
      return rows
    } catch (error) {
      hideRows(error)
      if (isFatal(error)) breakWith(error as Error)
      throw broken ?? error
    } finally {
      wait.end()
    }
  }

  const connection = {
    isReadOnly: false,
    isPooled: false,
    settings,
    generation: 0,
    query,
    get isBroken() {
      return broken !== undefined || isEnding
    },
    destroy: (reason: Error) => {
      breakWith(reason)
      client.connection.stream.destroy()
    },
    end: () => {
      isEnding = true
      client.end().catch(() => {})
      // A frozen server never closes its end, and must not keep the process alive.
      client.connection.stream.unref()
    },
  }
  return connection
}

const BIGINT_OID = 20

/** Numbers of the service fit into a JavaScript number. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): unknown {
  if (oid === BIGINT_OID) return Number
  return (pg.types.getTypeParser as (oid: number, format?: string) => unknown)(oid, format)
}
