import type { CounterStore } from './counter-store.ts'
import { createRuleMaps } from './rule-maps.ts'
import { ruleText } from './rules/rules-schema.ts'

export interface MemoryCounterStoreOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
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
  const { monotonicNow, maxKeys = MAX_KEYS } = options
  const windows = createRuleMaps<Window>(maxKeys)
  // Whole milliseconds: a sum of fractions is rounded, and a window would end later than it may.
  const wholeNow = () => Math.floor(monotonicNow())

  return {
    increment: ({ type, rule, key }, windowMs, _waited, amount = 1) => {
      const name = ruleText(type, rule)
      const now = wholeNow()
      let window = windows.get(name, key)
      if (window === undefined || window.endsAt <= now) {
        window = { count: 0, endsAt: now + windowMs }
        windows.set(name, key, window)
      }
      window.count += amount
      return { count: window.count, resetsInMs: window.endsAt - now }
    },

    reset: ({ type, rule, key }, inMs = 0) => {
      const name = ruleText(type, rule)
      const now = wholeNow()
      const window = windows.get(name, key)
      if (inMs <= 0 || window === undefined || window.endsAt <= now) windows.delete(name, key)
      else window.endsAt = now + inMs
    },

    letRunOut: rulesInForce => {
      const now = wholeNow()
      const inForce = rulesInForce.map(({ type, rule }) => ruleText(type, rule))
      windows.letRunOut(new Set(inForce), ({ endsAt }) => endsAt <= now)
    },
  }
}
