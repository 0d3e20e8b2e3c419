import { ServiceError } from '../../errors.ts'
import { createCommitRecorder } from '../commit-recorder.ts'
import { createGateway, type GatewayOptions } from './gateway.ts'
import { createLane } from './lane.ts'
import { afterListening, type Connection, type SessionSettings } from './open-connection.ts'
import type {
  Connections,
  ConnectionsReport,
  Session,
  WorkOptions,
  WriteOptions,
} from './postgres-connections.ts'
import {
  isDamage,
  isStale,
  isUnavailable,
  isUndone,
  READ_ONLY,
  sqlStateOf,
  unavailable,
} from './postgres-errors.ts'

/** The most connections for each kind of work: 10 in all. */
const SIZES = { read: 2, aside: 1, write: 2, patient: 2, long: 3 }

/** From the call to the 503 of a database that does not answer, in milliseconds. */
const PATIENCE_MS = 1500

const SHORT = { statementTimeoutMs: 1300, hasGenericPlans: true }

const SHORT_READ = { ...SHORT, lockTimeoutMs: 1200 }

const LONG = {
  lockTimeoutMs: 1700,
  statementTimeoutMs: 30_000,
  hasGenericPlans: false,
  silenceMs: 32_000,
}

const SETTINGS: Readonly<Record<keyof typeof SIZES, SessionSettings>> = {
  read: SHORT_READ,
  aside: SHORT_READ,
  // What a lock keeps from being written together is written again as patient work, which waits longer.
  write: { ...SHORT, lockTimeoutMs: 150 },
  patient: LONG,
  long: LONG,
}

const SET_LOCALLY = `
  SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)`

const SELECT_READ_ONLY = {
  name: 'is_read_only',
  text: `SELECT current_setting('transaction_read_only') = 'on'`,
}

/** The first connection may be one that a restart of the server has left behind, and so may the second. */
const MAX_REPEATS = 2

type Mode = 'read' | 'write' | 'transaction'

type Work<T> = (session: Session) => Promise<T>

interface AttemptOptions<T> {
  readonly kind: keyof typeof SIZES
  readonly deadline: number
  readonly countWrites: WriteOptions<T>['countWrites'] | undefined
}

/** Connections to a database. They are made when they are needed. */
export function openConnections(options: GatewayOptions): Connections {
  const gateway = createGateway(options)
  const laneOf = (kind: keyof typeof SIZES) =>
    createLane({ gateway, size: SIZES[kind], settings: SETTINGS[kind] })
  const lanes = {
    read: laneOf('read'),
    aside: laneOf('aside'),
    write: laneOf('write'),
    patient: laneOf('patient'),
    long: laneOf('long'),
  }
  /** At long work, of which only each statement has an end. */
  const atLongWork = new Set<Connection>()
  const commits = createCommitRecorder()
  const running = new Set<Promise<unknown>>()

  /** Throws `Failed` for anything that goes wrong once there is a connection. */
  async function attempt<T>(
    mode: Mode,
    work: Work<T>,
    { kind, deadline, countWrites }: AttemptOptions<T>,
  ): Promise<T> {
    const lane = lanes[kind]
    const connection = await lane.acquire(deadline)
    const isLong = SETTINGS[kind] === LONG
    if (isLong) atLongWork.add(connection)
    const leftMs = deadline - performance.now()
    const cancel = isLong ? undefined : afterListening(leftMs, () => giveUp(connection, leftMs))
    const effect = { mayBeCommitted: false }
    try {
      if (mode !== 'read') requireWritable(connection)
      const startedAt = countWrites && performance.now()
      const result = await inMode(mode, work, {
        connection,
        effect,
        settings: SETTINGS[kind],
      })
      if (startedAt !== undefined) commits.record({ startedAt, writes: countWrites?.(result) ?? 0 })
      return result
    } catch (error) {
      if (isStale(error)) connection.destroy(error as Error)
      if (sqlStateOf(error) === READ_ONLY) gateway.distrust()
      throw new Failed(error, { isLost: connection.isBroken, ...effect })
    } finally {
      cancel?.()
      atLongWork.delete(connection)
      lane.release(connection)
    }
  }

  /** A server that does not answer in the time of a whole statement answers no other connection: long work ends too. */
  function giveUp(connection: Connection, waitedMs: number): void {
    gateway.distrust()
    const late = new Error('the server did not answer in time')
    connection.destroy(late)
    if (waitedMs < SHORT.statementTimeoutMs) return
    for (const other of atLongWork) other.destroy(late)
  }

  async function run<T>(mode: Mode, work: Work<T>, options: WriteOptions<T> = {}): Promise<T> {
    const { deadline = performance.now() + PATIENCE_MS, countWrites } = options
    const kind = kindOf(mode, options)
    for (let repeats = 0; ; repeats++) {
      try {
        return await attempt(mode, work, { kind, deadline, countWrites })
      } catch (error) {
        if (!(error instanceof Failed)) throw error
        const isInTime = repeats < MAX_REPEATS && performance.now() < deadline
        if (!(isInTime && error.isLost && !error.mayBeCommitted)) throw translate(error)
      }
    }
  }

  function track<T>(result: Promise<T>): Promise<T> {
    running.add(result)
    const forget = () => running.delete(result)
    result.then(forget, forget)
    return result
  }

  return {
    read: (work, options) => track(run('read', work, options)),
    write: (work, options) => track(run('write', work, options)),
    transaction: (work, options) => track(run('transaction', work, options)),
    ping: statement =>
      run('read', async session => {
        requireWritable(session as Connection)
        await session.query(statement)
        // A server that was told so on the way keeps its connections.
        const [[isReadOnly] = [false]] = await session.query<[boolean]>(SELECT_READ_ONLY)
        if (!isReadOnly) return
        gateway.distrust()
        throw takesNoWrites()
      }),
    report: () => ({
      commits: commits.read(),
      connections: addUp(Object.values(lanes).map(lane => lane.report())),
    }),
    close: async () => {
      await Promise.allSettled(running)
      gateway.close()
      for (const lane of Object.values(lanes)) lane.close()
    },
  }
}

