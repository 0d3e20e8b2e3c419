export type FakeClock = ReturnType<typeof createFakeClock>

/** A clock that stands still until the test moves it, forwards or back. */
export function createFakeClock(startMs = Date.UTC(2026, 0, 31, 12)) {
  let nowMs = startMs
  return {
    now: () => nowMs,
    advance: (byMs: number) => {
      nowMs += byMs
    },
  }
}
