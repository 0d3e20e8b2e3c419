import { ServiceError } from '../../errors.ts'
import { performance } from '../../timers.ts'
import { createPatience, NoAnswer, withinPatience } from '../../waiting/patience.ts'
import { createCallGate } from '../call-gate.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { createHosts, type HostsOptions, requireWritable } from './hosts.ts'
import { createLane, type Lane } from './lane.ts'
import { type Connection, limitsOf, type SessionSettings } from './open-connection.ts'
import type { Connections, LaneName, WriteOptions } from './postgres-connections.ts'
import {
  explainFailure,
  type Failure,
  failureOf,
  isStale,
  READ_ONLY,
  sqlStateOf,
  unavailable,
} from './postgres-errors.ts'

/** From a call to its deadline. Reads are repeated, and connections are waited for, until then. */
const CALL_MS = 1500

/** From the deadline to the 503, for the answer of a server that ended a statement by then. */
const LATE_ANSWER_MS = 150

/**
 * Before the deadline. A write that gets its connection later is not begun: it could wait for a lock until its caller is answered,
 * and its outcome would be unknown.
 */
const LAST_WRITE_MS = 200

/** Between two looks at the calls that wait. */
const LOOK_MS = 100

/** For what runs at `close`. */
const CLOSE_MS = 3000

/** Longer than this process ever pauses in a transaction. With a long statement before it: half a minute. */
const IDLE_MS = 8000

const SHORT: SessionSettings = {
  lockTimeoutMs: 1200,
  statementTimeoutMs: 1300,
  idleTimeoutMs: IDLE_MS,
  hasGenericPlans: true,
}

/** What may take long: each of its statements has this end. */
const LONG: SessionSettings = {
  lockTimeoutMs: 1700,
  statementTimeoutMs: 20_000,
  idleTimeoutMs: IDLE_MS,
  hasGenericPlans: false,
}

const LONG_LANES: readonly LaneName[] = ['long', 'whole']

const SET_LOCALLY = `
  SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', $3, true)`

/** The first connection may be one that a restart of the server has left behind, and so may the second. */
const MAX_REPEATS = 2

interface Work<T> {
  readonly mode: 'read' | 'write' | 'transaction' | 'snapshot'
  readonly lane: LaneName
  readonly run: (connection: Connection) => Promise<T>
  readonly countWrites?: WriteOptions<T>['countWrites'] | undefined
}

type Outcome<T> = { readonly value: T } | Failure

/** What the timer and the work of one attempt tell each other. */
interface Progress {
  /** Whether the caller has got an error, as there was no result in time. */
  isAbandoned: boolean
  /** Whether the statement that commits was sent. */
  isCommitting: boolean
}

export interface OpenConnectionsOptions extends Omit<HostsOptions, 'onLost'> {
  /** How long one statement of long work may take; 20 seconds by default. */
  readonly longStatementMs?: number
  /** As that of `OpenStorageOptions`. */
  readonly onCommit?: OpenStorageOptions['onCommit']
}

