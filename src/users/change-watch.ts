import { setTimeout as sleep } from 'node:timers/promises'
import { type ChangePosition, isAfter, type UserChanges } from './user-changes.ts'
import type { UserRepository } from './user-repository.ts'

/** How soon a change by another process is noticed. */
const POLL_MS = 500

/** The first pauses after a write of this process. On PostgreSQL an older transaction may hide the change for longer. */
const SOON_MS = 5

export interface Wait {
  readonly after: ChangePosition
  readonly ms: number
  /** Aborted once the client no longer waits. */
  readonly leaving: AbortSignal
  /** Whether the client may still wait. Asked with each poll. */
  readonly isAllowed: () => boolean
}

interface Waiter extends Pick<Wait, 'after' | 'isAllowed'> {
  wake(): void
}

export type ChangeWatch = ReturnType<typeof createChangeWatch>

/** Lets requests wait for changes. One poll serves all requests of the process. It stops while no request waits. */
export function createChangeWatch({ last }: Pick<UserChanges, 'last'>) {
  const waiters = new Set<Waiter>()
  let isPolling = false
  const ending = new AbortController()
  const ended: AbortSignal = ending.signal
  let touchedAt = Number.NEGATIVE_INFINITY
  let pauseMs = POLL_MS
  let pause = new AbortController()

  function pollSoon(): void {
    pauseMs = SOON_MS
    pause.abort()
  }

  async function pollAgainAndAgain(): Promise<void> {
    isPolling = true
    while (waiters.size > 0) {
      // Without the database, those who wait go on waiting until their time is over.
      const newest = await last().catch(() => undefined)
      for (const { after, isAllowed, wake } of waiters) {
        const isNews =
          newest !== undefined && (newest.mark !== after.mark || isAfter(newest, after))
        if (isNews || !isAllowed()) wake()
      }
      pause = new AbortController()
      await sleep(pauseMs, undefined, { signal: pause.signal }).catch(() => {})
      pauseMs = Math.min(2 * pauseMs, POLL_MS)
    }
    isPolling = false
  }

  return {
    /**
     * Resolves once there may be a change after the position, or after `ms`, or when `leaving`, `isAllowed` or `end` ends
     * the wait.
     */
    wait: ({ after, ms, leaving, isAllowed }: Wait): Promise<void> =>
      new Promise<void>(resolve => {
        if (ended.aborted || leaving.aborted) {
          resolve()
          return
        }
        const timer = setTimeout(wake, ms)
        const waiter = { after, isAllowed, wake }
        function wake(): void {
          clearTimeout(timer)
          leaving.removeEventListener('abort', wake)
          waiters.delete(waiter)
          resolve()
        }
        leaving.addEventListener('abort', wake)
        waiters.add(waiter)
        // A write may have come between its last read and this wait.
        if (performance.now() - touchedAt < POLL_MS) pollSoon()
        if (!isPolling) void pollAgainAndAgain()
      }),

    /** Call it after a write of this process. */
    touch: (): void => {
      touchedAt = performance.now()
      if (waiters.size > 0) pollSoon()
    },

    /** Aborted by `end`. */
    ended,

    /** Ends each wait, and each later one at once. */
    end: (): void => {
      ending.abort()
      for (const { wake } of waiters) wake()
      pause.abort()
    },
  }
}

/** The same users, which call `onWrite` after each write that clients can see. */
export function callAfterWrites(users: UserRepository, onWrite: () => void): UserRepository {
  const watched =
    <A extends readonly unknown[], T>(write: (...args: A) => Promise<T>) =>
    async (...args: A) => {
      const result = await write(...args)
      onWrite()
      return result
    }
  return {
    ...users,
    create: watched(users.create),
    update: watched(users.update),
    delete: watched(users.delete),
  }
}
