type Listener = () => void

/** A clock that stands still until the test moves it, forwards or back. */
export interface FakeClock {
  now(): number
  advance(byMs: number): void
}

const listeners = new WeakMap<() => number, Listener[]>()

export function createFakeClock(startMs = Date.UTC(2026, 0, 31, 12)): FakeClock {
  let nowMs = startMs
  const now = () => nowMs
  const called: Listener[] = []
  listeners.set(now, called)
  return {
    now,
    advance: byMs => {
      nowMs += byMs
      for (const listener of called) listener()
    },
  }
}

/** Calls `listener` each time when the fake clock with this `now` is moved. Returns whether there is one. */
export function onAdvance(now: () => number, listener: Listener): boolean {
  return Boolean(listeners.get(now)?.push(listener))
}
