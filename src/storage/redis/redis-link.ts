import type { RedisLocation } from '../../config/redis-url.ts'
import { withinPatience } from '../../platform/patience.ts'
import { performance } from '../../platform/timers.ts'
import { openRedisConnection, type Send } from './redis-connection.ts'
import { countInRedis } from './redis-counter-store.ts'

export interface RedisLinkOptions {
  readonly location: RedisLocation
  /** What the name of every key begins with. */
  readonly prefix: string
  /** How long Redis may take to count. */
  readonly patienceMs: number
  /** Called when the connection is lost and there is no other at once. */
  readonly onBroken: (error: unknown) => void
}

/** How long it may take to connect. */
const OPEN_MS = 1000

/** Names that no client is counted by. So many that each master of a Cluster has some of them. */
const TRIALS = Array.from({ length: 64 }, (_, index) => `trial-${index}`)

/** A connection to Redis that can be replaced. */
export function createRedisLink({ location, prefix, patienceMs, onBroken }: RedisLinkOptions) {
  let opening: Promise<Send> | undefined
  /** What `opening` has resolved to: a count does not wait for a promise more than it must. */
  let opened: Send | undefined
  let abort = new AbortController()
  let openedAt = 0

  /** Connects and counts something on trial, in place of the connection before. Ends within about a second. */
  async function open(): Promise<void> {
    close()
    const { signal } = abort
    const mine = connect(signal)
    opening = mine
    try {
      const send = await withinPatience(OPEN_MS, mine)
      if (opening === mine) opened = send
      openedAt = performance.now()
    } catch (error) {
      if (opening === mine) close()
      throw error
    }
  }

  async function connect(signal: AbortSignal): Promise<Send> {
    let isTried = false
    const onEnd = (error: unknown) => {
      if (isTried) void replace(error)
    }
    const send = await openRedisConnection({ location, signal, onEnd })
    const tryOut = () => Promise.all(TRIALS.map(name => countInRedis(send, prefix + name, OPEN_MS)))
    // The first time, Redis may have to read the script.
    await tryOut()
    await withinPatience(patienceMs, tryOut())
    isTried = true
    return send
  }

  /** A connection that ends while nothing waits for it, such as one that was idle for long, is replaced without notice. */
  async function replace(error: unknown): Promise<void> {
    if (performance.now() - openedAt < OPEN_MS) return onBroken(error)
    const replaced = open()
    const { signal } = abort
    try {
      await replaced
    } catch (reason) {
      if (!signal.aborted || opening === undefined) onBroken(reason)
    }
  }

  function close(): void {
    opening?.catch(() => {})
    opening = undefined
    opened = undefined
    abort.abort()
    abort = new AbortController()
  }

  async function sendOnceOpen(...command: Parameters<Send>) {
    if (opening === undefined) throw new Error('not connected')
    const send = await opening
    return send(...command)
  }

  /** Waits while a connection is being opened. */
  const send: Send = (...command) => (opened ?? sendOnceOpen)(...command)

  return { open, send, close }
}
