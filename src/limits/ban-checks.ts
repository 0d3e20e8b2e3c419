import type { Request } from 'express'
import { ServiceError } from '../errors.ts'
import { checkAnswer } from './answer-counts.ts'
import type { BanList } from './ban-list.ts'
import type { Ban } from './ban-store.ts'
import type { Count } from './counter-store.ts'
import { type Check, type Denial, denyBlocked } from './filter.ts'
import { type GuardOptions, guardCounter, guardMatch } from './guarded-rule.ts'
import { retryAfterSeconds } from './limit-headers.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import { type Notice, noticeOf } from './notices.ts'
import type { CompiledBan } from './rules/rules-schema.ts'
import { type Tallies, tallyPass, tallyRefusal } from './tallies.ts'

export interface BanCheckOptions extends GuardOptions {
  readonly bans: BanList
  readonly tallies: Tallies
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** Denies all requests of a client whose ban is in force. */
export function checkStandingBan(rule: CompiledBan, options: BanCheckOptions): Check {
  const { keyOf } = guardCounter('ban', rule, options)
  return request => {
    if (options.bans.isEmpty()) return undefined
    const key = keyOf(request)
    const remainingMs = remainingOf(rule, key, options)
    if (remainingMs === undefined) return undefined
    return handleBanned({ rule, request, key, remainingMs }, options)
  }
}

/**
 * Counts a matching request as a strike. Counts are exact, so one request alone sees the one that is `maxretry`, and bans the
 * client.
 */
export function countStrike(rule: CompiledBan, options: BanCheckOptions): Check {
  const { notices, now, tallies } = options
  const { isDryRun, banMs, deniesStrikes, limit } = rule
  const tally = tallies.of(rule)
  const matches = guardMatch('ban', rule, notices)
  const { keyOf, count } = guardCounter('ban', rule, options)
  const ban = createBanClient(rule, options)

  function decide(
    request: Request,
    key: string | undefined,
    counted: Count | undefined,
  ): MaybePromise<Denial | undefined> {
    // An earlier strike has banned the client, perhaps in another process, and this one was counted before that was known.
    if (counted !== undefined && counted.count > limit) {
      const remainingMs = remainingOf(rule, key, options) ?? banMs
      return handleBanned({ rule, request, key, remainingMs }, options)
    }
    const isLast = counted?.count === limit
    const notice = banNotice({ rule, request, key, count: counted?.count })
    return andThen(isLast ? ban(notice) : undefined, () => {
      const { count } = notice
      notices.trace?.({
        type: 'ban',
        rule: rule.name,
        key,
        count,
        isDenied: deniesStrikes && !isDryRun,
      })
      if (counted !== undefined) tally.counted++
      if (deniesStrikes) tallyRefusal(tally, rule)
      else if (counted !== undefined) tally.passed++
      if (isLast || deniesStrikes) notices.publish(notice)
      if (!deniesStrikes) return undefined
      notices.mark(notice, isLast ? { banEndsAt: timeIn(banMs, now) } : {})
      if (isDryRun) return undefined
      return isLast ? denyBanned(banMs) : denyBlocked
    })
  }

  return request => {
    if (!matches(request)) return undefined
    const key = keyOf(request)
    // A banned client gets this far only in a dry run. Its ban is not prolonged.
    if (remainingOf(rule, key, options) !== undefined) return undefined
    return andThen(count(request, key), counted => decide(request, key, counted))
  }
}

/** The same for a rule with `status`: counts once the answer is known, so the ban begins with the next request. */
export function countStrikeByAnswer(
  rule: CompiledBan,
  statuses: ReadonlySet<number>,
  options: BanCheckOptions,
): Check {
  const { bans, notices, tallies } = options
  const tally = tallies.of(rule)
  const { keyOf, count } = guardCounter('ban', rule, options)
  const ban = createBanClient(rule, options)

  function decide(notice: Notice): MaybePromise<void> {
    const { key, count: strikes } = notice
    // An earlier strike has banned the client, perhaps in another process.
    if (strikes !== undefined && strikes > rule.limit) {
      return remainingOf(rule, key, options) === undefined ? bans.catchUp() : undefined
    }
    notices.trace?.({ type: 'ban', rule: rule.name, key, count: strikes })
    if (strikes === undefined) return
    tallyPass(tally)
    if (strikes === rule.limit) return andThen(ban(notice), () => notices.publish(notice))
  }

  return checkAnswer({
    type: 'ban',
    rule,
    statuses,
    notices,
    prepare: request => {
      const key = keyOf(request)
      return () => {
        // It was let in before its ban, or the rule is in dry run. Its ban is not prolonged.
        if (remainingOf(rule, key, options) !== undefined) return
        return andThen(count(request, key), counted =>
          decide(banNotice({ rule, request, key, count: counted?.count })),
        )
      }
    },
  })
}

interface BannedRequest {
  readonly rule: CompiledBan
  readonly request: Request
  readonly key: string | undefined
  readonly remainingMs: number
}

/** Reports a request of a client whose ban is in force. Returns its denial; `undefined` if the rule is in dry run. */
function handleBanned(banned: BannedRequest, options: BanCheckOptions): Denial | undefined {
  const { rule, key, remainingMs } = banned
  const { notices, now, tallies } = options
  tallyRefusal(tallies.of(rule), rule)
  const notice = banNotice(banned)
  notices.trace?.({ type: 'ban', rule: rule.name, key, isBanned: true, isDenied: !rule.isDryRun })
  notices.publish(notice)
  notices.mark(notice, { banEndsAt: timeIn(remainingMs, now) })
  return rule.isDryRun ? undefined : denyBanned(remainingMs)
}

/** Bans the client whose last strike a notice is about. */
function createBanClient(rule: CompiledBan, options: BanCheckOptions) {
  const { bans, notices, now } = options
  const { banMs: forMs } = rule
  return (notice: Notice): MaybePromise<void> => {
    const { key = '' } = notice
    const banEndsAt = timeIn(forMs, now)
    return andThen(bans.add({ ...idOf(rule, key), forMs }), () => {
      notices.writeLine('warn', notice, 'client banned', { banEndsAt })
      const ban = { rule: rule.name, clientKey: key }
      void forgetStrikesSoon(ban, remainingOf(rule, key, options) ?? 0, options)
    })
  }
}

/** Milliseconds until the ban of a client by a rule ends; `undefined` without one. */
function remainingOf(
  rule: CompiledBan,
  key: string | undefined,
  { bans }: BanCheckOptions,
): number | undefined {
  return key === undefined ? undefined : bans.remainingMs(idOf(rule, key))
}

/** Well-formed, because the database replaces lone surrogates. */
function idOf({ name, isDryRun }: CompiledBan, clientKey: string) {
  return { rule: name.toWellFormed(), clientKey, isDryRun }
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

/** All services on one database obey a ban after two seconds, and a busy one a little later. */
const KNOWN_AFTER_MS = 10_000

/**
 * Resets the count of a client whose ban has just begun, once other services know the ban: until then the count tells them. In
 * any case well before the ban ends. A failure of the store is logged.
 */
export function forgetStrikesSoon(
  ban: Pick<Ban, 'rule' | 'clientKey'>,
  remainingMs: number,
  options: GuardOptions,
): Promise<void> {
  return forgetStrikes(ban, options, Math.min(KNOWN_AFTER_MS, remainingMs / 2))
}

/** Resets the count of a client whose ban an operator has made or lifted. A failure of the store is logged. */
export async function forgetStrikes(
  { rule, clientKey: key }: Pick<Ban, 'rule' | 'clientKey'>,
  { store, notices }: GuardOptions,
  inMs = 0,
): Promise<void> {
  try {
    await store?.reset({ type: 'ban', rule, key }, inMs)
  } catch (error) {
    notices.storeFailed(error)
  }
}
