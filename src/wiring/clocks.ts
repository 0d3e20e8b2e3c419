/** What tells the time. */
export interface Clocks {
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow?: () => number
}

export const monotonicClock = () => performance.now()

/**
 * The time of the start, and what has gone by since: milliseconds since the epoch that do not jump when the clock of the
 * machine is set, so that what is kept for a day is neither dropped nor kept for longer.
 */
export function createSteadyClock(options: Clocks): () => number {
  const { now = Date.now, monotonicNow = monotonicClock } = options
  const offset = now() - monotonicNow()
  return () => Math.floor(offset + monotonicNow())
}
