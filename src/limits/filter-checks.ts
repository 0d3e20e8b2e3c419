import type { Request } from 'express'
import { checkAnswer } from './answer-counts.ts'
import { type BanCheckOptions, checkStandingBan, checkStrike } from './ban-checks.ts'
import { compileDenyOverLimit } from './deny-over-limit.ts'
import { type Check, denyBlocked } from './filter.ts'
import { type GuardedRule, type GuardOptions, guardRule } from './guard-rule.ts'
import type { AddLimitHeaders } from './limit-headers.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import type { Notices } from './notices.ts'
import { factsOf } from './rules/request-facts.ts'
import type {
  CheckedLimits,
  CompiledFilterRule,
  CompiledThrottle,
  CompiledTrack,
} from './rules/rules-schema.ts'
import { tallyPass, tallyRefusal } from './tallies.ts'

export interface CheckOptions extends BanCheckOptions {
  readonly addLimitHeaders: AddLimitHeaders
}

/** The checks of all rules, in the order in which they are asked about every request. */
export function compileChecks(rules: CheckedLimits, options: CheckOptions): readonly Check[] {
  return [
    ...rules.safelist.map(rule => checkSafelist(rule, options)),
    ...rules.blocklist.map(rule => checkBlocklist(rule, options)),
    ...rules.bans.map(rule => checkStandingBan(rule, options)),
    ...rules.bans.map(rule => checkStrike(rule, options)),
    ...rules.throttle.map(rule => checkThrottle(rule, options)),
    ...rules.track.map(rule => checkTrack(rule, options)),
  ]
}

function checkSafelist(rule: CompiledFilterRule, options: GuardOptions): Check {
  const { tally, matches, noticeOf } = guardRule('safelist', rule, options)
  return request => {
    if (!matches(request)) return undefined
    factsOf(request).isSafe = true
    tallyPass(tally)
    options.notices.publish(noticeOf(request))
    return 'pass'
  }
}

function checkBlocklist(rule: CompiledFilterRule, options: GuardOptions): Check {
  const { notices } = options
  const { tally, matches, noticeOf } = guardRule('blocklist', rule, options)
  return request => {
    if (!matches(request)) return undefined
    tally.counted++
    tallyRefusal(tally, rule)
    const notice = noticeOf(request)
    notices.publish(notice)
    notices.mark(notice)
    return rule.isDryRun ? undefined : denyBlocked
  }
}

function checkThrottle(rule: CompiledThrottle, options: CheckOptions): Check {
  const { notices, addLimitHeaders } = options
  const { name, limit, windowMs } = rule
  const { tally, matches, keyOf, count } = guardRule('throttle', rule, options)
  const denyOverLimit = compileDenyOverLimit('throttle', rule, { notices, tally })
  return request => {
    if (!matches(request)) return undefined
    const key = keyOf(request)
    return andThen(count(request, key), counted => {
      if (key === undefined || counted === undefined) return undefined
      const { count: used, resetsInMs } = counted
      if (used <= limit) {
        tallyPass(tally)
        return undefined
      }
      const state = { key, limit, windowMs, count: used, resetsInMs }
      const denial = denyOverLimit(request, state)
      if (denial !== undefined) addLimitHeaders(request, name, state)
      return denial
    })
  }
}

function checkTrack(rule: CompiledTrack, options: GuardOptions): Check {
  const guarded = guardRule('track', rule, options)
  const prepare =
    'limit' in rule
      ? countTrack(rule.limit, guarded, options.notices)
      : notifyTrack(guarded, options.notices)
  if (rule.statuses !== undefined) return checkAnswer(guarded, rule.statuses, prepare)
  return request =>
    guarded.matches(request) ? andThen(prepare(request)(), () => undefined) : undefined
}

/** What a track does with a request that matches, in two steps: before it is answered, and when it counts. */
type Track = (request: Request) => () => MaybePromise<void>

function notifyTrack({ tally, noticeOf }: GuardedRule, notices: Notices): Track {
  return request => () => {
    tallyPass(tally)
    const notice = noticeOf(request)
    notices.publish(notice)
    notices.writeLine('info', notice, 'request tracked')
  }
}

function countTrack(limit: number, guarded: GuardedRule, notices: Notices): Track {
  const { tally, keyOf, count, noticeOf } = guarded
  return request => {
    const key = keyOf(request)
    return () =>
      andThen(count(request, key), counted => {
        if (counted === undefined) return
        tallyPass(tally)
        if (counted.count <= limit) return
        const notice = noticeOf(request, key, counted.count)
        notices.publish(notice)
        if (counted.count === limit + 1) notices.writeLine('info', notice, 'request tracked')
      })
  }
}
