import { channel } from 'node:diagnostics_channel'
import type { Request } from 'express'
import type { Logger } from 'pino'
import { logText } from '../http/log-text.ts'
import type { LimitsTrace } from './limits-trace.ts'

export type NoticeType = 'safelist' | 'blocklist' | 'ban' | 'throttle' | 'rateLimit' | 'track'

/** A decision of a rule about a request, as it is published. */
export interface Notice {
  readonly type: NoticeType
  readonly rule: string
  readonly request: Request
  /** What the request was counted by. */
  readonly key?: string | undefined
  readonly count?: number | undefined
  readonly limit?: number | undefined
  /** Milliseconds. */
  readonly period?: number | undefined
  /** Whether the rule only reports what it would have done. */
  readonly dryRun?: true
}

export interface Notices {
  /** Publishes a decision on the channel. */
  publish(notice: Notice): void
  /** Adds type and rule to the request's own log line. */
  mark(notice: Notice, more?: Readonly<Record<string, unknown>>): void
  /** Writes a log line about a decision, unless the rule has written `LINES_A_SECOND` within the last second. */
  writeLine(level: 'warn' | 'info', notice: Notice, message: string, more?: object): void
  /** Does the same, but only once for a key in its window, which ends in `resetsInMs`. */
  writeLineOnce(level: 'warn' | 'info', notice: Notice, message: string, resetsInMs: number): void
  /** Logs that a function of a rule threw; the request passes. */
  functionFailed(type: NoticeType, rule: string, error: unknown): void
  /** Logs that the store could not count; the request passes. */
  storeFailed(error: unknown): void
  /** Set only while rules are tried: `limits test` shows what each of them did. */
  readonly trace: LimitsTrace | undefined
}

/** The name of the channel of `node:diagnostics_channel` on which notices are published. */
export const CHANNEL_NAME = 'user-records.limits'

/** How many lines about clients a rule may write within a second. */
export const LINES_A_SECOND = 10

export interface NoticesOptions {
  readonly log: Logger
  readonly monotonicNow: () => number
  readonly trace?: LimitsTrace | undefined
}

export function createNotices({ log, monotonicNow, trace }: NoticesOptions): Notices {
  const published = channel(CHANNEL_NAME)
  const limitLines = createLineThrottle(monotonicNow)
  const isFirstInWindow = createOncePerWindow(monotonicNow)

  function writeLine(level: 'warn' | 'info', notice: Notice, message: string, more?: object) {
    const { type, rule, dryRun, limit, period, request } = notice
    limitLines(`${type} ${rule}`, LINES_A_SECOND, leftOut => {
      const client = logText(request.ip)
      log[level]({ type, rule, dryRun, limit, period, client, leftOut, ...more }, message)
    })
  }

  return {
    trace,

    publish: notice => {
      if (published.hasSubscribers) published.publish(notice)
    },

    mark: ({ type, rule, dryRun, request }, more) => {
      request.logFields = { type, rule, dryRun, ...more }
    },

    writeLine,

    writeLineOnce: (level, notice, message, resetsInMs) => {
      const { type, rule, key } = notice
      if (isFirstInWindow(`${type}\n${rule}\n${key}`, resetsInMs)) writeLine(level, notice, message)
    },

    functionFailed: (type, rule, err) => {
      trace?.({ type, rule, failure: err })
      limitLines(`${type} ${rule}`, LINES_A_SECOND, leftOut => {
        log.error({ type, rule, err, leftOut }, 'rule function failed, request allowed')
      })
    },

    storeFailed: err => {
      limitLines('store', 1, leftOut => {
        log.error({ err, leftOut }, 'counter store failed, requests allowed')
      })
    },
  }
}

/** The notice of a rule's decision; `counted` is given where the rule counts. */
export function noticeOf(
  decision: Pick<Notice, 'type' | 'request'> & {
    readonly rule: { readonly name: string; readonly isDryRun: boolean }
    readonly counted?: Pick<Notice, 'key' | 'count' | 'limit' | 'period'>
  },
): Notice {
  const { type, request, rule, counted } = decision
  // Key by key: this is done for each request that is denied, and a spread takes a microsecond.
  const notice =
    counted === undefined
      ? { type, rule: rule.name, request, key: undefined }
      : {
          type,
          rule: rule.name,
          request,
          key: counted.key,
          count: counted.count,
          limit: counted.limit,
          period: counted.period,
        }
  return rule.isDryRun ? { ...notice, dryRun: true } : notice
}

/**
 * Calls `write` at most `most` times in any second for each source. After calls were left out, the next `write` gets their
 * number.
 */
export function createLineThrottle(monotonicNow: () => number) {
  const sources = new Map<string, { written: number[]; leftOut: number }>()
  return (source: string, most: number, write: (leftOut: number | undefined) => void): void => {
    const now = monotonicNow()
    const lines = sources.get(source) ?? { written: [], leftOut: 0 }
    sources.set(source, lines)
    const { written, leftOut } = lines
    if (written.length >= most && now - (written[0] as number) < 1000) {
      lines.leftOut++
      return
    }
    if (written.length >= most) written.shift()
    written.push(now)
    lines.leftOut = 0
    write(leftOut || undefined)
  }
}

const MAX_ANNOUNCED = 10_000

/**
 * Returns whether a key comes for the first time in its window, which ends in `resetsInMs`. Remembers the newest
 * `MAX_ANNOUNCED` keys.
 */
function createOncePerWindow(monotonicNow: () => number) {
  const endByKey = new Map<string, number>()
  return (key: string, resetsInMs: number): boolean => {
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
