import type { Logger } from 'pino'

/** A log line about what a rule or a store does. */
export interface RuleLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  /** Lines of one source are throttled together: usually those of one rule. */
  readonly source: string
  /** The most lines that the source writes within a second. */
  readonly most: number
  /** Given if the line is written only once for a key in its window, which ends in `resetsInMs`. */
  readonly once?: OncePerWindow
}

export interface OncePerWindow {
  readonly key: string
  readonly resetsInMs: number
}

/** Writes lines to the log, of which clients can cause as many as they send requests. */
export interface RuleLines {
  /** Writes a line if it is neither repeated nor throttled. `fieldsOf` is called only for lines that may be written. */
  write(line: RuleLine, fieldsOf: () => object): void
  /** Resolves when all lines are written, or soon if that is not possible. */
  close(): Promise<void>
}

/** How many lines about clients a rule may write within a second. */
export const LINES_A_SECOND = 10

export interface RuleLinesOptions {
  readonly log: Logger
  readonly monotonicNow: () => number
}

/** Lines of a process that serves alone. */
export function createRuleLines({ log, monotonicNow }: RuleLinesOptions): RuleLines {
  const throttle = createLineThrottle(monotonicNow)
  const isFirstInWindow = createOncePerWindow(monotonicNow)
  return {
    write: ({ level, message, source, most, once }, fieldsOf) => {
      if (once !== undefined && !isFirstInWindow(once)) return
      throttle.write(source, most, leftOut => log[level]({ ...fieldsOf(), leftOut }, message))
    },
    close: async () => {},
  }
}

export interface LineThrottle {
  /**
   * Calls `write` at most `most` times in any second for each source. After lines were left out, the next `write` gets their
   * number.
   */
  write(source: string, most: number, write: (leftOut: number | undefined) => void): void
  /** Counts lines as left out. */
  leaveOut(source: string, count: number): void
  /** How long `write` will leave out all lines of a source, in milliseconds; 0 if it would write the next one. */
  closedForMs(source: string, most: number): number
}

export function createLineThrottle(monotonicNow: () => number): LineThrottle {
  const sources = new Map<string, { written: number[]; leftOut: number }>()

  function linesOf(source: string) {
    const known = sources.get(source)
    if (known !== undefined) return known
    const lines = { written: [], leftOut: 0 }
    sources.set(source, lines)
    return lines
  }

  return {
    write: (source, most, write) => {
      const now = monotonicNow()
      const lines = linesOf(source)
      const { written, leftOut } = lines
      if (written.length >= most && now - (written[0] as number) < 1000) {
        lines.leftOut++
        return
      }
      if (written.length >= most) written.shift()
      written.push(now)
      lines.leftOut = 0
      write(leftOut || undefined)
    },

    leaveOut: (source, count) => {
      linesOf(source).leftOut += count
    },

    closedForMs: (source, most) => {
      const { written } = linesOf(source)
      if (written.length < most) return 0
      return Math.max(0, (written[0] as number) + 1000 - monotonicNow())
    },
  }
}

const MAX_ANNOUNCED = 10_000

/** Returns whether a key comes for the first time in its window. Remembers the newest `maxKeys` keys. */
export function createOncePerWindow(monotonicNow: () => number, maxKeys = MAX_ANNOUNCED) {
  const endByKey = new Map<string, number>()
  return ({ key, resetsInMs }: OncePerWindow): boolean => {
    const now = monotonicNow()
    if ((endByKey.get(key) ?? 0) > now) return false
    endByKey.delete(key)
    if (endByKey.size >= maxKeys) {
      const [oldest = ''] = endByKey.keys()
      endByKey.delete(oldest)
    }
    endByKey.set(key, now + resetsInMs)
    return true
  }
}
