import type { CounterStore } from './counter-store.ts'

export interface MemoryCounterStoreOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** How many keys are kept; past that, the oldest window goes first. */
  readonly maxKeys?: number
}

const MAX_KEYS = 50_000

/**
 * Counts in this process. There is no timer: a window that is over is found so when its key comes again.
 *
 * Windows are places in two arrays and not objects, because with a million clients it is the objects that come and go
 * which make the heap grow: a tenth of all memory.
 */
export function createMemoryCounterStore(options: MemoryCounterStoreOptions): CounterStore {
  const { monotonicNow, maxKeys = MAX_KEYS } = options
  // In the order in which windows began, because a Map keeps the order of insertion.
  const places = new Map<string, number>()
  const counts = new Uint32Array(maxKeys)
  const ends = new Float64Array(maxKeys)
  const free: number[] = []
  let used = 0

  function begin(key: string, endsAt: number): number {
    const place = takePlace(key)
    counts[place] = 0
    ends[place] = endsAt
    places.set(key, place)
    return place
  }

  /** That of the last window of this key, one that nobody has, or that of the oldest window. */
  function takePlace(key: string): number {
    const own = remove(key)
    if (own !== undefined) return own
    if (places.size < maxKeys) return free.pop() ?? used++
    const [oldest = ''] = places.keys()
    return remove(oldest) as number
  }

  function remove(key: string): number | undefined {
    const place = places.get(key)
    if (place !== undefined) places.delete(key)
    return place
  }

  return {
    increment: (key, windowMs) => {
      const now = monotonicNow()
      let place = places.get(key)
      if (place === undefined || (ends[place] as number) <= now) place = begin(key, now + windowMs)
      const count = (counts[place] as number) + 1
      counts[place] = count
      return { count, resetsInMs: (ends[place] as number) - now }
    },

    reset: key => {
      const place = remove(key)
      if (place !== undefined) free.push(place)
    },
  }
}
