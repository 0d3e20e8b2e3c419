import type { Request } from 'express'
import { checkAnswer } from './answer-counts.ts'
import { checkStandingBan, checkStrike } from './ban-checks.ts'
import { compileDenyOverLimit } from './deny-over-limit.ts'
import { type Check, denyBlocked } from './filter.ts'
import { type GuardedRule, guardRule, type RuleParts } from './guard-rule.ts'
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

/** The checks of all rules, in the order in which they are asked about every request. */
export function compileChecks(rules: CheckedLimits, parts: RuleParts): readonly Check[] {
  return [
    ...rules.safelist.map(rule => checkSafelist(rule, parts)),
    ...rules.blocklist.map(rule => checkBlocklist(rule, parts)),
    ...rules.bans.map(rule => checkStandingBan(rule, parts)),
    ...rules.bans.map(rule => checkStrike(rule, parts)),
    ...rules.throttle.map(rule => checkThrottle(rule, parts)),
    ...rules.track.map(rule => checkTrack(rule, parts)),
  ]
}

function checkSafelist(rule: CompiledFilterRule, parts: RuleParts): Check {
  const { tally, matches, noticeOf } = guardRule(rule, parts)
  return request => {
    if (!matches(request)) return undefined
    factsOf(request).isSafe = true
    tallyPass(tally)
    parts.notices.publish(noticeOf(request))
    return 'pass'
  }
}

function checkBlocklist(rule: CompiledFilterRule, parts: RuleParts): Check {
  const { notices } = parts
  const { tally, matches, noticeOf } = guardRule(rule, parts)
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

function checkThrottle(rule: CompiledThrottle, parts: RuleParts): Check {
  const { name, limit, windowMs } = rule
  const { tally, matches, keyOf, count } = guardRule(rule, parts)
  const denyOverLimit = compileDenyOverLimit(rule, parts)
  return request => {
    if (!matches(request)) return undefined
    const key = keyOf(request)
    return andThen(count(request, key), counted => {
      if (key === undefined || counted === undefined) return undefined
      if (counted.count <= limit) {
        tallyPass(tally)
        return undefined
      }
      const state = { request, key, limit, windowMs, ...counted }
      const denial = denyOverLimit(state)
      if (denial !== undefined) parts.addLimitHeaders(name, state)
      return denial
    })
  }
}

function checkTrack(rule: CompiledTrack, parts: RuleParts): Check {
  const guarded = guardRule(rule, parts)
  const prepare =
    'limit' in rule
      ? countTrack(rule.limit, guarded, parts.notices)
      : notifyTrack(guarded, parts.notices)
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
