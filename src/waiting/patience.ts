/** Why a wait ended without an answer. */
export class NoAnswer extends Error {}

/**
 * Timeouts whose clock stops while this process is busy: when a timer is late, the answer may have come long ago, or the
 * question may not have been sent yet.
 *
 * One timer serves all waits. It ticks at least every `tickMs`, and a much longer gap between two ticks counts as `tickMs`.
 */
export function createPatience({ tickMs = 10 } = {}) {
  const waits = new Set<{ readonly untilMs: number; readonly onOver: () => void }>()
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
    else setImmediate(endOverdue)
  }

  function endOverdue(): void {
    for (const wait of waits) {
      if (wait.untilMs <= countedMs && waits.delete(wait)) wait.onOver()
    }
    schedule()
  }

  /** How long the wait that ends first may still last. */
  function remainingMs(): number {
    let firstMs = Number.POSITIVE_INFINITY
    for (const { untilMs } of waits) firstMs = Math.min(firstMs, untilMs)
    return firstMs - countedMs
  }

  function nowMs(): number {
    return countedMs + Math.min(performance.now() - countedAt, tickMs)
  }

  function schedule(): void {
    isTicking = waits.size > 0
    if (isTicking) setTimeout(tick, Math.max(1, Math.min(tickMs, remainingMs()))).unref()
  }

  return {
    /** Calls `onOver` once `ms` have passed, unless the wait has ended before. */
    begin: (ms: number, onOver: () => void) => {
      if (!isTicking) countedAt = performance.now()
      const sinceMs = nowMs()
      const wait = { untilMs: sinceMs + ms, onOver }
      waits.add(wait)
      if (!isTicking) schedule()
      return {
        /** How long the wait lasts so far. */
        elapsedMs: () => nowMs() - sinceMs,
        end: () => void waits.delete(wait),
      }
    },
  }
}

/** The value of a promise, if it comes within `ms`. Otherwise rejects with `NoAnswer`. */
export function withinPatience<T>(ms: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onOver = () => reject(new NoAnswer(`no answer within ${ms} ms`))
    const { end } = createPatience().begin(ms, onOver)
    promise.finally(end).then(resolve, reject)
  })
}
