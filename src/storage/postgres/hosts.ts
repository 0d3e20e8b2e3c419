import type { ClientConfig } from 'pg'
import type { PostgresLocation } from '../../config/postgres-url.ts'
import { sleep } from '../../timers.ts'
import { NoAnswer } from '../../waiting/patience.ts'
import { createClientConfigs } from './client-config.ts'
import {
  type Connection,
  type OpenConnectionOptions,
  openConnection,
  type SessionSettings,
} from './open-connection.ts'
import { isPermanent, unavailable } from './postgres-errors.ts'

export interface HostsOptions {
  readonly location: PostgresLocation
  /** Called with what an operator should know: a fixed sentence for the log, and its cause. */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /**
   * Called when no host answers any more, or another one takes over: statements on the existing connections will get
   * no answer.
   */
  readonly onLost: () => void
}

const CONNECT_TIMEOUT_MS = 1000

/** When a host has not answered by then, the next one is tried beside it. */
const NEXT_HOST_AFTER_MS = 200

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 400

const LOOK_SETTINGS: SessionSettings = {
  lockTimeoutMs: CONNECT_TIMEOUT_MS,
  statementTimeoutMs: CONNECT_TIMEOUT_MS,
  hasGenericPlans: false,
}

export type Hosts = ReturnType<typeof createHosts>

/**
 * Makes connections to the host that takes writes, and knows whether there is one. Without one, it looks for one in
 * the background, one attempt at a time: a server that is away costs its callers nothing, and is soon found again.
 * Throws `UnusableDatabase` if a file of the location cannot be used.
 */
export function createHosts(options: HostsOptions) {
  const { location, onWarning = () => {}, onLost } = options
  const timeoutMs = Math.min(location.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, CONNECT_TIMEOUT_MS)
  const configs = createClientConfigs(location)
  /** Why the last attempt failed, if it did. */
  let failure: unknown
  let isReadOnly = false
  /** Connections of earlier ones are not used any more. */
  let generation = 0
  let isSeeking = false
  let looking: Promise<void> | undefined
  let isResting = false
  let isClosed = false

  async function attempt(settings: SessionSettings, onBroken: () => void): Promise<Connection> {
    const connecting = connectToAny(configs, { settings, onBroken, timeoutMs })
    const connection = await connecting.catch(error => {
      noteFailure(error)
      throw error
    })
    noteServer(connection)
    connection.generation = generation
    return connection
  }

  function noteFailure(error: unknown): void {
    if (failure === undefined) onWarning('database cannot be reached', error)
    failure = error
    if (error instanceof NoAnswer) onLost()
    seek()
  }

  function noteServer(server: Pick<Connection, 'isReadOnly'>): void {
    if (failure !== undefined) onWarning('database can be reached again')
    failure = undefined
    if (server.isReadOnly !== isReadOnly) {
      isReadOnly = server.isReadOnly
      generation++
      onLost()
      if (isReadOnly) onWarning('database takes no writes')
    }
    if (isReadOnly) seek()
  }

  async function seek(): Promise<void> {
    if (isSeeking) return
    isSeeking = true
    let pauseMs = FIRST_PAUSE_MS
    while (!isClosed && !isResting && (failure !== undefined || isReadOnly)) {
      await sleep(pauseMs, undefined, { ref: false })
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
      if (!isClosed) await look()
    }
    isSeeking = false
  }

  /** One attempt at a time. */
  function look(): Promise<void> {
    looking ??= attempt(LOOK_SETTINGS, () => {})
      .then(
        connection => connection.end(),
        () => {},
      )
      .finally(() => {
        looking = undefined
      })
    return looking
  }

  return {
    /**
     * A new connection to the first host that takes writes, otherwise to one that only reads. `onBroken` is called when the
     * connection breaks. Throws what went wrong, and at once while the last attempt failed and a host is looked for.
     */
    connect: async (settings: SessionSettings, onBroken: () => void) => {
      isResting = false
      if (failure !== undefined && isSeeking) throw failure
      return attempt(settings, onBroken)
    },
    /** Whether a connection may be used: false for those that were made before others were distrusted. */
    trusts: (connection: Connection) => connection.generation === generation,
    /** Call it when a connection gave no answer or takes no writes any more: the others may be no better. Looks at once. */
    distrust: () => {
      generation++
      if (!isClosed) look()
    },
    /** Looks for no host until the next connection is asked for. */
    rest: () => {
      isResting = true
    },
    close: () => {
      isClosed = true
    },
  }
}

/** Tries the hosts in their order, and the next one beside a slow one. */
export async function connectToAny(
  configs: readonly ClientConfig[],
  options: Omit<OpenConnectionOptions, 'config'>,
): Promise<Connection> {
  const attempts: Promise<Connection>[] = []
  const writable: Promise<Connection>[] = []
  for (const config of configs) {
    const attempt = openConnection({ ...options, config })
    attempts.push(attempt)
    const last = attempt.then(requireWritable<Connection>)
    writable.push(last)
    const isSlow = sleep(NEXT_HOST_AFTER_MS, undefined, { ref: false })
    const found = await Promise.race([Promise.any(writable), last, isSlow]).catch(() => undefined)
    if (found !== undefined) break
  }
  const chosen = await Promise.any(writable).catch(() => firstOf(attempts))
  for (const attempt of attempts) {
    attempt.then(
      connection => connection !== chosen && connection.end(),
      () => {},
    )
  }
  return chosen
}

/** Throws `storage_unavailable` for a server that takes no writes. */
export function requireWritable<S extends Pick<Connection, 'isReadOnly'>>(server: S): S {
  if (server.isReadOnly) throw unavailable(new Error('the server takes no writes'))
  return server
}

/** The first connection. Without one, throws the reason that says most. */
async function firstOf(attempts: readonly Promise<Connection>[]): Promise<Connection> {
  try {
    return await Promise.any(attempts)
  } catch (error) {
    const { errors } = error as AggregateError
    throw errors.find(isPermanent) ?? errors[0]
  }
}
