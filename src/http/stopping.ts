import type { Socket } from 'node:net'

/** Whether the service is about to stop, and who came too late to be served. */
export interface Stopping {
  begin(): void
  hasBegun(): boolean
  /** To be told of each connection that is made after the begin. */
  connected(socket: Socket): void
  isTooLate(socket: Socket): boolean
}

/** How long a request may be on its way: what was sent before the stop began is still served. */
export const ARRIVAL_GRACE_MS = 100

export function createStopping(): Stopping {
  const late = new WeakSet<Socket>()
  let begunAt: number | undefined
  return {
    begin: () => {
      begunAt ??= performance.now()
    },
    hasBegun: () => begunAt !== undefined,
    connected: socket => {
      if (begunAt !== undefined && performance.now() - begunAt > ARRIVAL_GRACE_MS) late.add(socket)
    },
    isTooLate: socket => late.has(socket),
  }
}
