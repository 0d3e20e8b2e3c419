import { createPatience } from '../waiting/patience.ts'
import type { CounterStore } from './counter-store.ts'
import type { MaybePromise } from './maybe-promise.ts'

export interface FallbackCounterStoreOptions {
  /** Counts for several processes. It may be slow, fail, or never answer. */
  readonly shared: CounterStore
  /** Counts in this process while `shared` does not answer. */
  readonly local: CounterStore
  /** How long a request waits for `shared`, over all its counts. */
  readonly patienceMs: number
  /** Resolves if `shared` answers again, otherwise rejects. Called while it does not answer, one call at a time. */
  readonly probe: () => Promise<void>
  /** The time from the loss of `shared`, or from the end of a probe, to the next probe. */
  readonly retryEveryMs: number
  /** Called once each time that `shared` is lost, with the reason. */
  readonly onLost: (error: unknown) => void
  /** Called once each time that `shared` answers again. */
  readonly onBack: () => void
}

export interface FallbackCounterStore extends CounterStore {
  /** Whether this process counts by itself. */
  isLocal(): boolean
  /** Counts locally from now on, until a probe succeeds. For a loss that the caller notices first. */
  lose(error: unknown): void
  /** Ends the probes. Calls that wait are counted locally, and so are later ones. */
  close(): void
}

interface Question<T> {
  readonly askShared: () => MaybePromise<T>
  readonly askLocal: () => MaybePromise<T>
  /** How long the request has waited before. */
  readonly earlierMs?: number | undefined
  /** Adds to an answer how long it took. */
  readonly addWait?: (answer: T, waitedMs: number) => T
}

/** Shorter waits do not add up to anything. */
const MOMENT_MS = 5

/**
 * Counts in a shared store and, while that fails or takes too long, in a local one. The first call that fails ends the wait of
 * all others. From then on calls cost nothing but their local count, until a probe in the background finds the shared store
 * again. No call fails because of the shared store.
 */
export function createFallbackCounterStore(
  options: FallbackCounterStoreOptions,
): FallbackCounterStore {
  const { shared, local, patienceMs, probe, retryEveryMs, onLost, onBack } = options
  const patience = createPatience()
  const unanswered = new Set<() => void>()
  let isLocal = false
  let isClosed = false
  let probeTimer: NodeJS.Timeout | undefined

  function lose(error: unknown): void {
    if (isLocal) return
    isLocal = true
    onLost(error)
    countAllLocally()
    scheduleProbe()
  }

  function countAllLocally(): void {
    const all = [...unanswered]
    unanswered.clear()
    for (const countLocally of all) countLocally()
  }

  function scheduleProbe(): void {
    if (!isClosed) probeTimer = setTimeout(tryShared, retryEveryMs).unref()
  }

  async function tryShared(): Promise<void> {
    try {
      await probe()
    } catch {
      return scheduleProbe()
    }
    if (isClosed) return
    isLocal = false
    onBack()
  }

  function ask<T>({ askShared, askLocal, earlierMs = 0, addWait }: Question<T>): MaybePromise<T> {
    if (isLocal) return askLocal()
    let answer: MaybePromise<T>
    try {
      answer = askShared()
    } catch (error) {
      lose(error)
      return askLocal()
    }
    if (!(answer instanceof Promise)) return answer
    return new Promise((resolve, reject) => {
      const countLocally = () => {
        wait.end()
        try {
          resolve(askLocal())
        } catch (error) {
          reject(error)
        }
      }
      const wait = patience.begin(patienceMs - earlierMs, () =>
        lose(new Error(`no answer within ${patienceMs} ms`)),
      )
      unanswered.add(countLocally)
      answer.then(
        value => {
          // Without effect if the call was counted locally meanwhile.
          unanswered.delete(countLocally)
          wait.end()
          const waitedMs = wait.elapsedMs()
          resolve(addWait === undefined || waitedMs < MOMENT_MS ? value : addWait(value, waitedMs))
        },
        error => {
          if (unanswered.has(countLocally)) lose(error)
        },
      )
    })
  }

  return {
    increment: (key, windowMs, earlierMs) =>
      ask({
        askShared: () => shared.increment(key, windowMs),
        askLocal: () => local.increment(key, windowMs),
        earlierMs,
        addWait: (count, waitedMs) => ({ ...count, waitedMs }),
      }),
    // Also in the local store, which may have counted the key during an earlier loss.
    reset: (key, inMs) => {
      const resetLocally = () => local.reset(key, inMs)
      const resetBoth = async () => {
        await Promise.all([shared.reset(key, inMs), resetLocally()])
      }
      return ask<void>({ askShared: resetBoth, askLocal: resetLocally })
    },
    isLocal: () => isLocal,
    lose,
    close: () => {
      isClosed = true
      isLocal = true
      clearTimeout(probeTimer)
      countAllLocally()
    },
  }
}
