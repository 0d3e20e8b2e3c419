import type { CounterStore } from '../../limits/counter-store.ts'
import { createPatience, withinPatience } from '../../platform/patience.ts'
import { clearTimeout, performance, setTimeout } from '../../platform/timers.ts'

export interface FallbackCounterStoreOptions {
  /**
   * Opens the store that counts for several processes. It may be slow, fail, or never answer. It calls `onEnd` if it can answer
   * no more, and ends with `signal`.
   */
  readonly open: (link: {
    readonly signal: AbortSignal
    readonly onEnd: (error: unknown) => void
  }) => Promise<CounterStore>
  /** Counts in this process while the shared store does not answer. Never fails. */
  readonly local: CounterStore
  /** How long a count waits for the shared store. */
  readonly patienceMs: number
  /** The time from the loss of the shared store, or from the end of an attempt to open it again, to the next attempt. */
  readonly retryEveryMs: number
  /** Called once each time that the shared store is lost, with the reason. */
  readonly onLost: (error: unknown) => void
  /** Called once each time that it answers again. */
  readonly onBack: () => void
}

export type FallbackCounterStore = ReturnType<typeof createFallbackCounterStore>

/** How long it may take to open the shared store. */
const OPEN_MS = 1000

/** The shared store, or an attempt to open it. */
interface Shared {
  readonly opening: Promise<CounterStore>
  readonly abort: AbortController
  /** Once it is open: a count does not wait for a promise more than it must. */
  store: CounterStore | undefined
  openedAt: number
}

/**
 * Counts in a shared store and, while that fails or does not answer, in a local one. The first call that fails, or that has no
 * answer after `patienceMs`, ends the wait of all others. From then on calls cost nothing but their local count, until the shared
 * store is open again. No call fails because of the shared store.
 */
export function createFallbackCounterStore(options: FallbackCounterStoreOptions) {
  const { open, local, patienceMs, retryEveryMs, onLost, onBack } = options
  const patience = createPatience()
  /** `undefined` while this process counts by itself. */
  let shared: Shared | undefined
  let attempt: Shared | undefined
  let losses = 0
  let isClosed = false
  let retryTimer: NodeJS.Timeout | undefined

  function begin(): Shared {
    const abort = new AbortController()
    const { signal } = abort
    const opening = withinPatience(OPEN_MS, open({ signal, onEnd: error => replace(begun, error) }))
    const begun: Shared = { opening, abort, store: undefined, openedAt: 0 }
    const onOpen = (store: CounterStore) => {
      Object.assign(begun, { store, openedAt: performance.now() })
    }
    opening.then(onOpen, () => abort.abort())
    return begun
  }

  /** A store that ends while nothing waits for it, such as one that was idle for long, is opened again without notice. */
  function replace(ended: Shared, error: unknown): void {
    if (shared !== ended || ended.store === undefined) return
    if (performance.now() - ended.openedAt < OPEN_MS) {
      lose(error)
      return
    }
    ended.abort.abort()
    const next = begin()
    shared = next
    next.opening.catch(reason => {
      if (shared === next) lose(reason)
    })
  }

  function lose(error: unknown): void {
    if (shared === undefined) return
    shared.abort.abort()
    shared = undefined
    losses++
    onLost(error)
    patience.giveUpAll()
    retryLater()
  }

  function retryLater(): void {
    if (!isClosed) retryTimer = setTimeout(retry, retryEveryMs).unref()
  }

  async function retry(): Promise<void> {
    attempt = begin()
    try {
      await attempt.opening
    } catch {
      return retryLater()
    }
    if (isClosed) return
    shared = attempt
    onBack()
  }

  async function askShared<T>(
    { store, opening }: Shared,
    question: (store: CounterStore) => T | Promise<T>,
  ): Promise<T> {
    const lossesBefore = losses
    try {
      const answer = store === undefined ? opening.then(question) : question(store)
      return await patience.within(patienceMs, Promise.resolve(answer))
    } catch (error) {
      // Not for what belongs to an earlier loss.
      if (losses === lossesBefore) {
        lose(error)
        // All others that wait count before this one.
        await undefined
      }
      return question(local)
    }
  }

  function ask<T>(question: (store: CounterStore) => T | Promise<T>): T | Promise<T> {
    return shared === undefined ? question(local) : askShared(shared, question)
  }

  return {
    /** Opens the shared store. Rejects if that fails: the caller then decides between `lose` and `close`. */
    start: async (): Promise<void> => {
      shared = begin()
      await shared.opening
    },

    increment: (text: string, amount?: number) => ask(store => store.increment(text, amount)),
    decrement: () => {},
    resetKey: (text: string, inMs?: number) => {
      // The local store may have counted the key during an earlier loss.
      local.resetKey(text, inMs)
      return ask(store => store.resetKey(text, inMs))
    },
    letRunOut: (rules: ReadonlySet<string>) => local.letRunOut?.(rules),

    /** Whether this process counts by itself. */
    isLocal: () => shared === undefined,

    /** Counts locally from now on, until the shared store is open again. For a loss that the caller notices first. */
    lose,

    /** Ends the shared store, and all attempts to open it. Calls that wait are counted locally, and so are later ones. */
    close: (): void => {
      isClosed = true
      clearTimeout(retryTimer)
      for (const each of [shared, attempt]) each?.abort.abort()
      shared = undefined
      patience.giveUpAll()
    },
  }
}
