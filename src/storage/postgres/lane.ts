import { ServiceError } from '../../errors.ts'
import type { Gateway } from './gateway.ts'
import type { Connection, SessionSettings } from './open-connection.ts'
import type { ConnectionsReport } from './postgres-connections.ts'
import { unavailable } from './postgres-errors.ts'

/** Up to `size` connections with the same settings, made when they are needed. */
export interface Lane {
  /**
   * A connection for one piece of work. Waits until `deadline`, by `performance.now()`, while all are in use. Throws
   * `storage_unavailable`, and `shutting_down` after `close`.
   */
  acquire(deadline: number): Promise<Connection>
  /** Gives a connection back. One that is broken is replaced when it is needed. */
  release(connection: Connection): void
  /** Its connections now. One that is still being made does not count; work waits for it. */
  report(): ConnectionsReport['connections']
  /** Closes the idle connections now and the others when they are released. */
  close(): void
}

export interface LaneOptions {
  readonly gateway: Gateway
  readonly size: number
  readonly settings: SessionSettings
}

interface Waiter {
  readonly resolve: (connection: Connection) => void
  readonly reject: (error: unknown) => void
  readonly timer: NodeJS.Timeout
}

/** A lane without connections yet. It makes one at a time. */
export function createLane({ gateway, size, settings }: LaneOptions): Lane {
  const generations = new WeakMap<Connection, number>()
  const used = new Set<Connection>()
  const waiters = new Set<Waiter>()
  let idle: Connection[] = []
  let isConnecting = false
  let isClosed = false

  function isGood(connection: Connection): boolean {
    return !connection.isBroken && generations.get(connection) === gateway.generation()
  }

  /** The connection used last: the others can become idle, and the server's caches of one are warm. */
  function takeIdle(): Connection | undefined {
    for (let last = idle.pop(); last !== undefined; last = idle.pop()) {
      if (isGood(last)) return last
      last.end()
    }
    return undefined
  }

  function endUnusable(): void {
    const unusable = idle.filter(connection => !isGood(connection))
    idle = idle.filter(isGood)
    for (const connection of unusable) connection.end()
  }

  function connectIfNeeded(): void {
    if (isConnecting || waiters.size === 0 || idle.length + used.size >= size) return
    isConnecting = true
    gateway.connect(settings, endUnusable).then(
      connection => {
        isConnecting = false
        generations.set(connection, gateway.generation())
        hand(connection)
        connectIfNeeded()
      },
      error => {
        isConnecting = false
        // Those in use may still come back.
        if (used.size === 0) rejectAll(unavailable(error))
      },
    )
  }

  function hand(connection: Connection): void {
    if (isClosed || !isGood(connection)) {
      connection.end()
      connectIfNeeded()
      return
    }
    const [waiter] = waiters
    if (waiter === undefined) {
      idle.push(connection)
      return
    }
    waiters.delete(waiter)
    clearTimeout(waiter.timer)
    used.add(connection)
    waiter.resolve(connection)
  }

  function rejectAll(error: unknown): void {
    for (const { reject, timer } of waiters) {
      clearTimeout(timer)
      reject(error)
    }
    waiters.clear()
  }

  return {
    acquire: async deadline => {
      if (isClosed) throw new ServiceError('shutting_down')
      const connection = takeIdle()
      if (connection !== undefined) {
        used.add(connection)
        return connection
      }
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiters.delete(waiter)
          reject(unavailable(new Error('no connection became free in time')))
        }, deadline - performance.now())
        const waiter = { resolve, reject, timer }
        waiters.add(waiter)
        connectIfNeeded()
      })
    },

    release: connection => {
      used.delete(connection)
      hand(connection)
    },

    report: () => ({ active: used.size, idle: idle.length, waiting: waiters.size }),

    close: () => {
      isClosed = true
      rejectAll(new ServiceError('shutting_down'))
      for (const connection of idle.splice(0)) connection.end()
    },
  }
}
