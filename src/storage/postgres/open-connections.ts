import { createPatience, NoAnswer, withinPatience } from '../../platform/patience.ts'
import { performance, sleep } from '../../platform/timers.ts'
import { createCallGate } from '../call-gate.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { type Call, createConnectionShares } from './connection-shares.ts'
import { type HostClient, IDLE_MS, SHORT_LOCK_MS, SHORT_STATEMENT_MS } from './host-client.ts'
import type { HostsOptions } from './hosts.ts'
import type { Row, Session, Share, Statement, WriteOptions } from './postgres-connections.ts'
import {
  explainFailure,
  type Failure,
  failureOf,
  isOfState,
  isStale,
  LOCK_NOT_AVAILABLE,
  READ_ONLY,
  sqlStateOf,
  unavailable,
} from './postgres-errors.ts'

/** From a call to the end of its short work. Long work gets its connection within it. */
const CALL_MS = 1650

/** Before that end. What gets its connection later is not begun: it could not end in time, and the outcome of a write would be unknown. */
const LAST_BEGIN_MS = 300

/** Between two looks at the calls that wait. */
const LOOK_MS = 50

/** From the time at which the server ends a long statement to the end of a connection on which no answer came. */
const SILENCE_MS = 300

/** Of long work. */
const LONG_STATEMENT_MS = 20_000
const LONG_LOCK_MS = 1700

/** Between two attempts at short work that a lock holds up. */
const LOCK_PAUSE_MS = 20

/** For what runs at `close`. */
const CLOSE_MS = 3000

const SET_LOCALLY = `
  SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', $3, true), set_config('plan_cache_mode', 'auto', true)`

/** The first connection may be one that a restart of the server has left behind, and so may the second. */
const MAX_REPEATS = 2

interface Work<T> {
  readonly mode: 'read' | 'write' | 'transaction'
  readonly share: Share
  readonly run: (session: Session) => Promise<T>
  readonly withinMs?: number | undefined
  readonly countWrites?: WriteOptions<T>['countWrites'] | undefined
}

type AnyWork = Pick<Work<unknown>, 'mode' | 'share'>

type Outcome<T> = { readonly value: T } | Failure

/** How far a call is. */
interface Progress extends Call {
  /** Whether it is too late to begin anything. */
  readonly isLate: () => boolean
  /** Whether the statement that commits was sent. */
  isCommitting: boolean
}

export interface OpenConnectionsOptions extends Omit<HostsOptions, 'onLost'> {
  /** How long one statement of long work may take; 20 seconds by default. */
  readonly longStatementMs?: number
  /** As that of `OpenStorageOptions`. */
  readonly onCommit?: OpenStorageOptions['onCommit']
}

/**
 * The connections to one PostgreSQL database, made when they are needed. Short work ends within two seconds, with its wait for a
 * connection, and fails at once while the server is known to be away. Every statement has an end, also on a connection that has
 * gone silent. Throws `overloaded` if other long work has all connections of its share for so long.
 *
 * Every call throws `storage_unavailable` if nothing was changed because the server cannot be reached, takes no writes or
 * has no resources left, or because a lock was not free in time; `outcome_unknown` if there was no answer to a commit; and
 * `shutting_down` after `close`. Other errors of the server pass as they are: see `postgres-errors.ts`.
 */
