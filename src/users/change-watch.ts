import { clearTimeout, nextTurn, performance, setTimeout, sleep } from '../platform/timers.ts'
import { type ChangePosition, isAfter, type UserChanges } from './user-changes.ts'

/** How soon a change by another process is noticed. */
const POLL_MS = 500

/** The first pauses after a write of this process. On PostgreSQL an older transaction may hide the change for longer. */
const SOON_MS = 5

/** A wait must end within two seconds after its key is revoked. The keys in memory may be one second late. */
const CHECK_MS = 250

/** What a thousand waits lead to goes in slices of this time. Between them everything else has its turn. */
const SLICE_MS = 1

interface Wait {
  readonly after: ChangePosition
  readonly ms: number
  /** Aborted once the client no longer waits. */
  readonly leaving: AbortSignal
  /** Whether the client may still wait. Asked from time to time. */
  readonly isAllowed: () => boolean
}

interface Waiter<T> extends Pick<Wait, 'after' | 'isAllowed'> {
  /** Ends the wait with the news, or without any. */
  wake(news?: Promise<T>): void
}

export interface ChangeWatchOptions<T> extends Pick<UserChanges, 'last'> {
  /** Reads what is new after a position, once for all that wait there. */
  readonly read: (after: ChangePosition) => Promise<T>
}

/** Lets requests wait for changes. One poll serves all requests of the process. It stops while no request waits. */
export function createChangeWatch<T extends object>({ last, read }: ChangeWatchOptions<T>) {
  const waiters = new Set<Waiter<T>>()
  /** What the last poll has found; `undefined` without the database. */
  let newest: ChangePosition | undefined
  let isPolling = false
  let hasEnded = false
  let checkedAt = Number.NEGATIVE_INFINITY
  let pauseMs = POLL_MS
  let pause = new AbortController()
  let lastTurn = Promise.resolve()
  let sliceEndsAt = Number.NEGATIVE_INFINITY

  /** Resolves when its caller may go on. What all callers then do at once goes in slices, one after another. */
  function turn(): Promise<void> {
    lastTurn = lastTurn.then(async () => {
      if (performance.now() < sliceEndsAt) return
      await nextTurn()
      sliceEndsAt = performance.now() + SLICE_MS
    })
    return lastTurn
  }

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
      const told = [...waiters].filter(({ after, isAllowed, wake }) => {
        const isNews = isNewsAfter(after)
        if (!isNews && isCheck && !isAllowed()) wake()
        return isNews
      })
      await tell(told)
      pause = new AbortController()
      await sleep(pauseMs, undefined, { signal: pause.signal }).catch(() => {})
      pauseMs = Math.min(2 * pauseMs, POLL_MS)
    }
    isPolling = false
  }

  async function tell(told: readonly Waiter<T>[]): Promise<void> {
    const reading = new Map<string, Promise<T>>()
    for (const { after, wake } of told) {
      const place = placeOf(after)
      const news = reading.get(place) ?? read(after)
      reading.set(place, news)
      await news.then(turn, () => {})
      wake(news)
    }
  }

  return {
    /**
     * Resolves to the news once there may be a change after the position, and to `undefined` after `ms`, or when `leaving`,
     * `isAllowed` or `end` ends the wait. Rejects if they cannot be read. What its caller does at once has its turn then.
     */
    wait: ({ after, ms, leaving, isAllowed }: Wait): Promise<T | undefined> =>
      new Promise(resolve => {
        if (hasEnded || leaving.aborted) {
          resolve(undefined)
          return
        }
        const giveUp = () => waiter.wake()
        const timer = setTimeout(() => turn().then(giveUp), ms)
        const waiter: Waiter<T> = {
          after,
          isAllowed,
          wake: news => {
            clearTimeout(timer)
            leaving.removeEventListener('abort', giveUp)
            waiters.delete(waiter)
            resolve(news)
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
      for (const { wake } of waiters) wake()
      pause.abort()
    },
  }
}

/** The text of a position, to compare it by. */
export function placeOf(position: ChangePosition | undefined): string {
  const { mark, key, id, since } = position ?? {}
  return [mark, key, id, since].join(' ')
}
