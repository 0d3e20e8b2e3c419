import type { Logger } from 'pino'
import { ownCopy } from '../platform/memoize.ts'

/** A log line that clients can cause. */
export interface ThrottledLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  /** Lines of one source are throttled together: usually those of one rule. */
  readonly source: string
  /** The most lines that the source writes within a second; `LINES_A_SECOND` if left out. */
  readonly most?: number
}

/** How many lines a source may write within a second. */
const LINES_A_SECOND = 10

export interface ThrottledLogOptions {
  readonly log: Logger
  readonly monotonicNow: () => number
}

/**
 * For lines of which clients can cause as many as they send requests. Returns a function that writes one and returns true, unless
 * it is throttled; the next one says how many were left out.
 */
export function createThrottledLog({ log, monotonicNow }: ThrottledLogOptions) {
  const sources = new Map<string, { readonly written: number[]; leftOut: number }>()
  return (line: ThrottledLine, fields: object): boolean => {
    const { level, message, source, most = LINES_A_SECOND } = line
    const now = monotonicNow()
    const lines = sources.get(source) ?? { written: [], leftOut: 0 }
    sources.set(source, lines)
    const { written, leftOut } = lines
    if (written.length >= most && now - (written[0] as number) < 1000) {
      lines.leftOut++
      return false
    }
    if (written.length >= most) written.shift()
    written.push(now)
    lines.leftOut = 0
    log[level]({ ...fields, leftOut: leftOut || undefined }, message)
    return true
  }
}

/** How many refused hosts are remembered. */
const MAX_HOSTS = 10_000

/** Logs hosts that ALLOWED_HOSTS refuses, cut by `logText`: each once, and at most `LINES_A_SECOND` of all hosts. */
export function createHostLog(options: ThrottledLogOptions): (refusedHost: string) => void {
  const write = createThrottledLog(options)
  const line = {
    level: 'warn',
    message: 'a request asked for a host that ALLOWED_HOSTS does not allow',
    source: 'refused hosts',
  } as const
  const known = new Set<string>()
  return host => {
    if (known.has(host) || !write(line, { setting: 'ALLOWED_HOSTS', host })) return
    if (known.size >= MAX_HOSTS) known.clear()
    known.add(ownCopy(host))
  }
}
