import type { Request, RequestHandler } from 'express'
import { type ClientRateLimitInfo, rateLimit } from 'express-rate-limit'
import type { CounterStore } from './counter-store.ts'
import { compileDenyOverLimit } from './deny-over-limit.ts'
import type { RuleParts } from './guard-rule.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type { CompiledRateLimit } from './rules/rules-schema.ts'
import { tallyPass } from './tallies.ts'

/** express-rate-limit on the routes, with the counters of all limits as its store. */
export function createRouteLimit(
  rule: CompiledRateLimit,
  parts: RuleParts & { readonly store: CounterStore },
): RequestHandler {
  const { store, notices, tallies, addLimitHeaders } = parts
  const { type, name, isDryRun, keyOf, limit, windowMs } = rule
  const tally = tallies.of(rule)
  const denyOverLimit = compileDenyOverLimit(rule, parts)
  /**
   * express-rate-limit tells its store a key, but not whose it is. It counts requests in the order in which it has asked for
   * their keys.
   */
  const counting: Request[] = []

  /** Finds what applies to a request. False if it has no key, or if a function of the rule fails: it then passes. */
  function begin(request: Request): boolean {
    try {
      const key = keyOf(request)
      if (key === undefined) return false
      factsOf(request).routeLimit = {
        key,
        limit: typeof limit === 'function' ? limit(request) : limit,
        windowMs: typeof windowMs === 'function' ? windowMs(request) : windowMs,
        count: 0,
        resetsInMs: 0,
      }
      return true
    } catch (error) {
      notices.functionFailed(rule, error)
      return false
    }
  }

  async function count(request: Request): Promise<ClientRateLimitInfo> {
    const facts = factsOf(request)
    const state = stateOf(request)
    const counterKey = { type, rule: name, key: state.key }
    const counted = await store.increment(counterKey, state.windowMs, facts)
    state.count = counted.count
    state.resetsInMs = counted.resetsInMs
    if (!isDryRun) addLimitHeaders(request, name, state)
    if (state.count <= state.limit) tallyPass(tally)
    return { totalHits: state.count, resetTime: undefined }
  }

  // Without `windowMs`, which only its own store and headers use: the window of a request is in its state.
  return rateLimit({
    skip: request => !begin(request),
    limit: request => stateOf(request).limit,
    keyGenerator: request => {
      counting.push(request)
      return stateOf(request).key
    },
    // Ours cost much less.
    standardHeaders: false,
    legacyHeaders: false,
    store: {
      increment: () => count(counting.shift() as Request),
      // Nobody asks for these.
      decrement: () => {},
      resetKey: () => {},
    },
    handler: (request, response, next) => {
      const denial = denyOverLimit(request, stateOf(request))
      if (denial === undefined) next()
      else denial(response, next)
    },
    passOnStoreError: true,
    logger: { warn: notices.storeFailed, error: notices.storeFailed },
    validate: false,
  })
}

/** The limit that is counting a request: several rules on one route count one after another. */
function stateOf(request: Request): LimitState {
  return factsOf(request).routeLimit as LimitState
}
