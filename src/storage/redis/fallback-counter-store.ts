import type { CounterStore, CountingRule } from '../../limits/counter-store.ts'
import { createPatience } from '../../platform/patience.ts'
import { clearTimeout, setTimeout } from '../../platform/timers.ts'

export interface FallbackCounterStoreOptions {
  /** Counts for several processes. It may be slow, fail, or never answer. */
  readonly shared: CounterStore
  /** Counts in this process while `shared` does not answer. Never fails. */
  readonly local: CounterStore
  /** How long a count waits for `shared`. */
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

export type FallbackCounterStore = ReturnType<typeof createFallbackCounterStore>

/**
 * Counts in a shared store and, while that fails or does not answer, in a local one. The first call that fails, or that has no
 * answer after `patienceMs`, ends the wait of all others. From then on calls cost nothing but their local count, until a probe
 * in the background finds the shared store again. No call fails because of the shared store.
 */
export function createFallbackCounterStore(options: FallbackCounterStoreOptions) {
  const { shared, local, patienceMs, probe, retryEveryMs, onLost, onBack } = options
  const patience = createPatience()
  let losses = 0
  let isLocal = false
  let isClosed = false
  let probeTimer: NodeJS.Timeout | undefined

  function lose(error: unknown): void {
    if (isLocal) return
    isLocal = true
    losses++
    onLost(error)
    patience.giveUpAll()
    scheduleProbe()
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

  async function askShared<T>(question: (store: CounterStore) => T | Promise<T>): Promise<T> {
    const lossesBefore = losses
    try {
      return await patience.within(patienceMs, Promise.resolve(question(shared)))
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
    return isLocal ? question(local) : askShared(question)
  }

  return {
    increment: (text: string, amount?: number) => ask(store => store.increment(text, amount)),
    decrement: () => {},
    resetKey: (text: string, inMs?: number) => {
      // The local store may have counted the key during an earlier loss.
      local.resetKey(text, inMs)
      return ask(store => store.resetKey(text, inMs))
    },
    letRunOut: (rules: readonly CountingRule[]) => local.letRunOut?.(rules),

    /** Whether this process counts by itself. */
    isLocal: () => isLocal,

    /** Counts locally from now on, until a probe succeeds. For a loss that the caller notices first. */
    lose,

    /** Ends the probes. Calls that wait are counted locally, and so are later ones. */
    close: (): void => {
      isClosed = true
      isLocal = true
      clearTimeout(probeTimer)
      patience.giveUpAll()
    },
  }
}
