import { clearTimeout, setTimeout } from '../timers.ts'
import { createPatience } from '../waiting/patience.ts'
import type { CounterStore, Waited } from './counter-store.ts'

export interface FallbackCounterStoreOptions {
  /** Counts for several processes. It may be slow, fail, or never answer. */
  readonly shared: CounterStore
  /** Counts in this process while `shared` does not answer. Never fails. */
  readonly local: CounterStore
  /** How long a request waits for `shared`, over all its counts; and for how long `shared` may be silent. */
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

/**
 * Counts in a shared store and, while that fails or does not answer, in a local one. The first call that fails, or that has no
 * answer after `patienceMs`, ends the wait of all others. From then on calls cost nothing but their local count, until a probe
 * in the background finds the shared store again.
 *
 * A request whose time is up, because it has waited for several counts, is counted locally by this one. The shared store counts
 * it too, only later: it is slow, but not lost. No call fails because of the shared store.
 */
export function createFallbackCounterStore(
  options: FallbackCounterStoreOptions,
): FallbackCounterStore {
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

  function ask<T>(
    askStore: (store: CounterStore) => T | Promise<T>,
    waited: Waited = { waitedMs: 0 },
  ): T | Promise<T> {
    if (isLocal) return askStore(local)
    const lossesBefore = losses
    const { waitedMs } = waited
    const leftMs = patienceMs - waitedMs
    return new Promise(resolve => {
      let isSettled = false

      function settle(answer: () => T | Promise<T>): void {
        if (isSettled) return
        isSettled = true
        // Of several counts at once, the longest.
        waited.waitedMs = Math.max(waited.waitedMs, waitedMs + silence.elapsedMs())
        resolve(answer())
      }

      const settleLocally = () => settle(() => askStore(local))

      /** Also after the request has gone on, but not for a failure that belongs to an earlier loss. */
      function loseOnce(error: unknown): void {
        if (losses === lossesBefore) lose(error)
      }

      const silence = patience.begin(patienceMs, () => {
        settleLocally()
        loseOnce(new Error(`no answer within ${patienceMs} ms`))
      })
      const timeOfRequest = leftMs < patienceMs ? patience.begin(leftMs, settleLocally) : silence
      if (leftMs <= 0) settleLocally()
      // A loss settles locally whatever waits.
      // It may throw, too.
      void new Promise<T>(answered => answered(askStore(shared)))
        .then(value => settle(() => value), loseOnce)
        .then(() => {
          silence.end()
          timeOfRequest.end()
        })
    })
  }

  return {
    increment: (key, windowMs, waited, amount) =>
      ask(store => store.increment(key, windowMs, waited, amount), waited),
    reset: (key, inMs) => {
      // The local store may have counted the key during an earlier loss.
      local.reset(key, inMs)
      return ask(store => store.reset(key, inMs))
    },
    letRunOut: rules => local.letRunOut?.(rules),
    isLocal: () => isLocal,
    lose,
    close: () => {
      isClosed = true
      isLocal = true
      clearTimeout(probeTimer)
      patience.giveUpAll()
    },
  }
}
