import type { NextFunction, RequestHandler, Response } from 'express'
import { rateLimit } from 'express-rate-limit'
import { counterText } from './counter-store.ts'
import { denyOverLimit, reportOverLimit } from './deny-over-limit.ts'
import { guardRule, type RuleParts } from './guard-rule.ts'
import { needsBody } from './rules/client-key.ts'
import type { LimitRule } from './rules/filter-rule.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import { tallyPass, tallyRefusal } from './tallies.ts'

/**
 * The handlers of a throttle or of a limit on a route: the middleware of express-rate-limit, and what is done with a request that
 * it has counted and lets pass. `skip` asks the rule, because it alone is asked about each request, and the library answers 500
 * if a function throws.
 */
export function limitRequests(rule: LimitRule, parts: RuleParts): readonly RequestHandler[] {
  const { store, notices } = parts
  if (store === undefined) return []
  const { type, name } = rule
  const { matching } = guardRule(rule, parts)
  const decide = decideByCount(rule, parts)
  const middleware = rateLimit({
    skip: request => {
      request.rateLimit = undefined
      const state = matching(request)
      factsOf(request).counting = state
      return state?.key === undefined
    },
    keyGenerator: request => {
      const { key = '', windowMs } = factsOf(request).counting as LimitState
      return counterText({ type, rule: name, key }, windowMs)
    },
    limit: request => (factsOf(request).counting as LimitState).limit,
    store,
    handler: (request, response, next) => decide(countedStates(request), response, next),
    passOnStoreError: true,
    logger: { warn: () => {}, error: error => notices.storeFailed(error) },
    // Checks of other people's settings, of which some keep each store for ever.
    validate: false,
    // Ours show several rules, and names that a header cannot hold.
    standardHeaders: false,
    legacyHeaders: false,
  })
  return [
    middleware,
    (request, response, next) => {
      const { rateLimit: info } = request
      const isUnder = info !== undefined && info.used <= info.limit
      if (isUnder) decide(countedStates(request), response, next)
      else next()
    },
  ]
}

/** The state of a request that express-rate-limit has just counted. */
function countedStates(request: Express.Request): readonly LimitState[] {
  const { limitFacts, rateLimit: info } = request
  const state = limitFacts?.counting
  if (state === undefined || info?.resetTime === undefined) return []
  state.count = info.used
  state.resetTime = info.resetTime
  return [state]
}

/**
 * The handler of a limit on a route for a request that counts as several. A limit that needs no body has counted the first of
 * them before. They all count, at once and in the store itself; if they do not all fit, the request is denied.
 */
export function limitMany(rule: LimitRule, parts: RuleParts): RequestHandler {
  const { statesOf, count } = guardRule(rule, parts)
  const decide = decideByCount(rule, parts)
  const readsBody = needsBody(rule.source.by)
  return async (request, response, next) => {
    const { bodies = [] } = factsOf(request)
    const states = statesOf(request, readsBody ? bodies : bodies.slice(1).fill(undefined))
    await Promise.all(states.map(count))
    decide(states, response, next, readsBody ? 0 : 1)
  }
}

/** Lets a request pass that a rule has counted under one or several keys, or denies it. */
function decideByCount(rule: LimitRule, parts: RuleParts) {
  const { type, isDryRun } = rule
  const { tally } = guardRule(rule, parts)
  const deny = denyOverLimit(rule, parts)
  const report = reportOverLimit(rule, parts)
  const hasHeaders = type === 'rateLimit' && !isDryRun
  const leftOf = ({ limit, count = 0 }: LimitState) => limit - count

  /** `countedBefore` says for how many of what it counts as the request has been let pass before. */
  return (
    states: readonly LimitState[],
    response: Response,
    next: NextFunction,
    countedBefore = 0,
  ) => {
    const counted = states.filter(({ count }) => count !== undefined)
    const [tightest, ...others] = counted.toSorted((one, other) => leftOf(one) - leftOf(other))
    if (tightest === undefined) return next()
    if (hasHeaders) factsOf(tightest.request).show(rule, tightest)
    for (const state of others) {
      if (leftOf(state) >= 0) tallyPass(tally, state.amount)
      else {
        report(state)
        if (!isDryRun) tallyRefusal(tally, state)
      }
    }
    if (leftOf(tightest) < 0) {
      const canFit = counted.every(({ amount, limit }) => amount + countedBefore <= limit)
      return deny({ state: tightest, canFit }, response, next)
    }
    tallyPass(tally, tightest.amount)
    next()
  }
}
