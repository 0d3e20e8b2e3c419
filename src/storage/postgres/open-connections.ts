import { ServiceError } from '../../errors.ts'
import { performance } from '../../timers.ts'
import { createPatience, NoAnswer, withinPatience } from '../../waiting/patience.ts'
import { createCallGate } from '../call-gate.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { createHosts, type HostsOptions } from './hosts.ts'
import { createLane, type Lane } from './lane.ts'
import { type Connection, limitsOf, type SessionSettings } from './open-connection.ts'
import type { Connections, LaneName, Session, WriteOptions } from './postgres-connections.ts'
import {
  explainFailure,
  isStale,
  mayBeDone,
  READ_ONLY,
  sqlStateOf,
  unavailable,
} from './postgres-errors.ts'

/** From a call to the 503 of a database that does not answer, or of a lane without a free connection. */
const PATIENCE_MS = 1500

/** For the answer of a server that ended a statement at the deadline. */
const ANSWER_MS = 150

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

const SELECT_READ_ONLY = {
  name: 'is_read_only',
  text: `SELECT current_setting('transaction_read_only') = 'on'`,
}

/** The first connection may be one that a restart of the server has left behind, and so may the second. */
const MAX_REPEATS = 2

/** One call, and what is known of it. */
interface Call<T> {
  readonly mode: 'read' | 'write' | 'transaction' | 'snapshot'
  readonly work: (session: Session) => Promise<T>
  readonly lane: LaneName
  /** By `performance.now()`. */
  readonly deadline: number
  readonly countWrites: WriteOptions<T>['countWrites'] | undefined
  /** Whether its caller has got an error instead of its result. */
  isAbandoned: boolean
  isLost: boolean
  mayBeCommitted: boolean
}

export interface OpenConnectionsOptions extends Omit<HostsOptions, 'onLost' | 'isResting'> {
  /** How long one statement of long work may take; 20 seconds by default. */
  readonly longStatementMs?: number
  /** As that of `OpenStorageOptions`. */
  readonly onCommit?: OpenStorageOptions['onCommit']
}

/** Connections to a database. They are made when they are needed. */
export function openConnections(options: OpenConnectionsOptions): Connections {
  const { longStatementMs = LONG.statementTimeoutMs, onCommit } = options
  let isResting = false
  const hosts = createHosts({
    ...options,
    isResting: () => isResting,
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

  async function attempt<T>(call: Call<T>, abandon: () => void): Promise<T> {
    Object.assign(call, { isLost: false, mayBeCommitted: false })
    const leftMs = call.deadline - performance.now()
    const wait = patience.begin(leftMs + ANSWER_MS, abandon)
    const lane = lanes[call.lane]
    try {
      const connection = await lane.acquire(call)
      if (LONG_LANES.includes(call.lane)) wait.end()
      try {
        if (call.lane === 'write' && wait.elapsedMs() > leftMs - LAST_WRITE_MS)
          throw unavailable(new Error('no free connection in time'))
        return await runOn(connection, call)
      } catch (error) {
        if (isStale(error)) connection.destroy(error as Error)
        if (sqlStateOf(error) === READ_ONLY || error instanceof NoAnswer) hosts.distrust()
        call.isLost = connection.isBroken
        throw error
      } finally {
        lane.release(connection)
      }
    } finally {
      wait.end()
    }
  }

  async function runOn<T>(connection: Connection, call: Call<T>): Promise<T> {
    if (call.mode === 'write' || call.mode === 'transaction') requireWritable(connection)
    const { countWrites } = call
    const startedAt = performance.now()
    const result = await inMode(connection, call)
    const writes = countWrites?.(result) ?? 0
    if (writes > 0) onCommit?.({ seconds: (performance.now() - startedAt) / 1000, writes })
    return result
  }

  async function repeat<T>(call: Call<T>, abandon: () => void): Promise<T> {
    for (let repeats = 0; ; repeats++) {
      try {
        return await attempt(call, abandon)
      } catch (error) {
        const isInTime = repeats < MAX_REPEATS && performance.now() < call.deadline
        const mayRepeat = isInTime && call.isLost && !mayBeDone(error, call) && !call.isAbandoned
        if (!mayRepeat) throw explainFailure(error, call)
      }
    }
  }

  /** The caller is answered in time. What is on a connection by then ends there: with its statement, without a commit. */
  async function run<T>(
    mode: Call<T>['mode'],
    work: Call<T>['work'],
    { lane, countWrites }: Pick<Call<T>, 'lane'> & WriteOptions<T>,
  ): Promise<T> {
    const deadline = performance.now() + PATIENCE_MS
    const known = { isAbandoned: false, isLost: false, mayBeCommitted: false }
    const call: Call<T> = { mode, work, lane, deadline, countWrites, ...known }
    calls.enter()
    isResting = false
    return new Promise<T>((resolve, reject) => {
      const abandon = () => {
        call.isAbandoned = true
        const late = new NoAnswer('no answer, or no free connection, in time')
        const isCrowded = LONG_LANES.includes(lane) && lanes[lane].isFull()
        reject(
          isCrowded
            ? new ServiceError('overloaded', { cause: late })
            : explainFailure(late, { ...call, isLost: true }),
        )
      }
      repeat(call, abandon).then(resolve, reject)
    }).finally(calls.leave)
  }

  return {
    query: (statement, values, lane = 'short') =>
      run('read', session => session.query(statement, values), { lane }),
    read: (work, lane = 'short') => run('read', work, { lane }),
    write: (statement, values, options) =>
      run('write', session => session.query(statement, values), { lane: 'write', ...options }),
    transaction: (work, options) => run('transaction', work, { lane: 'write', ...options }),
    snapshot: (work, lane) => run('snapshot', work, { lane }),
    ping: statement =>
      run(
        'read',
        async session => {
          requireWritable(session as Connection)
          await session.query(statement)
          // A server that was told so on the way keeps its connections.
          const [[isReadOnly] = [false]] = await session.query<[boolean]>(SELECT_READ_ONLY)
          if (!isReadOnly) return
          hosts.distrust()
          throw takesNoWrites()
        },
        { lane: 'short' },
      ),
    rest: () => {
      isResting = true
      for (const lane of Object.values(lanes)) lane.endIdle()
    },
    report: () => ({
      connections: addUp(Object.values(lanes).map(lane => lane.report())),
    }),
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

function addUp(lanes: readonly ReturnType<Lane['report']>[]): ReturnType<Lane['report']> {
  return lanes.reduce((one, other) => ({
    active: one.active + other.active,
    idle: one.idle + other.idle,
    waiting: one.waiting + other.waiting,
  }))
}

function requireWritable({ isReadOnly }: Connection): void {
  if (isReadOnly) throw takesNoWrites()
}

function takesNoWrites() {
  return unavailable(new Error('the server takes no writes'))
}

async function inMode<T>(connection: Connection, call: Call<T>): Promise<T> {
  const { mode, work } = call
  if (mode === 'read') return work(connection)
  if (mode === 'write' && !connection.isPooled) {
    call.mayBeCommitted = true
    return work(connection)
  }
  const isSnapshot = mode === 'snapshot'
  const level = isSnapshot ? 'REPEATABLE READ READ ONLY' : 'READ COMMITTED'
  await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
  try {
    if (connection.isPooled) await setLocally(connection)
    const result = await work(connection)
    if (call.isAbandoned) throw new Error('its caller has got an error')
    call.mayBeCommitted = !isSnapshot
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
