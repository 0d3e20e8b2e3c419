import { type CounterStore, counterText } from './counter-store.ts'

export interface MemoryCounterStoreOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** The most keys in memory; beyond that, the oldest window is dropped. */
  readonly maxKeys?: number
}

const MAX_KEYS = 50_000

/** After how many new windows the iterator over them is replaced. */
const RENEW_EVERY = 1000

/**
 * Counts in the memory of this process. There is no timer: a window that has ended is replaced when its key is counted again.
 */
export function createMemoryCounterStore(options: MemoryCounterStoreOptions): CounterStore {
  const { monotonicNow, maxKeys = MAX_KEYS } = options
  // In the order in which the windows began: a Map keeps the order of insertion.
  const windows = new Map<string, { count: number; endsAt: number }>()
  // All windows before its place are gone. A new iterator passes each of them again, for 25 µs.
  let oldest = windows.keys()
  let begun = 0

  return {
    increment: (counterKey, windowMs) => {
      const key = counterText(counterKey)
      // Whole milliseconds: a sum of fractions is rounded, and a window would end later than it may.
      const now = Math.floor(monotonicNow())
      let window = windows.get(key)
      if (window === undefined || window.endsAt <= now) {
        windows.delete(key)
        // An iterator keeps the tables that the Map has outgrown since it was last used, with all windows that were in them.
        if (++begun % RENEW_EVERY === 0) oldest = windows.keys()
        if (windows.size >= maxKeys) windows.delete(oldest.next().value as string)
        window = { count: 0, endsAt: now + windowMs }
        windows.set(key, window)
      }
      return { count: ++window.count, resetsInMs: window.endsAt - now }
    },

    reset: (counterKey, inMs = 0) => {
      const key = counterText(counterKey)
      const now = Math.floor(monotonicNow())
      const window = windows.get(key)
      if (inMs <= 0 || window === undefined || window.endsAt <= now) windows.delete(key)
      else window.endsAt = now + inMs
    },
  }
}