function kindOf(
  mode: Mode,
  { isLong = false, isPatient = false, avoidsUsers = false }: WorkOptions,
): keyof typeof SIZES {
  if (isLong) return 'long'
  if (isPatient) return 'patient'
  if (mode !== 'read') return 'write'
  return avoidsUsers ? 'aside' : 'read'
}

function addUp(
  lanes: readonly ConnectionsReport['connections'][],
): ConnectionsReport['connections'] {
  return lanes.reduce((one, other) => ({
    active: one.active + other.active,
    idle: one.idle + other.idle,
    waiting: one.waiting + other.waiting,
  }))
}

/** What work threw, and what is known of its effect. */
class Failed {
  readonly cause: unknown
  /** Whether its connection is lost with it. */
  readonly isLost: boolean
  readonly mayBeCommitted: boolean

  constructor(
    cause: unknown,
    known: { readonly isLost: boolean; readonly mayBeCommitted: boolean },
  ) {
    this.cause = cause
    this.isLost = known.isLost
    // While the connection is there, the server has said what became of each statement.
    this.mayBeCommitted = known.mayBeCommitted && known.isLost && !isUndone(cause)
  }
}

function translate({ cause, isLost, mayBeCommitted }: Failed): unknown {
  if (mayBeCommitted) return new ServiceError('outcome_unknown', { cause })
  if (isDamage(cause)) return new ServiceError('storage_damaged', { cause })
  if (cause instanceof ServiceError) return cause
  return isLost || isUnavailable(cause) ? unavailable(cause) : cause
}

function requireWritable({ isReadOnly }: Connection): void {
  if (isReadOnly) throw takesNoWrites()
}

function takesNoWrites(): ServiceError {
  return unavailable(new Error('the server takes no writes'))
}

interface Place {
  readonly connection: Connection
  readonly effect: { mayBeCommitted: boolean }
  readonly settings: SessionSettings
}

async function inMode<T>(
  mode: Mode,
  work: Work<T>,
  { connection, effect, settings }: Place,
): Promise<T> {
  if (mode === 'read') return work(connection)
  if (mode === 'write' && !connection.isPooled) {
    effect.mayBeCommitted = true
    return work(connection)
  }
  await connection.query({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' })
  try {
    if (connection.isPooled) await setLocally(connection, settings)
    const result = await work(connection)
    effect.mayBeCommitted = true
    await connection.query({ text: 'COMMIT' })
    return result
  } catch (error) {
    // A connection that may still be in the transaction must not be used again.
    if (!connection.isBroken) await connection.query({ text: 'ROLLBACK' }).catch(connection.destroy)
    throw error
  }
}

/** Settings of the session are lost, or reach other clients, where a pooler hands sessions around. */
async function setLocally(connection: Connection, settings: SessionSettings): Promise<void> {
  await connection.query({ text: SET_LOCALLY }, [
    String(settings.lockTimeoutMs),
    String(settings.statementTimeoutMs),
  ])
}
