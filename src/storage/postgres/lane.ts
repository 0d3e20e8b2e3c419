import { ServiceError } from '../../errors.ts'
import type { Hosts } from './hosts.ts'
import type { Connection, SessionSettings } from './open-connection.ts'
import { unavailable } from './postgres-errors.ts'

export type Lane = ReturnType<typeof createLane>

export interface LaneOptions extends SessionSettings {
  /** The most connections at a time. */
  readonly size: number
}

interface Waiter {
  readonly work: { readonly isAbandoned: boolean }
  readonly resolve: (connection: Connection) => void
  readonly reject: (error: unknown) => void
}

/** Connections with the same settings, which are made when they are needed, one at a time. */
export function createLane(hosts: Hosts, { size, ...settings }: LaneOptions) {
  const used = new Set<Connection>()
  let idle: Connection[] = []
  let waiters: Waiter[] = []
  let isConnecting = false
  let isClosed = false

  function isGood(connection: Connection): boolean {
    return !connection.isBroken && hosts.trusts(connection)
  }

  function endUnusable(): void {
    const unusable = idle.filter(connection => !isGood(connection))
    idle = idle.filter(isGood)
    for (const connection of unusable) connection.end()
  }

  function connectIfNeeded(): void {
    if (isConnecting || countWaiting() === 0 || idle.length + used.size >= size) return
    isConnecting = true
    hosts.connect(settings, endUnusable).then(
      connection => {
        isConnecting = false
        lend(connection)
        connectIfNeeded()
      },
      error => {
        isConnecting = false
        // Those in use may still come back.
        if (used.size === 0) rejectAll(unavailable(error))
      },
    )
  }

  function countWaiting(): number {
    waiters = waiters.filter(({ work }) => !work.isAbandoned)
    return waiters.length
  }

  function lend(connection: Connection): void {
    if (isClosed || !isGood(connection)) {
      connection.end()
      connectIfNeeded()
    } else if (countWaiting() === 0) {
      idle.push(connection)
    } else {
      used.add(connection)
      waiters.shift()?.resolve(connection)
    }
  }

  function rejectAll(error: unknown): void {
    for (const { reject } of waiters.splice(0)) reject(error)
  }

  function endIdle(): void {
    for (const connection of idle.splice(0)) connection.end()
  }

  return {
    /**
     * A connection for one piece of work. While all are in use it waits, and is forgotten once `isAbandoned`. Throws
     * `storage_unavailable`, and `shutting_down` after `close`.
     */
    acquire: async (work: Waiter['work']): Promise<Connection> => {
      if (isClosed) throw new ServiceError('shutting_down')
      endUnusable()
      // The one used last: the others can become idle, and the server's caches of one are warm.
      const connection = idle.pop()
      if (connection !== undefined) {
        used.add(connection)
        return connection
      }
      return new Promise((resolve, reject) => {
        waiters.push({ work, resolve, reject })
        connectIfNeeded()
      })
    },

    /** Gives a connection back. One that is broken is replaced when it is needed. */
    release: (connection: Connection) => {
      used.delete(connection)
      lend(connection)
    },

    /** Ends the connections that are in use. */
    destroyUsed: (reason: Error) => {
      for (const connection of used) connection.destroy(reason)
    },

    /** Whether all of its connections are in use. */
    isFull: () => used.size >= size,

    /** Its connections now. One that is still being made does not count; work waits for it. */
    report: () => ({ active: used.size, idle: idle.length, waiting: countWaiting() }),

    /** Closes the idle connections. */
    endIdle,

    /** Closes the idle connections now and the others when they are released. */
    close: () => {
      isClosed = true
      rejectAll(new ServiceError('shutting_down'))
      endIdle()
    },
  }
}
