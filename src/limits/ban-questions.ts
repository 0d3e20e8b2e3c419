import type { Request } from 'express'
import { ServiceError } from '../errors.ts'
import { askOfAnswer } from './answer-counts.ts'
import type { BanList } from './ban-list.ts'
import type { Count } from './counter-store.ts'
import { type Denial, denyBlocked } from './denial.ts'
import type { Question } from './filter.ts'
import { forgetStrikesSoon } from './forget-strikes.ts'
import { type GuardOptions, guardCounter, guardMatch } from './guarded-rule.ts'
import { retryAfterSeconds } from './limit-headers.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import { type Notice, noticeOf } from './notices.ts'
import type { CompiledBan } from './rules/compiled-rules.ts'
import { type Tallies, tallyPass, tallyRefusal } from './tallies.ts'

export interface BanQuestionOptions extends GuardOptions {
  readonly bans: BanList
  readonly tallies: Tallies
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** Denies all requests of a client whose ban is in force. */
export function checkStandingBan(rule: CompiledBan, options: BanQuestionOptions): Question {
  const { bans } = options
  const { keyOf } = guardCounter('ban', rule, options)
  const name = banName(rule)
  return request => {
    if (bans.isEmpty()) return undefined
    const key = keyOf(request)
    const remainingMs = key === undefined ? undefined : bans.remainingMs(name, key)
    if (key === undefined || remainingMs === undefined) return undefined
    return handleBanned({ rule, request, key, remainingMs }, options)
  }
}

interface BannedRequest {
  readonly rule: CompiledBan
  readonly request: Request
  readonly key: string
  readonly remainingMs: number
}

/** Reports a request of a client whose ban is in force. Returns its denial; `undefined` if the rule is in dry run. */
function handleBanned(banned: BannedRequest, options: BanQuestionOptions): Denial | undefined {
  const { rule, key, remainingMs } = banned
  const { notices, now, tallies } = options
  tallyRefusal(tallies.of(rule), rule)
  const notice = banNotice(banned)
  notices.trace?.({ type: 'ban', rule: rule.name, key, isBanned: true, isDenied: !rule.isDryRun })
  notices.publish(notice)
  notices.mark(notice, { banEndsAt: timeIn(remainingMs, now) })
  return rule.isDryRun ? undefined : denyBanned(remainingMs)
}

/** Bans a client. */
type BanClient = (key: string, notice: Notice) => MaybePromise<void>

function createBanClient(rule: CompiledBan, options: BanQuestionOptions): BanClient {
  const { bans, notices, now } = options
  const { isDryRun, banMs } = rule
  return (key, notice) => {
    const banEndsAt = timeIn(banMs, now)
    const added = bans.add({ rule: banName(rule), clientKey: key, forMs: banMs, isKept: !isDryRun })
    return andThen(added, () => {
      notices.writeLine('warn', notice, 'client banned', { banEndsAt })
      const remainingMs = bans.remainingMs(banName(rule), key) ?? 0
      void forgetStrikesSoon({ rule: rule.name, clientKey: key }, remainingMs, options)
    })
  }
}

/** Counts a matching request as a strike, and bans the client when its strikes reach the limit. */
export function countStrike(rule: CompiledBan, options: BanQuestionOptions): Question {
  const { bans, notices, now, tallies } = options
  const { isDryRun, banMs, deniesStrikes } = rule
  const tally = tallies.of(rule)
  const matches = guardMatch('ban', rule, notices)
  const { keyOf, count } = guardCounter('ban', rule, options)
  const ban = createBanClient(rule, options)
  const name = banName(rule)
  const isDenied = deniesStrikes && !isDryRun

  function decide(
    request: Request,
    key: string | undefined,
    counted: Count | undefined,
  ): MaybePromise<Denial | undefined> {
    const notice = banNotice({ rule, request, key, count: counted?.count })
    // Also if another request has banned the client meanwhile: this one was counted before.
    if (key === undefined || counted === undefined || counted.count < rule.limit) {
      notices.trace?.({ type: 'ban', rule: rule.name, key, count: counted?.count, isDenied })
      tallyStrike(counted)
      return denyStrike(notice)
    }
    const remainingMs = bans.remainingMs(name, key)
    const begun = remainingMs === undefined ? ban(key, notice) : undefined
    return andThen(begun, () => {
      // Another process has banned the client with an earlier strike, even if this one does not know the ban yet.
      if (counted.count > rule.limit) {
        return handleBanned({ rule, request, key, remainingMs: remainingMs ?? banMs }, options)
      }
      notices.trace?.({ type: 'ban', rule: rule.name, key, count: counted.count, isDenied })
      tallyStrike(counted)
      return denyLast(notice)
    })
  }

  function tallyStrike(counted: Count | undefined): void {
    if (deniesStrikes) tallyRefusal(tally, rule)
    if (counted === undefined) return
    tally.counted++
    if (!deniesStrikes) tally.passed++
  }

  function denyStrike(notice: Notice): Denial | undefined {
    if (!deniesStrikes) return undefined
    notices.publish(notice)
    notices.mark(notice)
    return isDryRun ? undefined : denyBlocked
  }

  function denyLast(notice: Notice): Denial | undefined {
    notices.publish(notice)
    if (!deniesStrikes) return undefined
    notices.mark(notice, { banEndsAt: timeIn(banMs, now) })
    return isDryRun ? undefined : denyBanned(banMs)
  }

  return request => {
    if (!matches(request)) return undefined
    const key = keyOf(request)
    // A banned client gets this far only in a dry run. Its ban is not prolonged.
    if (key !== undefined && bans.remainingMs(name, key) !== undefined) return undefined
    return andThen(count(request, key), counted => decide(request, key, counted))
  }
}

/** The same for a rule with `status`: counts once the answer is known, so the ban begins with the next request. */
export function countStrikeByAnswer(
  rule: CompiledBan,
  statuses: ReadonlySet<number>,
  options: BanQuestionOptions,
): Question {
  const { bans, notices, tallies } = options
  const tally = tallies.of(rule)
  const { keyOf, count } = guardCounter('ban', rule, options)
  const ban = createBanClient(rule, options)
  const isBanned = (key: string | undefined) =>
    key !== undefined && bans.remainingMs(banName(rule), key) !== undefined

  function decide(notice: Notice): MaybePromise<void> {
    const { key, count: strikes } = notice
    // Requests that were answered at the same time may have banned the client meanwhile.
    if (isBanned(key)) return
    notices.trace?.({ type: 'ban', rule: rule.name, key, count: strikes })
    if (key === undefined || strikes === undefined) return
    if (strikes < rule.limit) return tallyPass(tally)
    return andThen(ban(key, notice), () => {
      tallyPass(tally)
      notices.publish(notice)
    })
  }

  return askOfAnswer({
    type: 'ban',
    rule,
    statuses,
    notices,
    prepare: request => {
      const key = keyOf(request)
      return () => {
        // It was let in before its ban, or the rule is in dry run. Its ban is not prolonged.
        if (isBanned(key)) return
        return andThen(count(request, key), counted =>
          decide(banNotice({ rule, request, key, count: counted?.count })),
        )
      }
    },
  })
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
