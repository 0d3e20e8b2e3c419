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
}

/** How many lines about clients a rule may write within a second. */
export const LINES_A_SECOND = 10

export interface RuleLinesOptions {
  readonly log: Logger
  readonly monotonicNow: () => number
}

export function createRuleLines({ log, monotonicNow }: RuleLinesOptions): RuleLines {
  const countLeftOut = createLineThrottle(monotonicNow)
  const isFirstInWindow = createOncePerWindow(monotonicNow)
  return {
    write: ({ level, message, source, most, once }, fieldsOf) => {
      if (once !== undefined && !isFirstInWindow(once)) return
      const leftOut = countLeftOut(source, most)
      if (leftOut === undefined) return
      log[level]({ ...fieldsOf(), leftOut: leftOut || undefined }, message)
    },
  }
}

/**
 * Lets a source write at most `most` lines in any second. Returns how many lines were left out since the last one, or
 * `undefined` if this one is to be left out too.
 */
function createLineThrottle(monotonicNow: () => number) {
  const sources = new Map<string, { written: number[]; leftOut: number }>()
  return (source: string, most: number): number | undefined => {
    const now = monotonicNow()
    const lines = sources.get(source) ?? { written: [], leftOut: 0 }
    sources.set(source, lines)
    const { written, leftOut } = lines
    if (written.length >= most && now - (written[0] as number) < 1000) {
      lines.leftOut++
      return undefined
    }
    if (written.length >= most) written.shift()
    written.push(now)
    lines.leftOut = 0
    return leftOut
  }
}

/** How many keys are remembered; beyond that, the oldest is forgotten. */
const MAX_ANNOUNCED = 10_000

/** Returns whether a key comes for the first time in its window. */
function createOncePerWindow(monotonicNow: () => number) {
  const endByKey = new Map<string, number>()
  return ({ key, resetsInMs }: OncePerWindow): boolean => {
    const now = monotonicNow()
    if ((endByKey.get(key) ?? 0) > now) return false
    endByKey.delete(key)
    if (endByKey.size >= MAX_ANNOUNCED) {
      const [oldest = ''] = endByKey.keys()
      endByKey.delete(oldest)
    }
    endByKey.set(key, now + resetsInMs)
    return true
  }
}

/** Logs a host that ALLOWED_HOSTS refuses: once, and at most `LINES_A_SECOND` of all hosts. */
export function writeRefusedHost(host: string, lines: RuleLines): void {
  const once = { key: host, resetsInMs: Number.MAX_SAFE_INTEGER }
  const throttled = { source: 'refused hosts', most: LINES_A_SECOND, once }
  const message = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  lines.write({ level: 'warn', message, ...throttled }, () => ({ setting: 'ALLOWED_HOSTS', host }))
}
