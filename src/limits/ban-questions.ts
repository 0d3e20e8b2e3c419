import type { Request } from 'express'
import { ServiceError } from '../errors.ts'
import type { BanList } from './ban-list.ts'
import { type Denial, denyBlocked } from './denial.ts'
import type { Question } from './filter.ts'
import { forgetStrikes } from './forget-strikes.ts'
import { type GuardOptions, guardCounter, guardMatch } from './guarded-rule.ts'
import { retryAfterSeconds } from './limit-headers.ts'
import { andThen } from './maybe-promise.ts'
import { type Notice, noticeOf } from './notices.ts'
import type { CompiledBan } from './rules/compiled-rules.ts'

export interface BanQuestionOptions extends GuardOptions {
  readonly bans: BanList
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** Denies all requests of a client whose ban is in force. */
export function checkStandingBan(rule: CompiledBan, options: BanQuestionOptions): Question {
  const { bans, notices } = options
  const { keyOf } = guardCounter('ban', rule, options)
  const name = banName(rule)
  return request => {
    if (bans.isEmpty()) return undefined
    const key = keyOf(request)
    const remainingMs = key === undefined ? undefined : bans.remainingMs(name, key)
    if (remainingMs === undefined) return undefined
    const notice = banNotice({ rule, request, key })
    notices.trace?.({ type: 'ban', rule: rule.name, key, isBanned: true, isDenied: !rule.isDryRun })
    notices.publish(notice)
    notices.mark(notice, { banEndsAt: timeIn(remainingMs, options.now) })
    return rule.isDryRun ? undefined : denyBanned(remainingMs)
  }
}

/** Counts a matching request as a strike, and bans the client when its strikes reach the limit. */
export function countStrike(rule: CompiledBan, options: BanQuestionOptions): Question {
  const { bans, notices, now } = options
  const { isDryRun, banMs, deniesStrikes } = rule
  const matches = guardMatch('ban', rule, notices)
  const { keyOf, count } = guardCounter('ban', rule, options)
  const name = banName(rule)

  function ban(key: string, notice: Notice): void {
    bans.add({ rule: name, clientKey: key, forMs: banMs, isKept: !isDryRun })
    notices.writeLine('warn', notice, 'client banned', { banEndsAt: timeIn(banMs, now) })
    void forgetStrikes({ rule: rule.name, clientKey: key }, options)
  }

  return request => {
    if (!matches(request)) return undefined
    const key = keyOf(request)
    // A banned client gets this far only in a dry run. Its ban is not prolonged.
    if (key !== undefined && bans.remainingMs(name, key) !== undefined) return undefined
    return andThen(count(key), counted => {
      const notice = banNotice({ rule, request, key, count: counted?.count })
      const isLast = counted !== undefined && counted.count >= rule.limit
      const isDenied = deniesStrikes && !isDryRun
      notices.trace?.({ type: 'ban', rule: rule.name, key, count: counted?.count, isDenied })
      if (key !== undefined && isLast) ban(key, notice)
      if (isLast || deniesStrikes) notices.publish(notice)
      if (!deniesStrikes) return undefined
      notices.mark(notice, isLast ? { banEndsAt: timeIn(banMs, now) } : {})
      if (isDryRun) return undefined
      return isLast ? denyBanned(banMs) : denyBlocked
    })
  }
}

/**
 * The name under which bans are kept. It differs in a dry run, whose bans must not come into force with the rule.
 * Well-formed, because the database replaces lone surrogates.
 */
function banName({ name, isDryRun }: CompiledBan): string {
  return isDryRun ? `${name} (dry run)` : name.toWellFormed()
}

function denyBanned(remainingMs: number): Denial {
  const headers = { 'Retry-After': String(retryAfterSeconds(remainingMs)) }
  return (_response, next) => next(new ServiceError('blocked', { headers }))
}

function banNotice(decision: {
  readonly rule: CompiledBan
  readonly request: Request
  readonly key: string | undefined
  readonly count?: number | undefined
}): Notice {
  const { rule, request, key, count } = decision
  const counted = { key, count, limit: rule.limit, period: rule.windowMs }
  return noticeOf({ type: 'ban', rule, request, counted })
}

function timeIn(ms: number, now: () => number): string {
  return new Date(now() + ms).toISOString()
}
