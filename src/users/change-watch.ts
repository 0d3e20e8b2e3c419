import { clearTimeout, performance, setTimeout, sleep } from '../timers.ts'
import { type ChangePosition, isAfter, type UserChanges } from './user-changes.ts'
import type { UserRepository } from './user-repository.ts'

/** How soon a change by another process is noticed. */
const POLL_MS = 500

/** The first pauses after a write of this process. On PostgreSQL an older transaction may hide the change for longer. */
const SOON_MS = 5

/** A wait must end within two seconds after its key is revoked. The keys in memory may be one second late. */
const CHECK_MS = 250

export interface Wait {
  readonly after: ChangePosition
  readonly ms: number
  /** Aborted once the client no longer waits. */
  readonly leaving: AbortSignal
  /** Whether the client may still wait. Asked from time to time. */
  readonly isAllowed: () => boolean
}

interface Waiter extends Pick<Wait, 'after' | 'isAllowed'> {
  wake(isNews: boolean): void
}

export type ChangeWatch = ReturnType<typeof createChangeWatch>

/** Lets requests wait for changes. One poll serves all requests of the process. It stops while no request waits. */
export function createChangeWatch({ last }: Pick<UserChanges, 'last'>) {
  const waiters = new Set<Waiter>()
  /** What the last poll has found; `undefined` without the database. */
  let newest: ChangePosition | undefined
  let isPolling = false
  let hasEnded = false
  let checkedAt = Number.NEGATIVE_INFINITY
  let pauseMs = POLL_MS
  let pause = new AbortController()

  function pollSoon(): void {
    pauseMs = SOON_MS
    // Each `abort` makes an error with a stack, also a repeated one: 5 µs for each write.
    if (!pause.signal.aborted) pause.abort()
  }

  function isNewsAfter(after: ChangePosition): boolean {
    return newest !== undefined && (newest.mark !== after.mark || isAfter(newest, after))
  }

  async function pollAgainAndAgain(): Promise<void> {
    isPolling = true
    while (waiters.size > 0) {
      // Without the database, those who wait go on waiting until their time is over.
      newest = await last().catch(() => undefined)
      const now = performance.now()
      const isCheck = now - checkedAt >= CHECK_MS
      if (isCheck) checkedAt = now
      for (const { after, isAllowed, wake } of waiters) {
        if (isNewsAfter(after)) wake(true)
        else if (isCheck && !isAllowed()) wake(false)
      }
      pause = new AbortController()
      await sleep(pauseMs, undefined, { signal: pause.signal }).catch(() => {})
      pauseMs = Math.min(2 * pauseMs, POLL_MS)
    }
    isPolling = false
  }

  return {
    /**
     * Resolves to true once there may be a change after the position, and to false after `ms`, or when `leaving`, `isAllowed`
     * or `end` ends the wait.
     */
    wait: ({ after, ms, leaving, isAllowed }: Wait): Promise<boolean> =>
      new Promise(resolve => {
        if (hasEnded || leaving.aborted) {
          resolve(false)
          return
        }
        const giveUp = () => waiter.wake(false)
        const timer = setTimeout(giveUp, ms)
        const waiter: Waiter = {
          after,
          isAllowed,
          wake: isNews => {
            clearTimeout(timer)
            leaving.removeEventListener('abort', giveUp)
            waiters.delete(waiter)
            resolve(isNews)
          },
        }
        leaving.addEventListener('abort', giveUp)
        waiters.add(waiter)
        if (!isPolling) void pollAgainAndAgain()
        // The poll that found it may have been before this wait.
        else if (isNewsAfter(after)) pollSoon()
      }),

    /** Call it after a write of this process. */
    touch: pollSoon,

    /** Ends each wait, and each later one at once. */
    end: (): void => {
      hasEnded = true
      for (const { wake } of waiters) wake(false)
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
    createMany: watched(users.createMany),
    update: watched(users.update),
    delete: watched(users.delete),
  }
}
