import { type CounterStore, counterText } from './counter-store.ts'

export interface MemoryCounterStoreOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** The most keys in memory; beyond that, the oldest window is dropped. */
  readonly maxKeys?: number
}

const MAX_KEYS = 50_000

/**
 * Counts in the memory of this process. There is no timer: a window that has ended is replaced when its key is counted again.
 *
 * A window is a slot in two arrays and not an object: with a million clients, short-lived objects made the heap grow by a
 * tenth.
 */
export function createMemoryCounterStore(options: MemoryCounterStoreOptions): CounterStore {
  const { monotonicNow, maxKeys = MAX_KEYS } = options
  // In the order in which the windows began: a Map keeps the order of insertion.
  const slots = new Map<string, number>()
  const counts = new Uint32Array(maxKeys)
  const ends = new Float64Array(maxKeys)
  const free: number[] = []
  let used = 0

  function begin(key: string, endsAt: number): number {
    const slot = takeSlot(key)
    counts[slot] = 0
    ends[slot] = endsAt
    slots.set(key, slot)
    return slot
  }

  /** The slot of this key's previous window, a free slot, or the slot of the oldest window. */
  function takeSlot(key: string): number {
    const own = remove(key)
    if (own !== undefined) return own
    if (slots.size < maxKeys) return free.pop() ?? used++
    const [oldest = ''] = slots.keys()
    return remove(oldest) as number
  }

  function remove(key: string): number | undefined {
    const slot = slots.get(key)
    if (slot !== undefined) slots.delete(key)
    return slot
  }

  return {
    increment: (counterKey, windowMs) => {
      const key = counterText(counterKey)
      // Whole milliseconds: a sum of fractions is rounded, and a window would end later than it may.
      const now = Math.floor(monotonicNow())
      let slot = slots.get(key)
      if (slot === undefined || (ends[slot] as number) <= now) slot = begin(key, now + windowMs)
      const count = (counts[slot] as number) + 1
      counts[slot] = count
      return { count, resetsInMs: (ends[slot] as number) - now }
    },

    reset: (counterKey, inMs = 0) => {
      const key = counterText(counterKey)
      const now = Math.floor(monotonicNow())
      const slot = slots.get(key)
      if (slot === undefined) return
      if (inMs > 0 && (ends[slot] as number) > now) ends[slot] = now + inMs
      else {
        remove(key)
        free.push(slot)
      }
    },
  }
}
