import { createPatience } from '../../platform/patience.ts'
import { performance, sleep } from '../../platform/timers.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { type Call, createConnectionShares } from './connection-shares.ts'
import { type HostClient, IDLE_MS, SHORT_LOCK_MS, SHORT_STATEMENT_MS } from './host-client.ts'
import type { HostsOptions } from './hosts.ts'
import type { Row, Session, Share, Statement, WriteOptions } from './postgres-connections.ts'
import {
  explainFailure,
  isStale,
  isUndone,
  LOCK_NOT_AVAILABLE,
  type Loss,
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

/** Of long work. */
const LONG_STATEMENT_MS = 20_000

/** From the call of long work to the end of a wait for a lock, with the wait for a connection before it. */
const LONG_LOCK_MS = 1700

const MIN_LOCK_MS = 100

/** Between two attempts at short work that a lock holds up. */
const LOCK_PAUSE_MS = 20

/** For what runs at `close`. */
const CLOSE_MS = 3000

const SET_LOCALLY = `
  SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', $3, true), set_config('plan_cache_mode', 'auto', true)`

const NO_WRITES = new Error('the server takes no writes')

/** The first connection may be one that a restart of the server has left behind, and so may the second. */
const MAX_REPEATS = 2

interface Order<T> extends WriteOptions<T> {
  readonly mode: 'read' | 'write' | 'transaction'
  readonly share: Share
  readonly run: (session: Session) => Promise<T>
}

/** An order, and how far it is. */
interface Work<T> extends Order<T>, Call, Loss {
  /** Since the call. */
  readonly elapsedMs: () => number
  /** Whether it is too late to begin anything. */
  readonly isLate: () => boolean
}

export interface OpenConnectionsOptions extends HostsOptions {
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
  const patience = createPatience({ tickMs: LOOK_MS })

  /** The one place that decides whether work is repeated: on another connection, or after a lock. */
  async function run<T>(order: Order<T>): Promise<T> {
    const { withinMs = CALL_MS } = order
    const wait = patience.begin(withinMs, () => shares.giveUp(work))
    const { elapsedMs } = wait
    const isLate = () => elapsedMs() > withinMs - LAST_BEGIN_MS
    const work: Work<T> = { ...order, elapsedMs, isLate, isLost: false, mayBeDone: false }
    try {
      for (let repeats = 0; ; ) {
        try {
          return await attempt(work)
        } catch (error) {
          if (isHeld(work, error) && !isLate()) await sleep(LOCK_PAUSE_MS)
          else if (!work.isLost || work.mayBeDone || isLate() || repeats++ === MAX_REPEATS)
            throw explainFailure(error, work)
        }
      }
    } finally {
      wait.end()
    }
  }

  async function attempt<T>(work: Work<T>): Promise<T> {
    work.isLost = work.mayBeDone = false
    const client = await shares.acquire(work)
    try {
      if (!isLong(work) && work.isLate()) throw unavailable(new Error('no free connection in time'))
      if (work.mode !== 'read' && client.isReadOnly) throw unavailable(NO_WRITES)
      return await perform(client, work)
    } catch (error) {
      if (isStale(error)) client.destroy(error as Error)
      if (sqlStateOf(error) === READ_ONLY) shares.hosts.seek()
      work.isLost = client.broken !== undefined
      // While the connection is there, the server has said what became of the statement that commits.
      work.mayBeDone &&= work.isLost && !isUndone(error)
      throw error
    } finally {
      shares.release(work)
    }
  }

  async function perform<T>(client: HostClient, work: Work<T>): Promise<T> {
    const { mode, run, countWrites } = work
    client.statementMs = isLong(work) ? longStatementMs : Number.POSITIVE_INFINITY
    if (mode === 'read' && !isLong(work)) return run(client.session)
    const startedAt = performance.now()
    const isAlone = mode === 'write' && !isLong(work) && !client.isPooled
    work.mayBeDone = isAlone
    const result = await (isAlone ? run(client.session) : inTransaction(client, work))
    const writes = countWrites?.(result) ?? 0
    if (writes > 0) onCommit?.({ seconds: (performance.now() - startedAt) / 1000, writes })
    return result
  }

  async function inTransaction<T>(client: HostClient, work: Work<T>): Promise<T> {
    const { session, isPooled } = client
    const level = work.mode === 'read' ? 'REPEATABLE READ READ ONLY' : 'READ COMMITTED'
    await session.query(`BEGIN ISOLATION LEVEL ${level}`)
    try {
      // A session keeps no settings where a pooler hands it around.
      if (isLong(work) || isPooled) await session.query(SET_LOCALLY, limitsOf(work))
      const result = await work.run(session)
      work.mayBeDone = work.mode !== 'read'
      await session.query('COMMIT')
      return result
    } catch (error) {
      // A connection that may still be in the transaction must not be used again.
      if (client.broken === undefined) await session.query('ROLLBACK').catch(client.destroy)
      throw error
    }
  }

  /** The values of `SET_LOCALLY`. */
  function limitsOf<T>(work: Work<T>): string[] {
    const leftMs = Math.max(MIN_LOCK_MS, Math.ceil(LONG_LOCK_MS - work.elapsedMs()))
    const [lockMs, statementMs] = isLong(work)
      ? [leftMs, longStatementMs]
      : [SHORT_LOCK_MS, SHORT_STATEMENT_MS]
    return [lockMs, statementMs, IDLE_MS].map(String)
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
      options: WriteOptions<R[]> = {},
    ) => {
      const write = (session: Session) => session.query<R>(statement, values)
      return run({ mode: 'write', share: 'write', run: write, ...options })
    },

    /**
     * Runs statements in one transaction (READ COMMITTED), which is rolled back if the work throws. Runs the work again if it
     * cannot have been done, so it changes nothing but the database.
     */
    transaction: <T>(work: (session: Session) => Promise<T>, options: WriteOptions<T> = {}) =>
      run({ mode: 'transaction', share: 'write', run: work, ...options }),

    /** Runs long work that only reads, and that sees one moment. Runs it again if its connection breaks soon after the call. */
    snapshot: <T>(work: (session: Session) => Promise<T>) =>
      run({ mode: 'read', share: 'long', run: work }),

    /** Runs a statement that returns whether transactions are read-only. Throws `storage_unavailable` unless the server takes writes. */
    ping: async (statement: Statement) => {
      const [[isReadOnly] = [true]] = await query<[boolean]>(statement)
      if (!isReadOnly) return
      // A server that was told so on the way keeps its connections.
      shares.hosts.seek()
      throw unavailable(NO_WRITES)
    },

    /** Asks nobody, and answers after `close` too. */
    report: () => ({ connections: shares.report() }),

    /** Closes all connections once what runs, and `last`, have ended, or after three seconds. */
    close: async (last: Promise<unknown> = Promise.resolve()) => {
      const all = last.then(shares.close)
      await patience.within(CLOSE_MS, all).catch(() => {})
      shares.close()
      shares.destroy(unavailable(new Error('the service closes its connections')))
      await all
    },
  }
}

function isLong({ share }: Pick<Call, 'share'>): boolean {
  return share === 'long'
}

/** Whether a lock keeps short work from being done, which is then repeated here. */
function isHeld({ share }: Pick<Call, 'share'>, error: unknown): boolean {
  return (share === 'short' || share === 'list') && sqlStateOf(error) === LOCK_NOT_AVAILABLE
}
