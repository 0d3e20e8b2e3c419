import type { Socket } from 'node:net'

/** Whether the service is about to stop, and who came too late to be served. */
export interface Stopping {
  begin(): void
  hasBegun(): boolean
  /** From now on, who connects is too late. */
  refuseNewcomers(): void
  refusesNewcomers(): boolean
  /** To be told of each new connection. */
  connected(socket: Socket): void
  isTooLate(socket: Socket): boolean
}

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
    connected: socket => {
      if (refusesAll) late.add(socket)
    },
    isTooLate: socket => late.has(socket),
  }
}
