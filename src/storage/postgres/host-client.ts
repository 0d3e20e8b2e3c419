import pg from 'pg'
import { createPatience, NoAnswer } from '../../platform/patience.ts'
import { PostgresClient, type PostgresClientConfig } from './client-config.ts'
import type { Row, Session, SpecialStatement, Statement } from './postgres-connections.ts'
import { hideRows, isFatal } from './postgres-errors.ts'

/** For the server, from sending a statement to its answer. What may take longer sets its own limits in its transaction. */
export const SHORT_STATEMENT_MS = 1200

/** What a lock keeps from being done is tried again, in pauses without a connection. */
export const SHORT_LOCK_MS = 150

/** Longer than this process ever pauses in a transaction. With a long statement before it: half a minute. */
export const IDLE_MS = 8000

const KEEP_ALIVE_AFTER_MS = 10_000

/**
 * Of each session. Hidden rows would look like deleted ones, so without `row_security` reading them is an error. With the settings
 * of TCP, the server notices within half a minute that this process or its machine is gone.
 */
const SETTINGS = {
  lock_timeout: SHORT_LOCK_MS,
  statement_timeout: SHORT_STATEMENT_MS,
  idle_in_transaction_session_timeout: IDLE_MS,
  plan_cache_mode: 'force_generic_plan',
  row_security: 'off',
  default_transaction_isolation: 'read committed',
  jit: 'off',
  bytea_output: 'hex',
  array_nulls: 'on',
  standard_conforming_strings: 'on',
  tcp_user_timeout: '20s',
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 5,
  tcp_keepalives_count: 2,
}

/** Says what the server is, and makes the session ready. A pooler, which has process ids of its own, keeps no settings. */
const SET_UP = `
  SELECT pg_backend_pid() <> $1, current_setting('transaction_read_only') = 'on',
    CASE WHEN pg_backend_pid() = $1 THEN
      concat(${Object.entries(SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', false)`)})
    END`

/** Between two looks at a statement. A stretch in which the process was too busy to listen counts as one. */
const LOOK_MS = 100

/** From the time at which the server ends a statement, or is told to end a connection, to its end where no answer came. */
const SILENCE_MS = 300

/** A client whose connection ends once an answer does not come in time. What waits on it then throws `NoAnswer`. */
export class HostClient extends PostgresClient {
  readonly config: PostgresClientConfig
  /** Whether the server takes no writes, because it is a standby or was told so. */
  isReadOnly = false
  /** Whether a pooler gives each transaction another session, so that nothing may be kept in a session. */
  isPooled = false
  /** Why the connection cannot be used any more. */
  broken: Error | undefined
  /** How long the server may take for a statement that does not say it itself. */
  statementMs = Number.POSITIVE_INFINITY
  readonly session: Session = { query: (statement, values) => this.#ask(statement, values) }
  readonly #patience = createPatience({ tickMs: LOOK_MS })
  readonly #opening: { readonly end: () => void }

  /** It must be connected and prepared within `openMs`. Time in which the process was too busy to listen hardly counts. */
  constructor(config: PostgresClientConfig, openMs: number) {
    super({
      ...config,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    })
    this.config = config
    // Numbers of the service fit into one of JavaScript.
    this.setTypeParser(pg.types.builtins.INT8, Number)
    this.on('error', error => {
      this.broken ??= error
    })
    this.#opening = this.#within(openMs, 'it cannot be opened')
  }

  /** Ends the connection if this is not ended within `ms`. */
  #within(ms: number, what: string) {
    const onOver = () => this.destroy(new NoAnswer(`${what} within ${ms / 1000} s`))
    return this.#patience.begin(ms, onOver)
  }

  /** Once it is connected. */
  async prepare(): Promise<void> {
    type FactsRow = readonly [isPooled: boolean, isReadOnly: boolean]
    const [facts] = await this.session.query<FactsRow>(SET_UP, [this.processID])
    const [isPooled, isReadOnly] = facts as FactsRow
    Object.assign(this, { isPooled, isReadOnly })
    this.#opening.end()
  }

  async #ask<R extends Row>(statement: Statement, values: readonly unknown[] = []): Promise<R[]> {
    const {
      name,
      text,
      withinMs = this.statementMs,
    }: SpecialStatement = typeof statement === 'string' ? { text: statement } : statement
    const wait = withinMs < Infinity ? this.#within(withinMs + SILENCE_MS, 'no answer') : undefined
    try {
      const { rows } = await this.query<R>({
        ...{ name: this.isPooled ? undefined : name, text, rowMode: 'array' },
        values: values as unknown[],
      })
      return rows
    } catch (error) {
      hideRows(error)
      if (isFatal(error)) this.broken ??= error as Error
      throw this.broken ?? error
    } finally {
      wait?.end()
    }
  }

  /**
   * Ends the connection in order, or soon without the server: one that is frozen never closes its end. Until then it keeps the
   * process alive, so that what waits for its end gets there.
   */
  override end(): Promise<void>
  override end(callback: (error: Error) => void): void
  override end(callback?: (error: Error) => void): Promise<void> | void {
    this.broken ??= new Error('it was closed')
    this.#within(SILENCE_MS, 'it does not close')
    return callback === undefined ? super.end() : super.end(callback)
  }

  /** Ends the connection at once. Statements that wait for a result throw `reason`. */
  readonly destroy = (reason: Error): void => {
    this.broken ??= reason
    this.connection.stream.destroy(reason)
  }
}
