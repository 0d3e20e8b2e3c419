import type { RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { guardRule, type RuleParts } from './guard-rule.ts'
import { noticeOf } from './notices.ts'
import { onceAnswered } from './once-answered.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type { CompiledFilterRule, CompiledTrack } from './rules/rules-schema.ts'
import { tallyPass } from './tallies.ts'

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
    else onceAnswered(response, statuses, () => void report(state))
    next()
  })
}
