import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { beforeEnd } from '../http/before-end.ts'
import { denyOverLimit } from './deny.ts'
import { guardRule, type RuleParts } from './guard-rule.ts'
import { factsOf } from './rules/request-facts.ts'
import type { CompiledFilterRule, CompiledThrottle, CompiledTrack } from './rules/rules-schema.ts'
import { tallyPass, tallyRefusal } from './tallies.ts'

/** Made once, so that a flood of denied requests does not create an error for each. */
export const BLOCKED = new ServiceError('blocked')

/** The handler of a safelist rule: what matches skips the rest of the chain, and the limits of its route. */
export function pass(rule: CompiledFilterRule, parts: RuleParts): RequestHandler {
  const { tally, onMatch, noticeOf } = guardRule(rule, parts)
  return onMatch((request, _response, next) => {
    factsOf(request).isSafe = true
    tallyPass(tally)
    parts.notices.publish(noticeOf(request))
    next('router')
  })
}

/** The handler of a blocklist rule: what matches is `blocked`. */
export function block(rule: CompiledFilterRule, parts: RuleParts): RequestHandler {
  const { notices } = parts
  const { tally, onMatch, noticeOf } = guardRule(rule, parts)
  return onMatch((request, _response, next) => {
    tally.counted++
    tallyRefusal(tally, rule)
    const notice = noticeOf(request)
    notices.publish(notice)
    notices.mark(notice)
    next(rule.isDryRun ? undefined : BLOCKED)
  })
}

/** The handler of a throttle: denies what matches over its limit. */
export function overLimit(rule: CompiledThrottle, parts: RuleParts): RequestHandler {
  const { limit, windowMs } = rule
  const { tally, onMatch, count } = guardRule(rule, parts)
  const deny = denyOverLimit(rule, parts)
  return onMatch(async (request, response, next, key) => {
    const counted = await count(request, key)
    if (key === undefined || counted === undefined) return next()
    if (counted.count > limit) {
      return deny({ request, key, limit, windowMs, ...counted }, response, next)
    }
    tallyPass(tally)
    next()
  })
}

/** The handler of a track: reports what matches, with a limit only what is over it. */
export function notify(rule: CompiledTrack, parts: RuleParts): RequestHandler {
  const { notices } = parts
  const { statuses } = rule
  const { tally, onMatch, count, noticeOf } = guardRule(rule, parts)
  // Without a limit, each match is the first over none.
  const limit = 'limit' in rule ? rule.limit : 0

  async function report(request: Request, key: string | undefined): Promise<void> {
    const counted = 'limit' in rule ? await count(request, key) : { count: 1 }
    if (counted === undefined) return
    tallyPass(tally)
    if (counted.count <= limit) return
    const notice = noticeOf(request, key, counted.count)
    notices.publish(notice)
    if (counted.count === limit + 1) notices.writeLine('info', notice, 'request tracked')
  }

  return onMatch(async (request, response, next, key) => {
    if (statuses === undefined) await report(request, key)
    else beforeEnd(response, statuses, () => report(request, key))
    next()
  })
}
