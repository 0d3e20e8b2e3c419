import type { RedisLocation } from '../../config/redis-url.ts'
import { withinPatience } from '../../waiting/patience.ts'
import { openRedisConnection, type Send } from './redis-connection.ts'
import { countInRedis } from './redis-counter-store.ts'

export interface RedisLinkOptions {
  readonly location: RedisLocation
  /** What the name of every key begins with. */
  readonly prefix: string
  /** How long Redis may take to count. */
  readonly patienceMs: number
  /** Called when the connection is lost. */
  readonly onBroken: (error: unknown) => void
}

/** A connection to Redis that can be replaced. */
export interface RedisLink {
  /** Connects and counts something on trial, in place of the connection before. Ends within about a second. */
  open(): Promise<void>
  /** Rejects while there is no connection. */
  readonly send: Send
  close(): void
}

/** How long it may take to connect. */
const OPEN_MS = 1000

/** Names that no client is counted by. So many that each master of a Cluster has some of them. */
const TRIALS = Array.from({ length: 64 }, (_, index) => `trial-${index}`)

export function createRedisLink(options: RedisLinkOptions): RedisLink {
  const { location, prefix, patienceMs, onBroken } = options
  let opened: Send | undefined
  let abort = new AbortController()

  async function open(): Promise<void> {
    close()
    const { signal } = abort
    try {
      const send = await withinPatience(OPEN_MS, connect(signal))
      signal.throwIfAborted()
      opened = send
    } catch (error) {
      if (!signal.aborted) close()
      throw error
    }
  }

  async function connect(signal: AbortSignal): Promise<Send> {
    const onEnd = (error: unknown) => {
      if (opened !== undefined) onBroken(error)
    }
    const send = await openRedisConnection({ location, signal, onEnd })
    const tryOut = () => Promise.all(TRIALS.map(name => countInRedis(send, prefix + name, OPEN_MS)))
    // The first time, Redis may have to read the script.
    await tryOut()
    await withinPatience(patienceMs, tryOut())
    return send
  }

  function close(): void {
    opened = undefined
    abort.abort()
    abort = new AbortController()
  }

  return {
    open,
    send: async (...command) => {
      if (opened === undefined) throw new Error('not connected')
      return opened(...command)
    },
    close,
  }
}
