export interface PatienceOptions {
  /** How long a call may wait. */
  readonly patienceMs: number
  /** Called when a call has waited too long. */
  readonly onOver: () => void
}

/** Calls that wait for an answer, in the order in which they were made. */
export interface Patience<Call> {
  /** `waitedMs` is taken off its time: how long its caller has waited before. */
  begin(call: Call, waitedMs?: number): Wait<Call>
  /** How long a call has waited, without what its caller had waited before. */
  elapsedMs(wait: Wait<Call>): number
  /** All calls that still wait. None of them does from then on. */
  takeAll(): Call[]
}

/** The wait of one call. Set `isOver` when its answer arrives. */
export interface Wait<Call> {
  readonly call: Call
  /** On the clock of `createPatience`. */
  readonly sinceMs: number
  /** On the same clock: when it has waited too long. */
  readonly untilMs: number
  isOver: boolean
}

/** The longest time between two looks at the calls that wait. */
const TICK_MS = 10

/**
 * Notices when a call waits too long, with one timer for all of them.
 *
 * Time during which this process was busy does not count: if the timer is late, the answer may have come long ago, or the
 * question may not have been sent yet. And as Node runs timers before it reads from sockets, a call is over only if it still
 * waits after the next read.
 */
export function createPatience<Call>({ patienceMs, onOver }: PatienceOptions): Patience<Call> {
  let waits: Wait<Call>[] = []
  let isTicking = false
  // A clock that stops while this process is busy.
  let countedMs = 0
  let countedAt = 0

  function tick(): void {
    const elapsedMs = performance.now() - countedAt
    countedAt += elapsedMs
    countedMs += elapsedMs > 2 * TICK_MS ? TICK_MS : elapsedMs
    forgetAnswered()
    if (remainingMs() > 0) schedule()
    // Runs after the sockets were read.
    else setImmediate(endIfOver)
  }

  function endIfOver(): void {
    forgetAnswered()
    if (remainingMs() <= 0) onOver()
    schedule()
  }

  function forgetAnswered(): void {
    waits = waits.filter(({ isOver }) => !isOver)
  }

  /** How long the call that must be answered first may still wait. */
  function remainingMs(): number {
    let firstMs = Number.POSITIVE_INFINITY
    for (const { untilMs } of waits) firstMs = Math.min(firstMs, untilMs)
    return firstMs - countedMs
  }

  function nowMs(): number {
    return countedMs + Math.min(performance.now() - countedAt, TICK_MS)
  }

  function schedule(): void {
    isTicking = waits.length > 0
    if (isTicking) setTimeout(tick, Math.max(1, Math.min(TICK_MS, remainingMs()))).unref()
  }

  return {
    begin: (call, waitedMs = 0) => {
      if (!isTicking) countedAt = performance.now()
      const sinceMs = nowMs()
      const untilMs = sinceMs + patienceMs - waitedMs
      const wait = { call, sinceMs, untilMs, isOver: false }
      waits.push(wait)
      if (!isTicking) schedule()
      return wait
    },

    elapsedMs: ({ sinceMs }) => nowMs() - sinceMs,

    takeAll: () => {
      const taken = waits.filter(({ isOver }) => !isOver)
      for (const wait of taken) wait.isOver = true
      waits = []
      return taken.map(({ call }) => call)
    },
  }
}

/** The value of a promise, if it comes within `patienceMs`. Otherwise rejects. */
export function withinPatience<T>(patienceMs: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const patience = createPatience<undefined>({
      patienceMs,
      onOver: () => {
        patience.takeAll()
        reject(new Error(`no answer within ${patienceMs} ms`))
      },
    })
    const wait = patience.begin(undefined)
    promise
      .finally(() => {
        wait.isOver = true
      })
      .then(resolve, reject)
  })
}
