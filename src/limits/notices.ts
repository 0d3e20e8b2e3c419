import { channel } from 'node:diagnostics_channel'
import type { Request } from 'express'
import { logText } from '../http/request-log.ts'
import type { LimitsTrace } from './limits-trace.ts'
import { LINES_A_SECOND, type OncePerWindow, type RuleLines } from './rule-lines.ts'
import { factsOf } from './rules/request-facts.ts'

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

export interface NoticesOptions {
  readonly lines: RuleLines
  readonly trace?: LimitsTrace | undefined
}

export function createNotices({ lines, trace }: NoticesOptions): Notices {
  const published = channel(CHANNEL_NAME)

  function writeLine({ level, notice, message, more, once }: NoticeLine): void {
    const { type, rule, dryRun, limit, period, request } = notice
    const line = { level, message, source: `${type} ${rule}`, most: LINES_A_SECOND }
    lines.write(once === undefined ? line : { ...line, once }, () => {
      const client = logText(factsOf(request).ip)
      return { type, rule, dryRun, limit, period, client, ...more }
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

    writeLine: (level, notice, message, more) => writeLine({ level, notice, message, more }),

    writeLineOnce: (level, notice, message, resetsInMs) => {
      const { type, rule, key } = notice
      const once = { key: `${type}\n${rule}\n${key}`, resetsInMs }
      writeLine({ level, notice, message, once })
    },

    functionFailed: (type, rule, err) => {
      trace?.({ type, rule, failure: err })
      const message = 'rule function failed, request allowed'
      const source = `${type} ${rule}`
      lines.write({ level: 'error', message, source, most: LINES_A_SECOND }, () => {
        return { type, rule, err }
      })
    },

    storeFailed: err => {
      const message = 'counter store failed, requests allowed'
      lines.write({ level: 'error', message, source: 'store', most: 1 }, () => ({ err }))
    },
  }
}

interface NoticeLine {
  readonly level: 'warn' | 'info'
  readonly notice: Notice
  readonly message: string
  readonly more?: object | undefined
  readonly once?: OncePerWindow
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
