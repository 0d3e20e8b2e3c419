/** The clocks of one service. */
export interface Clocks {
  /** Milliseconds since the epoch. Jumps when the machine's clock is set. */
  readonly now: () => number
  /** Milliseconds since some moment. Never goes back and never jumps. */
  readonly monotonicNow: () => number
  /**
   * Milliseconds since the epoch: the wall clock at the start, plus the time since then. It does not jump when the
   * machine's clock is set, so a period of a day lasts a day.
   */
  readonly steadyNow: () => number
}

/** The clocks of the machine, or of a test. */
export function createClocks({
  now = Date.now,
  monotonicNow = () => performance.now(),
}: Partial<Pick<Clocks, 'now' | 'monotonicNow'>> = {}): Clocks {
  const offset = now() - monotonicNow()
  return { now, monotonicNow, steadyNow: () => Math.floor(offset + monotonicNow()) }
}
