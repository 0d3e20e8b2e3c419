import type { CounterStore } from './counter-store.ts'

export interface MemoryCounterStoreOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** How many keys are kept; past that, the oldest window goes first. */
  readonly maxKeys?: number
}

interface Window {
  count: number
  readonly endsAt: number
}

const MAX_KEYS = 100_000

/** Counts in this process. There is no timer: a window that is over is found so when its key comes again. */
export function createMemoryCounterStore(options: MemoryCounterStoreOptions): CounterStore {
  const { monotonicNow, maxKeys = MAX_KEYS } = options
  // In the order in which windows began, because a Map keeps the order of insertion.
  const windows = new Map<string, Window>()

  function begin(key: string, endsAt: number): Window {
    windows.delete(key)
    if (windows.size >= maxKeys) {
      const [oldest = ''] = windows.keys()
      windows.delete(oldest)
    }
    const window = { count: 0, endsAt }
    windows.set(key, window)
    return window
  }

  return {
    increment: (key, windowMs) => {
      const now = monotonicNow()
      let window = windows.get(key)
      if (window === undefined || window.endsAt <= now) window = begin(key, now + windowMs)
      window.count++
      return { count: window.count, resetsInMs: window.endsAt - now }
    },

    reset: key => {
      windows.delete(key)
    },
  }
}
