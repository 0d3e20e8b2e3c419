import { hrtime, performance } from './timers.ts'

/** The clocks of one service. */
export interface Clocks {
  /** Milliseconds since the epoch. Jumps when the machine's clock is set. */
  readonly now: () => number
  /** Milliseconds since some moment. Never goes back and never jumps, unless a test replaces `Date`. */
  readonly monotonicNow: () => number
  /**
   * Milliseconds since the epoch: the wall clock at the start, plus the time since then. It does not jump when the
   * machine's clock is set, so a period of a day lasts a day.
   */
  readonly steadyNow: () => number
  /**
   * Milliseconds of a clock that begins when the machine starts: the same for all its processes, whatever its clock is set to.
   * Not `os.uptime()`, which containers may have of their own.
   */
  readonly uptimeNow: () => number
  /** Only for tests: replaces the clock of a database server. Milliseconds since the epoch. */
  readonly serverNow?: (() => number) | undefined
}

/** The machine's own clock, taken before a test can replace it. */
const { now: machineNow } = Date

/** A clock of the machine that follows `Date` as soon as a test has replaced that. */
function followDate(clock: () => number): () => number {
  const offset = machineNow() - clock()
  return () => (Date.now === machineNow ? clock() : Date.now() - offset)
}

/** The clocks of the machine, or of a test. */
export function createClocks({
  now = () => Date.now(),
  monotonicNow = followDate(() => performance.now()),
  uptimeNow = followDate(() => Number(hrtime.bigint()) / 1e6),
  serverNow,
}: Partial<Omit<Clocks, 'steadyNow'>> = {}): Clocks {
  const offset = now() - monotonicNow()
  const steadyNow = () => Math.floor(offset + monotonicNow())
  return { now, monotonicNow, steadyNow, uptimeNow, serverNow }
}
