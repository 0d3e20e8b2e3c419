import type { ClientConfig } from 'pg'
import type { PostgresLocation } from '../../config/postgres-url.ts'
import { createClientConfigs } from './client-config.ts'
import {
  type Connection,
  type OpenConnectionOptions,
  openConnection,
  type SessionSettings,
} from './open-connection.ts'
import { isPermanent } from './postgres-errors.ts'

/**
 * Makes connections to the host that takes writes, and knows whether there is one. Without one, it looks for one in
 * the background, one attempt at a time: a server that is away costs its callers nothing, and is soon found again.
 */
export interface Gateway {
  /**
   * A new connection to the first host that takes writes, otherwise to one that only reads. `onBroken` is called when the
   * connection breaks. Throws what went wrong, and at once while the last attempt failed.
   */
  connect(settings: SessionSettings, onBroken: () => void): Promise<Connection>
  /** Changes when connections that were made before should not be used any more. */
  generation(): number
  /** Call it when a connection was silent for too long or takes no writes any more: the others are no better. */
  distrust(): void
  close(): void
}

export interface GatewayOptions {
  readonly location: PostgresLocation
  /** Called with what an operator should know: a fixed sentence for the log, and its cause. */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
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

/** Throws `UnusableDatabase` if a file of the location cannot be used. */
export function createGateway({ location, onWarning = () => {} }: GatewayOptions): Gateway {
  const timeoutMs = Math.min(location.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, CONNECT_TIMEOUT_MS)
  const configs = location.hosts.map(createClientConfigs(location))
  let failure: unknown
  let isReadOnly = false
  let generation = 0
  let isSeeking = false
  let isClosed = false

  async function attempt(settings: SessionSettings, onBroken: () => void): Promise<Connection> {
    try {
      const connection = await connectToAny(configs, { settings, onBroken, timeoutMs })
      if (failure !== undefined) onWarning('database can be reached again')
      failure = undefined
      if (isReadOnly !== connection.isReadOnly) generation++
      if (connection.isReadOnly && !isReadOnly) onWarning('database takes no writes')
      isReadOnly = connection.isReadOnly
      if (isReadOnly) seek()
      return connection
    } catch (error) {
      if (failure === undefined) onWarning('database cannot be reached', error)
      failure = error
      seek()
      throw error
    }
  }

  async function seek(): Promise<void> {
    if (isSeeking) return
    isSeeking = true
    let pauseMs = FIRST_PAUSE_MS
    while (!isClosed && (failure !== undefined || isReadOnly)) {
      await pause(pauseMs)
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
      if (!isClosed) await look().catch(() => {})
    }
    isSeeking = false
  }

  async function look(): Promise<void> {
    const connection = await attempt(LOOK_SETTINGS, () => {})
    connection.end()
  }

  return {
    connect: async (settings, onBroken) => {
      if (failure !== undefined) throw failure
      return attempt(settings, onBroken)
    },
    generation: () => generation,
    distrust: () => {
      generation++
    },
    close: () => {
      isClosed = true
    },
  }
}

/** Unlike a promise of `node:timers`, it does not keep the process alive. */
function pause(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms).unref()
  })
}

/** Tries the hosts in their order, and the next one beside a slow one. */
export function connectToAny(
  configs: readonly ClientConfig[],
  options: Omit<OpenConnectionOptions, 'config'>,
): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const waiting = [...configs]
    let running = 0
    let isSettled = false
    let reader: Connection | undefined
    let failure: unknown

    function tryNext(): void {
      const config = waiting.shift()
      if (config === undefined || isSettled) return
      running++
      const timer = setTimeout(tryNext, NEXT_HOST_AFTER_MS)
      openConnection({ ...options, config })
        .then(judge, error => {
          if (failure === undefined || isPermanent(error)) failure = error
        })
        .finally(() => {
          clearTimeout(timer)
          running--
          tryNext()
          if (running === 0 && waiting.length === 0) settle()
        })
    }

    function judge(connection: Connection): void {
      if (!isSettled && !connection.isReadOnly) {
        isSettled = true
        reader?.end()
        resolve(connection)
      } else if (!isSettled && reader === undefined) {
        reader = connection
      } else {
        connection.end()
      }
    }

    function settle(): void {
      if (isSettled) return
      isSettled = true
      if (reader === undefined) reject(failure)
      else resolve(reader)
    }

    tryNext()
  })
}