/** Connections to a database. They are made when they are needed. */
export function openConnections(options: OpenConnectionsOptions): Connections {
  const { longStatementMs = LONG.statementTimeoutMs, onCommit } = options
  const hosts = createHosts({
    ...options,
    onLost: () => {
      for (const name of LONG_LANES)
        lanes[name].destroyUsed(new NoAnswer('the server does not answer'))
    },
  })
  const long = { ...LONG, statementTimeoutMs: longStatementMs }
  // At most 19 connections.
  const lanes: Readonly<Record<LaneName, Lane>> = {
    short: createLane(hosts, { ...SHORT, size: 2 }),
    // Each list is a statement of its own, and waits for the way to the server and back.
    list: createLane(hosts, { ...SHORT, size: 4 }),
    aside: createLane(hosts, { ...SHORT, size: 2 }),
    // What a lock keeps from being written is tried again, in pauses without a connection.
    write: createLane(hosts, { ...SHORT, size: 4, lockTimeoutMs: 150 }),
    long: createLane(hosts, { ...long, size: 3 }),
    whole: createLane(hosts, { ...long, size: 4 }),
  }
  const calls = createCallGate()
  const patience = createPatience({ tickMs: LOOK_MS })

  /**
   * Answers in time. Work that still has a connection then goes no further: its statement is the last, and nothing is
   * committed.
   */
  function attempt<T>(work: Work<T>, leftMs: number): Promise<Outcome<T>> {
    const progress = { isAbandoned: false, isCommitting: false }
    const isLong = LONG_LANES.includes(work.lane)
    return new Promise(resolve => {
      const wait = patience.begin(leftMs + LATE_ANSWER_MS, () => {
        progress.isAbandoned = true
        const late = new NoAnswer('no answer, or no free connection, in time')
        const isCrowded = isLong && lanes[work.lane].isFull()
        const error = isCrowded ? new ServiceError('overloaded', { cause: late }) : late
        resolve(failureOf(error, { ...progress, isLost: true }))
      })
      const onConnection = () => {
        if (isLong) wait.end()
        if (work.lane === 'write' && wait.elapsedMs() > leftMs - LAST_WRITE_MS)
          throw unavailable(new Error('no free connection in time'))
      }
      runInLane(work, progress, onConnection).finally(wait.end).then(resolve)
    })
  }

  async function runInLane<T>(
    work: Work<T>,
    progress: Progress,
    onConnection: () => void,
  ): Promise<Outcome<T>> {
    const lane = lanes[work.lane]
    let connection: Connection | undefined
    try {
      connection = await lane.acquire(progress)
      onConnection()
      return { value: await runOn(connection, work, progress) }
    } catch (error) {
      if (isStale(error)) connection?.destroy(error as Error)
      if (sqlStateOf(error) === READ_ONLY || error instanceof NoAnswer) hosts.distrust()
      return failureOf(error, { ...progress, isLost: connection?.isBroken ?? false })
    } finally {
      if (connection !== undefined) lane.release(connection)
    }
  }

  async function runOn<T>(connection: Connection, work: Work<T>, progress: Progress): Promise<T> {
    if (work.mode === 'write' || work.mode === 'transaction') requireWritable(connection)
    const startedAt = performance.now()
    const result = await inMode(connection, work, progress)
    const writes = work.countWrites?.(result) ?? 0
    if (writes > 0) onCommit?.({ seconds: (performance.now() - startedAt) / 1000, writes })
    return result
  }

  async function run<T>(work: Work<T>): Promise<T> {
    calls.enter()
    const deadline = performance.now() + CALL_MS
    try {
      for (let repeats = 0; ; repeats++) {
        const outcome = await attempt(work, deadline - performance.now())
        if ('value' in outcome) return outcome.value
        const isInTime = repeats < MAX_REPEATS && performance.now() < deadline
        if (!isInTime || !outcome.isLost || outcome.mayBeDone) throw explainFailure(outcome)
      }
    } finally {
      calls.leave()
    }
  }

  return {
    query: (statement, values, lane = 'short') =>
      run({ mode: 'read', lane, run: session => session.query(statement, values) }),
    read: (work, lane = 'short') => run({ mode: 'read', lane, run: work }),
    write: (statement, values, { lane = 'write', countWrites } = {}) =>
      run({ mode: 'write', lane, countWrites, run: session => session.query(statement, values) }),
    transaction: (work, { lane = 'write', countWrites } = {}) =>
      run({ mode: 'transaction', lane, countWrites, run: work }),
    snapshot: (work, lane) => run({ mode: 'snapshot', lane, run: work }),
    ping: statement =>
      run({
        mode: 'read',
        lane: 'short',
        run: async connection => {
          requireWritable(connection)
          const [[isReadOnly] = [false]] = await connection.query<[boolean]>(statement)
          // A server that was told so on the way keeps its connections.
          if (isReadOnly) hosts.distrust()
          requireWritable({ isReadOnly })
        },
      }),
    rest: () => {
      hosts.rest()
      for (const lane of Object.values(lanes)) lane.endIdle()
    },
    report: () => {
      const reports = Object.values(lanes).map(lane => lane.report())
      const sum = (of: keyof ReturnType<Lane['report']>) =>
        reports.reduce((total, report) => total + report[of], 0)
      return {
        connections: { active: sum('active'), idle: sum('idle'), waiting: sum('waiting') },
      }
    },
    close: async (last = Promise.resolve()) => {
      const all = last.then(calls.close)
      await withinPatience(CLOSE_MS, all).catch(() => {})
      hosts.close()
      for (const lane of Object.values(lanes)) {
        lane.close()
        lane.destroyUsed(new Error('the service closes its connections'))
      }
      await all
    },
  }
}

async function inMode<T>(connection: Connection, work: Work<T>, progress: Progress): Promise<T> {
  const { mode, run } = work
  if (mode === 'read') return run(connection)
  if (mode === 'write' && !connection.isPooled) {
    progress.isCommitting = true
    return run(connection)
  }
  const isSnapshot = mode === 'snapshot'
  const level = isSnapshot ? 'REPEATABLE READ READ ONLY' : 'READ COMMITTED'
  await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
  try {
    if (connection.isPooled) await setLocally(connection)
    const result = await run(connection)
    if (progress.isAbandoned) throw new Error('its caller has got an error')
    progress.isCommitting = !isSnapshot
    await connection.query('COMMIT')
    return result
  } catch (error) {
    // A connection that may still be in the transaction must not be used again.
    if (!connection.isBroken) await connection.query('ROLLBACK').catch(connection.destroy)
    throw error
  }
}

/** Settings of the session are lost, or reach other clients, where a pooler hands sessions around. */
async function setLocally(connection: Connection): Promise<void> {
  await connection.query(SET_LOCALLY, limitsOf(connection.settings))
}
