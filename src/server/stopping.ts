import type { Socket } from 'node:net'

/** Whether the service is stopping, and which connections came too late to be served. */
export interface Stopping {
  begin(): void
  hasBegun(): boolean
  /** From now on new connections are too late. */
  refuseNewcomers(): void
  refusesNewcomers(): boolean
  /** Call for every new connection. */
  addConnection(socket: Socket): void
  isTooLate(socket: Socket): boolean
}

/** A stop that has not begun. */
export function createStopping(): Stopping {
  const late = new WeakSet<Socket>()
  let hasBegun = false
  let refusesAll = false
  return {
    begin: () => {
      hasBegun = true
    },
    hasBegun: () => hasBegun,
    refuseNewcomers: () => {
      refusesAll = true
    },
    refusesNewcomers: () => refusesAll,
    addConnection: socket => {
      if (refusesAll) late.add(socket)
    },
    isTooLate: socket => late.has(socket),
  }
}
