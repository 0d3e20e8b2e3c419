/** A clock that stands still until the test moves it, forwards or back. */
export interface FakeClock {
  now(): number
  advance(byMs: number): void
}

export function createFakeClock(startMs = Date.UTC(2026, 0, 31, 12)): FakeClock {
  let nowMs = startMs
  return {
    now: () => nowMs,
    advance: byMs => {
      nowMs += byMs
    },
  }
}
