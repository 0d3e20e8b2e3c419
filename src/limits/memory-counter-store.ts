import { type CounterStore, parseCounterText } from './counter-store.ts'
import { createRuleMaps } from './rule-maps.ts'

export interface MemoryCounterStoreOptions {
  /** Whole milliseconds since the epoch, by a clock that never jumps. */
  readonly steadyNow: () => number
  /**
   * The most keys of one rule in memory: beyond that, its oldest window is dropped. Rules that a reload has removed
   * may have this many keys together.
   */
  readonly maxKeys?: number
}

const MAX_KEYS = 50_000

interface Window {
  count: number
  endsAt: number
}

/**
 * Counts in the memory of this process. There is no timer: a window that has ended is replaced when its key is counted again.
 */
export function createMemoryCounterStore(options: MemoryCounterStoreOptions): CounterStore {
  const { steadyNow, maxKeys = MAX_KEYS } = options
  const windows = createRuleMaps<Window>(maxKeys)

  return {
    increment: (text, amount = 1) => {
      const { rule, key, windowMs } = parseCounterText(text)
      const now = steadyNow()
      let window = windows.get(rule, key)
      if (window === undefined || window.endsAt <= now) {
        window = { count: 0, endsAt: now + windowMs }
        windows.set(rule, key, window)
      }
      window.count += amount
      return { totalHits: window.count, resetTime: new Date(window.endsAt) }
    },

    decrement: () => {},

    resetKey: (text, inMs = 0) => {
      const { rule, key } = parseCounterText(text)
      const now = steadyNow()
      const window = windows.get(rule, key)
      if (inMs <= 0 || window === undefined || window.endsAt <= now) windows.delete(rule, key)
      else window.endsAt = now + inMs
    },

    letRunOut: rulesInForce => {
      const now = steadyNow()
      windows.letRunOut(rulesInForce, ({ endsAt }) => endsAt <= now)
    },
  }
}