export function openConnections(options: OpenConnectionsOptions) {
  const { longStatementMs = LONG_STATEMENT_MS, onCommit } = options
  const shares = createConnectionShares(options)
  const { hosts } = shares
  const calls = createCallGate()
  const patience = createPatience({ tickMs: LOOK_MS })

  async function run<T>(work: Work<T>): Promise<T> {
    calls.enter()
    const { withinMs = CALL_MS } = work
    const wait = patience.begin(withinMs, () =>
      call.giveUp(new NoAnswer('no answer, or no free connection, in time')),
    )
    const isLate = () => wait.elapsedMs() > withinMs - LAST_BEGIN_MS
    const call: Progress = { isLate, giveUp: () => {}, isCommitting: false }
    try {
      for (let repeats = 0; ; ) {
        const outcome = await attempt(work, call)
        if ('value' in outcome) return outcome.value
        if (isHeld(work, outcome) && !isLate()) await sleep(LOCK_PAUSE_MS)
        else if (!outcome.isLost || outcome.mayBeDone || isLate() || repeats++ === MAX_REPEATS)
          throw explainFailure(outcome)
      }
    } finally {
      wait.end()
      calls.leave()
    }
  }

  async function attempt<T>(work: Work<T>, call: Progress): Promise<Outcome<T>> {
    let client: Awaited<ReturnType<typeof shares.acquire>> | undefined
    let sentAt = 0
    try {
      client = await shares.acquire(work.share, call)
      // Each statement of long work has an end of its own.
      call.giveUp = isLong(work) ? () => {} : client.destroy
      call.isCommitting = false
      if (!isLong(work) && call.isLate()) throw unavailable(new Error('no free connection in time'))
      sentAt = performance.now()
      return { value: await runOn(client, work, call) }
    } catch (error) {
      if (isStale(error)) client?.destroy(error as Error)
      if (error instanceof NoAnswer) hosts.suspect(sentAt)
      if (sqlStateOf(error) === READ_ONLY) hosts.suspect()
      return failureOf(error, { ...call, isLost: client?.broken !== undefined })
    } finally {
      call.giveUp = () => {}
      if (client !== undefined) {
        if (client.broken === undefined) hosts.noteAnswer()
        shares.release(client)
      }
    }
  }

  async function runOn<T>(client: HostClient, work: Work<T>, call: Progress): Promise<T> {
    if (work.mode !== 'read' && client.isReadOnly)
      throw unavailable(new Error('the server takes no writes'))
    const startedAt = performance.now()
    const result = await inMode(client, work, call)
    const writes = work.countWrites?.(result) ?? 0
    if (writes > 0) onCommit?.({ seconds: (performance.now() - startedAt) / 1000, writes })
    return result
  }

  async function inMode<T>(client: HostClient, work: Work<T>, call: Progress): Promise<T> {
    const { mode, run } = work
    const query: Session['query'] = (statement, values) =>
      client.ask(statement, values, patienceFor(work, statement))
    if (!isLong(work) && (mode === 'read' || (mode === 'write' && !client.isPooled))) {
      call.isCommitting = mode === 'write'
      return run({ query })
    }
    const level = mode === 'read' ? 'REPEATABLE READ READ ONLY' : 'READ COMMITTED'
    await query(`BEGIN ISOLATION LEVEL ${level}`)
    try {
      // A session keeps no settings where a pooler hands it around.
      if (isLong(work) || client.isPooled) await query(SET_LOCALLY, limitsOf(work))
      const result = await run({ query })
      call.isCommitting = mode !== 'read'
      await query('COMMIT')
      return result
    } catch (error) {
      // A connection that may still be in the transaction must not be used again.
      if (client.broken === undefined) await query('ROLLBACK').catch(client.destroy)
      throw error
    }
  }

  /** Statements of short work end with the call. */
  function patienceFor(work: AnyWork, statement: Statement): number {
    if (!isLong(work)) return Number.POSITIVE_INFINITY
    const { withinMs = longStatementMs } = typeof statement === 'string' ? {} : statement
    return withinMs + SILENCE_MS
  }

  /** The values of `lock_timeout`, `statement_timeout` and `idle_in_transaction_session_timeout`. */
  function limitsOf(work: AnyWork): readonly string[] {
    const limits = isLong(work)
      ? [LONG_LOCK_MS, longStatementMs, IDLE_MS]
      : [SHORT_LOCK_MS, SHORT_STATEMENT_MS, IDLE_MS]
    return limits.map(String)
  }

  /** Runs a statement that only reads. Runs it again on another connection if its own breaks. */
  const query = <R extends Row>(
    statement: Statement,
    values?: readonly unknown[],
    share: Share = 'short',
  ) => run<R[]>({ mode: 'read', share, run: session => session.query(statement, values) })

  return {
    query,

    /** Runs a statement that writes, in a transaction of its own. */
    write: <R extends Row>(
      statement: Statement,
      values?: readonly unknown[],
      { share = 'write', ...options }: WriteOptions<R[]> = {},
    ) => {
      const write = (session: Session) => session.query<R>(statement, values)
      return run({ mode: 'write', share, run: write, ...options })
    },

    /**
     * Runs statements in one transaction (READ COMMITTED), which is rolled back if the work throws. Runs the work again if it
     * cannot have been done, so it changes nothing but the database.
     */
    transaction: <T>(
      work: (session: Session) => Promise<T>,
      { share = 'write', ...options }: WriteOptions<T> = {},
    ) => run({ mode: 'transaction', share, run: work, ...options }),

    /** Runs statements that only read, and that all see one moment. Runs them again if their connection breaks soon after the call. */
    snapshot: <T>(work: (session: Session) => Promise<T>, share: 'long') =>
      run({ mode: 'read', share, run: work }),

    /** Runs a statement that returns whether transactions are read-only. Throws `storage_unavailable` unless the server takes writes. */
    ping: async (statement: Statement) => {
      const [[isReadOnly] = [true]] = await query<[boolean]>(statement)
      if (!isReadOnly) return
      // A server that was told so on the way keeps its connections.
      hosts.suspect()
      throw unavailable(new Error('the server takes no writes'))
    },

    /** Asks nobody, and answers after `close` too. */
    report: () => ({ connections: shares.report() }),

    /** Closes all connections once what runs, and `last`, have ended, or after three seconds. */
    close: async (last: Promise<unknown> = Promise.resolve()) => {
      const all = last.then(calls.close)
      await withinPatience(CLOSE_MS, all).catch(() => {})
      shares.close(unavailable(new Error('the service closes its connections')))
      await all
    },
  }
}

function isLong({ share }: AnyWork): boolean {
  return share === 'long'
}

/** Whether a lock keeps short work from being done, which is then repeated here. */
function isHeld(work: AnyWork, { error }: Failure): boolean {
  return !isLong(work) && work.share !== 'write' && isOfState(error, [LOCK_NOT_AVAILABLE])
}
