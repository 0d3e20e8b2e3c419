import type { RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { beforeEnd } from '../http/before-end.ts'
import { denyOverLimit, reportOverLimit } from './deny-over-limit.ts'
import { guardRule, type RuleParts } from './guard-rule.ts'
import { dropLimitHeaders } from './limit-headers.ts'
import { noticeOf } from './notices.ts'
import { needsBody } from './rules/client-key.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type {
  CompiledFilterRule,
  CompiledRateLimit,
  CompiledThrottle,
  CompiledTrack,
} from './rules/rules-schema.ts'
import { tallyPass, tallyRefusal } from './tallies.ts'

/** Made once, so that a flood of denied requests does not create an error for each. */
export const BLOCKED = new ServiceError('blocked')

/** The handler of a safelist rule: what matches skips the rest of the chain, and the limits of its route. */
export function pass(rule: CompiledFilterRule, parts: RuleParts): RequestHandler {
  const { tally, onMatch } = guardRule(rule, parts)
  return onMatch((state, _response, next) => {
    factsOf(state.request).isSafe = true
    tallyPass(tally)
    parts.notices.publish(noticeOf(rule, state))
    next('router')
  })
}

/** The handler of a blocklist rule: what matches is `blocked`. */
export function block(rule: CompiledFilterRule, parts: RuleParts): RequestHandler {
  const { tally, onMatch, refuse } = guardRule(rule, parts)
  return onMatch((state, _response, next) => {
    tally.counted++
    refuse(state)
    next(rule.isDryRun ? undefined : BLOCKED)
  })
}

/** The handler of a throttle, and of a limit on a route, which has headers too: denies what is over the limit. */
export function throttle(
  rule: CompiledThrottle | CompiledRateLimit,
  parts: RuleParts,
): RequestHandler {
  const { type, name, isDryRun } = rule
  const { tally, onMatch, count } = guardRule(rule, parts)
  const deny = denyOverLimit(rule, parts)
  const hasHeaders = type === 'rateLimit' && !isDryRun
  return onMatch(async (state, response, next) => {
    const counted = await count(state)
    if (counted === undefined) return next()
    if (hasHeaders) parts.addLimitHeaders(name, state)
    if (counted > state.limit) return deny(state, response, next)
    tallyPass(tally)
    next()
  })
}

/**
 * The handler of a limit on a route for a request that counts as several. A limit that needs no body has counted the first of
 * them before. They all count; if they do not all fit, the request is denied.
 */
export function throttleEach(rule: CompiledRateLimit, parts: RuleParts): RequestHandler {
  const { tally, statesOf, count } = guardRule(rule, parts)
  const deny = denyOverLimit(rule, parts)
  const report = reportOverLimit(rule, parts)
  const readsBody = needsBody(rule.source.by)
  const leftOf = ({ limit, count = 0 }: LimitState) => limit - count
  return async (request, response, next) => {
    const { bodies = [] } = factsOf(request)
    const states = statesOf(request, readsBody ? bodies : bodies.slice(1).fill(undefined))
    await Promise.all(states.map(count))
    const counted = states.filter(state => state.count !== undefined)
    const [tightest, ...others] = counted.toSorted((one, other) => leftOf(one) - leftOf(other))
    if (tightest === undefined) return next()
    if (!rule.isDryRun) {
      dropLimitHeaders(request, rule.name)
      parts.addLimitHeaders(rule.name, tightest)
    }
    for (const state of others) {
      if (leftOf(state) >= 0) tallyPass(tally, state.amount)
      else {
        report(state)
        if (!rule.isDryRun) tallyRefusal(tally, state)
      }
    }
    if (leftOf(tightest) < 0) return deny(tightest, response, next)
    tallyPass(tally, tightest.amount)
    next()
  }
}

/** The handler of a track: reports what matches, with a limit only what is over it. */
export function track(rule: CompiledTrack, parts: RuleParts): RequestHandler {
  const { notices } = parts
  const { statuses } = rule
  const { tally, onMatch, count } = guardRule(rule, parts)

  async function report(state: LimitState): Promise<void> {
    // Without a limit every match is reported, as if it were the first over a limit of 0.
    const counted = 'limit' in rule ? await count(state) : 1
    if (counted === undefined) return
    tallyPass(tally)
    if (counted <= state.limit) return
    const notice = noticeOf(rule, state)
    notices.publish(notice)
    if (counted === state.limit + 1) notices.writeLine('info', notice, 'request tracked')
  }

  return onMatch(async (state, response, next) => {
    if (statuses === undefined) await report(state)
    else beforeEnd(response, statuses, () => report(state))
    next()
  })
}
