import { channel } from 'node:diagnostics_channel'
import type { Request } from 'express'
import type { Logger } from 'pino'
import { logText } from '../http/log-text.ts'

export type NoticeType = 'safelist' | 'blocklist' | 'ban' | 'throttle' | 'rateLimit' | 'track'

/** What is published of a decision. */
export interface Notice {
  readonly type: NoticeType
  readonly rule: string
  readonly request: Request
  /** What the request was counted by. */
  readonly key?: string | undefined
  readonly count?: number
  readonly limit?: number
  /** Milliseconds. */
  readonly period?: number
  /** Whether the rule only tells what it would have done. */
  readonly dryRun?: true
}

export interface Notices {
  /** Tells whoever listens on the channel. */
  publish(notice: Notice): void
  /** Puts type and rule into the log line of the request. */
  mark(notice: Notice, more?: Readonly<Record<string, unknown>>): void
  /** A line of its own, if the rule has not written too many of late. */
  writeLine(level: 'warn' | 'info', notice: Notice, message: string, more?: object): void
  /** The same, but once for a key until its window ends in `resetsInMs`. */
  writeLineOnce(level: 'warn' | 'info', notice: Notice, message: string, resetsInMs: number): void
  /** Of a function of a rule that threw; the request passes. */
  functionFailed(type: NoticeType, rule: string, error: unknown): void
  /** Of a store that did not count; the request passes. */
  storeFailed(error: unknown): void
}

/** The name of the channel of `node:diagnostics_channel` on which notices are published. */
export const CHANNEL_NAME = 'user-records.limits'

const LINES_A_SECOND = 10

export interface NoticesOptions {
  readonly log: Logger
  readonly monotonicNow: () => number
}

export function createNotices({ log, monotonicNow }: NoticesOptions): Notices {
  const published = channel(CHANNEL_NAME)
  const throttled = createLineThrottle(monotonicNow)

  const announced = createOncePerWindow(monotonicNow)

  function writeLine(level: 'warn' | 'info', notice: Notice, message: string, more?: object) {
    const { type, rule, dryRun, limit, period, request } = notice
    throttled(`${type} ${rule}`, LINES_A_SECOND, leftOut => {
      const client = logText(request.ip)
      log[level]({ type, rule, dryRun, limit, period, client, leftOut, ...more }, message)
    })
  }

  return {
    publish: notice => {
      if (published.hasSubscribers) published.publish(notice)
    },

    mark: ({ type, rule, dryRun, request }, more) => {
      request.logFields = { type, rule, dryRun, ...more }
    },

    writeLine,

    writeLineOnce: (level, notice, message, resetsInMs) => {
      const { type, rule, key } = notice
      if (announced(`${type}\n${rule}\n${key}`, resetsInMs)) writeLine(level, notice, message)
    },

    functionFailed: (type, rule, err) => {
      throttled(`${type} ${rule}`, LINES_A_SECOND, leftOut => {
        log.error({ type, rule, err, leftOut }, 'function of a rule failed, request passes')
      })
    },

    storeFailed: err => {
      throttled('store', 1, leftOut => {
        log.error({ err, leftOut }, 'limits cannot count, requests pass')
      })
    },
  }
}

/** Lets so many lines of a source through in a second; the next one that is let through is told how many were not. */
function createLineThrottle(monotonicNow: () => number) {
  const seconds = new Map<string, { startedAt: number; written: number; leftOut: number }>()
  return (source: string, most: number, write: (leftOut: number | undefined) => void): void => {
    const now = monotonicNow()
    let second = seconds.get(source)
    if (second === undefined || now - second.startedAt >= 1000) {
      second = { startedAt: now, written: 0, leftOut: second?.leftOut ?? 0 }
      seconds.set(source, second)
    }
    if (second.written >= most) {
      second.leftOut++
      return
    }
    second.written++
    write(second.leftOut || undefined)
    second.leftOut = 0
  }
}

const MAX_ANNOUNCED = 10_000

/** Says yes to a key once, and again when the window of that time is over. */
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
