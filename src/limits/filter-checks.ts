import type { Request } from 'express'
import { checkAnswer } from './answer-counts.ts'
import {
  type BanCheckOptions,
  checkStandingBan,
  countStrike,
  countStrikeByAnswer,
} from './ban-checks.ts'
import { compileDenyOverLimit } from './deny-over-limit.ts'
import { type Check, denyBlocked } from './filter.ts'
import { guardCounter, guardMatch } from './guarded-rule.ts'
import type { AddLimitHeaders } from './limit-headers.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import { noticeOf } from './notices.ts'
import { factsOf } from './rules/request-facts.ts'
import type {
  CheckedLimits,
  CompiledCounter,
  CompiledFilterRule,
  CompiledThrottle,
  CompiledTrack,
} from './rules/rules-schema.ts'
import { type Tally, tallyPass, tallyRefusal } from './tallies.ts'

export interface CheckOptions extends BanCheckOptions {
  readonly addLimitHeaders: AddLimitHeaders
}

/** The checks of all rules, in the order in which they are asked about every request. */
export function compileChecks(rules: CheckedLimits, options: CheckOptions): readonly Check[] {
  return [
    ...rules.safelist.map(rule => checkSafelist(rule, options)),
    ...rules.blocklist.map(rule => checkBlocklist(rule, options)),
    ...rules.bans.map(rule => checkStandingBan(rule, options)),
    ...rules.bans.map(rule =>
      rule.statuses === undefined
        ? countStrike(rule, options)
        : countStrikeByAnswer(rule, rule.statuses, options),
    ),
    ...rules.throttle.map(rule => checkThrottle(rule, options)),
    ...rules.track.map(rule => checkTrack(rule, options)),
  ]
}

function checkSafelist(rule: CompiledFilterRule, { notices, tallies }: CheckOptions): Check {
  const tally = tallies.of(rule)
  const matches = guardMatch('safelist', rule, notices)
  return request => {
    if (!matches(request)) return undefined
    factsOf(request).isSafe = true
    tallyPass(tally)
    notices.trace?.({ type: 'safelist', rule: rule.name })
    notices.publish(noticeOf({ type: 'safelist', rule, request }))
    return 'pass'
  }
}

function checkBlocklist(rule: CompiledFilterRule, { notices, tallies }: CheckOptions): Check {
  const tally = tallies.of(rule)
  const matches = guardMatch('blocklist', rule, notices)
  return request => {
    if (!matches(request)) return undefined
    tally.counted++
    tallyRefusal(tally, rule)
    const notice = noticeOf({ type: 'blocklist', rule, request })
    notices.trace?.({ type: 'blocklist', rule: rule.name, isDenied: !rule.isDryRun })
    notices.publish(notice)
    notices.mark(notice)
    return rule.isDryRun ? undefined : denyBlocked
  }
}

function checkThrottle(rule: CompiledThrottle, options: CheckOptions): Check {
  const { notices, addLimitHeaders, tallies } = options
  const { name, limit, windowMs } = rule
  const tally = tallies.of(rule)
  const matches = guardMatch('throttle', rule, notices)
  const { keyOf, count } = guardCounter('throttle', rule, options)
  const denyOverLimit = compileDenyOverLimit('throttle', rule, { notices, tally })
  return request => {
    if (!matches(request)) return undefined
    const key = keyOf(request)
    return andThen(count(request, key), counted => {
      notices.trace?.({ type: 'throttle', rule: name, key, count: counted?.count })
      if (key === undefined || counted === undefined) return undefined
      if (counted.count <= limit) {
        tallyPass(tally)
        return undefined
      }
      const { count: used, resetsInMs } = counted
      const state = { key, limit, windowMs, count: used, resetsInMs }
      const denial = denyOverLimit(request, state)
      if (denial !== undefined) addLimitHeaders(request, name, state)
      return denial
    })
  }
}

function checkTrack(rule: CompiledTrack, options: CheckOptions): Check {
  const { notices } = options
  const { statuses } = rule
  const trackOptions = { ...options, tally: options.tallies.of(rule) }
  const prepare = 'limit' in rule ? countTrack(rule, trackOptions) : notifyTrack(rule, trackOptions)
  if (statuses !== undefined)
    return checkAnswer({ type: 'track', rule, statuses, notices, prepare })
  const matches = guardMatch('track', rule, notices)
  return request => {
    if (!matches(request)) return undefined
    return andThen(prepare(request)(), () => undefined)
  }
}

interface TrackOptions extends CheckOptions {
  readonly tally: Tally
}

/** What a track does with a request that matches, in two steps: before it is answered, and when it counts. */
type Track = (request: Request) => () => MaybePromise<void>

function notifyTrack(rule: CompiledFilterRule, { notices, tally }: TrackOptions): Track {
  return request => () => {
    tallyPass(tally)
    const notice = noticeOf({ type: 'track', rule, request })
    notices.trace?.({ type: 'track', rule: rule.name })
    notices.publish(notice)
    notices.writeLine('info', notice, 'request tracked')
  }
}

function countTrack(rule: CompiledCounter, options: TrackOptions): Track {
  const { notices, tally } = options
  const { name, limit, windowMs: period } = rule
  const { keyOf, count } = guardCounter('track', rule, options)
  return request => {
    const key = keyOf(request)
    return () =>
      andThen(count(request, key), counted => {
        if (counted !== undefined) tallyPass(tally)
        const isOver = counted !== undefined && counted.count > limit
        notices.trace?.({ type: 'track', rule: name, key, count: counted?.count, isOver })
        if (!isOver) return
        const { count: used } = counted
        const facts = { key, count: used, limit, period }
        const notice = noticeOf({ type: 'track', rule, request, counted: facts })
        notices.publish(notice)
        if (used === limit + 1) notices.writeLine('info', notice, 'request tracked')
      })
  }
}
