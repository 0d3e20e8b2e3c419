import type { CounterStore } from './counter-store.ts'
import { ownCopy } from './rules/memoize.ts'
import { ruleText } from './rules/rules-schema.ts'

export interface MemoryCounterStoreOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** The most keys of one rule in memory; beyond that, its oldest window is dropped. Also the most of all rules that went. */
  readonly maxKeys?: number
}

const MAX_KEYS = 50_000

/** After how many new windows the iterator over them is replaced. */
const RENEW_EVERY = 1000

interface Window {
  count: number
  endsAt: number
}

/**
 * Counts in the memory of this process. There is no timer: a window that has ended is replaced when its key is counted again.
 *
 * Each rule has windows of its own: clients that choose what they are counted by push out no window of another rule.
 */
export function createMemoryCounterStore(options: MemoryCounterStoreOptions): CounterStore {
  const { monotonicNow, maxKeys = MAX_KEYS } = options
  const rules = new Map<string, Windows>()
  // Whole milliseconds: a sum of fractions is rounded, and a window would end later than it may.
  const wholeNow = () => Math.floor(monotonicNow())

  return {
    increment: (counterKey, windowMs) => {
      const rule = ruleText(counterKey.type, counterKey.rule)
      const windows = rules.get(rule) ?? createWindows(maxKeys)
      rules.set(rule, windows)
      const now = wholeNow()
      const known = windows.get(counterKey.key)
      const isOpen = known !== undefined && known.endsAt > now
      const window = isOpen ? known : windows.begin(counterKey.key, now + windowMs)
      return { count: ++window.count, resetsInMs: window.endsAt - now }
    },

    reset: (counterKey, inMs = 0) => {
      const windows = rules.get(ruleText(counterKey.type, counterKey.rule))
      const now = wholeNow()
      const window = windows?.get(counterKey.key)
      if (inMs <= 0 || window === undefined || window.endsAt <= now) windows?.delete(counterKey.key)
      else window.endsAt = now + inMs
    },

    letRunOut: rulesInForce => {
      const inForce = new Set(rulesInForce.map(({ type, rule }) => ruleText(type, rule)))
      const now = wholeNow()
      let room = maxKeys
      // Those that came last stay, because each reload may bring new names.
      for (const [name, windows] of [...rules].reverse()) {
        if (inForce.has(name)) continue
        const open = windows.dropEnded(now)
        if (open === 0 || open > room) rules.delete(name)
        else room -= open
      }
    },
  }
}

type Windows = ReturnType<typeof createWindows>

/** The windows of one rule. */
function createWindows(maxKeys: number) {
  // In the order in which the windows began: a Map keeps the order of insertion.
  const windows = new Map<string, Window>()
  // All windows before its place are gone. A new iterator passes each of them again, for 25 µs.
  let oldest = windows.keys()
  let begun = 0

  return {
    get: (key: string) => windows.get(key),
    delete: (key: string) => windows.delete(key),

    /** Returns how many are left. */
    dropEnded: (now: number): number => {
      for (const [key, { endsAt }] of windows) if (endsAt <= now) windows.delete(key)
      return windows.size
    },

    begin: (key: string, endsAt: number): Window => {
      windows.delete(key)
      // An iterator keeps the tables that the Map has outgrown since it was last used, with all windows that were in them.
      if (++begun % RENEW_EVERY === 0) oldest = windows.keys()
      if (windows.size >= maxKeys) windows.delete(oldest.next().value as string)
      const window = { count: 0, endsAt }
      windows.set(ownCopy(key), window)
      return window
    },
  }
}
