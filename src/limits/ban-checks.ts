import type { Request } from 'express'
import { ServiceError } from '../errors.ts'
import { checkAnswer } from './answer-counts.ts'
import type { Ban } from './ban-store.ts'
import type { Count } from './counter-store.ts'
import { type Check, type Denial, denyBlocked } from './filter.ts'
import { guardRule, type RuleParts } from './guard-rule.ts'
import { retryAfterSeconds } from './limit-headers.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import type { Notice } from './notices.ts'
import { ownCopy } from './rules/memoize.ts'
import type { CompiledBan } from './rules/rules-schema.ts'
import { tallyPass, tallyRefusal } from './tallies.ts'

/** Denies all requests of a client whose ban is in force. */
export function checkStandingBan(rule: CompiledBan, parts: RuleParts): Check {
  const ban = openBan(rule, parts)
  return request => {
    if (parts.bans.isEmpty()) return undefined
    const key = ban.keyOf(request)
    const remainingMs = ban.remainingMs(key)
    return remainingMs === undefined ? undefined : ban.refuse(request, key, remainingMs)
  }
}

/**
 * Counts a matching request as a strike: when it comes or, for a rule with `status`, once its answer is known. Counts are exact,
 * so one request alone sees the one that is `maxretry`, and bans the client. A later one bans it if that has not happened.
 */
export function checkStrike(rule: CompiledBan, parts: RuleParts): Check {
  const { notices } = parts
  const { limit, banMs, isDryRun, deniesStrikes, statuses } = rule
  const ban = openBan(rule, parts)
  const { tally, keyOf, count, noticeOf } = ban

  function decide(
    request: Request,
    key: string | undefined,
    counted: Count | undefined,
  ): MaybePromise<Denial | undefined> {
    // The store failed. A request that is not counted has no key.
    if (key !== undefined && counted === undefined) return undefined
    if (counted !== undefined && counted.count > limit) {
      const begun = isUnbanned(key) && ban.begin(noticeOf(request, key, counted.count))
      return andThen(begun, () => ban.refuse(request, key, ban.remainingMs(key) ?? banMs))
    }
    const isLast = counted?.count === limit
    const notice = noticeOf(request, key, counted?.count)
    return andThen(isLast ? ban.begin(notice) : undefined, () => {
      if (counted !== undefined) tally.counted++
      if (deniesStrikes) tallyRefusal(tally, rule)
      else if (counted !== undefined) tally.passed++
      if (isLast || deniesStrikes) notices.publish(notice)
      if (!deniesStrikes) return undefined
      notices.mark(notice, isLast ? { banEndsAt: ban.endsAt(banMs) } : {})
      if (isDryRun) return undefined
      return isLast ? denyBanned(banMs) : denyBlocked
    })
  }

  /** The ban begins with the next request of the client. */
  function countAnswer(
    request: Request,
    key: string | undefined,
    counted: Count | undefined,
  ): MaybePromise<void> {
    if (counted === undefined || counted.count <= limit) {
      return andThen(decide(request, key, counted), () => undefined)
    }
    if (!isUnbanned(key)) return undefined
    const notice = noticeOf(request, key, counted.count)
    return andThen(ban.begin(notice), isFirst => {
      if (!isFirst) return
      tallyPass(tally)
      notices.publish(notice)
    })
  }

  /**
   * Whether a strike beyond the last one must make up for a ban that another process is making, or nobody has made: it was killed
   * at the last strike, or a reload made `maxretry` smaller. Not in a dry run, whose bans other processes never know.
   */
  function isUnbanned(key: string | undefined): boolean {
    return !isDryRun && ban.remainingMs(key) === undefined
  }

  /** A banned client gets this far if it was let in before its ban, or in a dry run. Its ban is not prolonged. */
  function strike<Result>(
    request: Request,
    key: string | undefined,
    use: (request: Request, key: string | undefined, counted: Count | undefined) => Result,
  ) {
    if (ban.remainingMs(key) !== undefined) return undefined
    return andThen(count(request, key), counted => use(request, key, counted))
  }

  if (statuses === undefined) {
    return request => {
      const asked = ban.ask(request)
      return asked && strike(request, asked.key, decide)
    }
  }
  return checkAnswer(ban, statuses, request => {
    const key = keyOf(request)
    return () => strike(request, key, countAnswer)
  })
}

/** What both checks of a rule do with its bans. */
function openBan(rule: CompiledBan, parts: RuleParts) {
  const { bans, notices, now } = parts
  const { isDryRun, banMs } = rule
  const guarded = guardRule(rule, parts)
  // Well-formed, because the database replaces lone surrogates.
  const name = rule.name.toWellFormed()
  const idOf = (clientKey: string) => ({ rule: name, clientKey, isDryRun })
  const endsAt = (remainingMs: number) => new Date(now() + remainingMs).toISOString()
  const remainingMs = (key: string | undefined) =>
    key === undefined ? undefined : bans.remainingMs(idOf(key))

  return {
    ...guarded,
    endsAt,
    /** Milliseconds until the ban of a client ends; `undefined` without one. */
    remainingMs,

    /** Bans the client whose strike a notice is about. False if another process was first. */
    begin: (notice: Notice): MaybePromise<boolean> => {
      const key = ownCopy(notice.key ?? '')
      const banEndsAt = endsAt(banMs)
      return andThen(bans.add({ ...idOf(key), forMs: banMs }), isFirst => {
        if (isFirst) notices.writeLine('warn', notice, 'client banned', { banEndsAt })
        const ban = { rule: rule.name, clientKey: key }
        void forgetStrikesSoon(ban, remainingMs(key) ?? 0, parts)
        return isFirst
      })
    },

    /** Reports a request of a banned client. Returns its denial; `undefined` if the rule is in dry run. */
    refuse: (request: Request, key: string | undefined, remainingMs: number) => {
      tallyRefusal(guarded.tally, rule)
      const notice = guarded.noticeOf(request, key)
      notices.publish(notice)
      notices.mark(notice, { banEndsAt: endsAt(remainingMs) })
      return isDryRun ? undefined : denyBanned(remainingMs)
    },
  }
}

function denyBanned(remainingMs: number): Denial {
  const headers = { 'Retry-After': String(retryAfterSeconds(remainingMs)) }
  return (_response, next) => next(new ServiceError('blocked', { headers }))
}

/** Where strikes are counted. */
export type StrikeOptions = Pick<RuleParts, 'store' | 'notices'>

/** All services on one database obey a ban after two seconds, and a busy one a little later. */
const KNOWN_AFTER_MS = 10_000

/**
 * Resets the count of a client whose ban has just begun, once other services know the ban: until then the count tells them. In
 * any case well before the ban ends. A failure of the store is logged.
 */
export function forgetStrikesSoon(
  ban: Pick<Ban, 'rule' | 'clientKey'>,
  remainingMs: number,
  options: StrikeOptions,
): Promise<void> {
  return forgetStrikes(ban, options, Math.min(KNOWN_AFTER_MS, remainingMs / 2))
}

/** Resets the count of a client whose ban an operator has made or lifted. A failure of the store is logged. */
export async function forgetStrikes(
  { rule, clientKey: key }: Pick<Ban, 'rule' | 'clientKey'>,
  { store, notices }: StrikeOptions,
  inMs = 0,
): Promise<void> {
  try {
    await store?.reset({ type: 'ban', rule, key }, inMs)
  } catch (error) {
    notices.storeFailed(error)
  }
}
