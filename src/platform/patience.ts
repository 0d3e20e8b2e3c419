import { performance, setImmediate, setTimeout } from './timers.ts'
/** Why a wait ended without an answer. */
export class NoAnswer extends Error {}

interface Wait {
  readonly untilMs: number
  /** `undefined` once the wait has ended. */
  onOver: (() => void) | undefined
}

/**
 * Timeouts whose clock stops while this process is busy: when a timer is late, the answer may have come long ago, or the
 * question may not have been sent yet.
 *
 * One timer serves all waits. It ticks at least every `tickMs`, and a much longer gap between two ticks counts as `tickMs`.
 */
export function createPatience({ tickMs = 10 } = {}) {
  /**
   * Those that have ended are dropped at the next tick. Not a Set: V8 keeps each table that a busy Set has outgrown, with all
   * that was in it, until the next full garbage collection, which made a count in Redis twice as expensive.
   */
  let waits: Wait[] = []
  let isTicking = false
  // A clock that stops while this process is busy.
  let countedMs = 0
  let countedAt = 0

  function tick(): void {
    const elapsedMs = performance.now() - countedAt
    countedAt += elapsedMs
    countedMs += elapsedMs > 2 * tickMs ? tickMs : elapsedMs
    if (remainingMs() > 0) schedule()
    // Node runs timers before it reads from sockets. This runs after it.
    else setImmediate(giveUpOverdue)
  }

  function giveUpOverdue(): void {
    giveUp(waits.filter(({ untilMs }) => untilMs <= countedMs))
    schedule()
  }

  function giveUp(overdue: readonly Wait[]): void {
    for (const wait of overdue) {
      const { onOver } = wait
      wait.onOver = undefined
      onOver?.()
    }
  }

  /** How long the wait that ends first may still last. */
  function remainingMs(): number {
    waits = waits.filter(({ onOver }) => onOver !== undefined)
    let firstMs = Number.POSITIVE_INFINITY
    for (const { untilMs } of waits) firstMs = Math.min(firstMs, untilMs)
    return firstMs - countedMs
  }

  function nowMs(): number {
    return countedMs + Math.min(performance.now() - countedAt, tickMs)
  }

  function schedule(): void {
    const ms = Math.max(1, Math.min(tickMs, remainingMs()))
    isTicking = waits.length > 0
    if (isTicking) setTimeout(tick, ms).unref()
  }

  /** Calls `onOver` once `ms` have passed, unless the wait has ended before. */
  function begin(ms: number, onOver: () => void) {
    if (!isTicking) countedAt = performance.now()
    const sinceMs = nowMs()
    const wait: Wait = { untilMs: sinceMs + ms, onOver }
    waits.push(wait)
    if (!isTicking) schedule()
    return {
      /** How long the wait lasts so far. */
      elapsedMs: () => nowMs() - sinceMs,
      end: () => {
        wait.onOver = undefined
      },
    }
  }

  return {
    begin,

    /** The value of a promise, if it comes within `ms`. Otherwise rejects with `NoAnswer`. */
    within: <T>(ms: number, promise: Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        const onOver = () => reject(new NoAnswer(`no answer within ${ms} ms`))
        const { end } = begin(ms, onOver)
        promise.finally(end).then(resolve, reject)
      }),

    /** Ends all waits now, as if their time was over. */
    giveUpAll: () => giveUp([...waits]),
  }
}

/** `within` of a patience of its own. */
export function withinPatience<T>(ms: number, promise: Promise<T>): Promise<T> {
  return createPatience().within(ms, promise)
}
