import type { Request, RequestHandler } from 'express'
import { type ClientRateLimitInfo, rateLimit } from 'express-rate-limit'
import type { CounterStore } from './counter-store.ts'
import { denyOverLimit } from './deny.ts'
import type { RuleParts } from './guard-rule.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type { CompiledRateLimit } from './rules/rules-schema.ts'
import { tallyOf, tallyPass } from './tallies.ts'

/** express-rate-limit on the routes, with the counters of all limits as its store. */
export function limitRoute(
  rule: CompiledRateLimit,
  parts: RuleParts & { readonly store: CounterStore },
): RequestHandler {
  const { store, notices, tallies, addLimitHeaders } = parts
  const { type, name, isDryRun, keyOf, limit, windowMs } = rule
  const tally = tallyOf(tallies, rule)
  const deny = denyOverLimit(rule, parts)

  /** Finds what applies to a request. False if it has no key, or if a function of the rule fails: it then passes. */
  function begin(request: Request): boolean {
    try {
      const key = keyOf(request)
      if (key === undefined) return false
      factsOf(request).routeLimit = {
        request,
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

  async function count(state: LimitState): Promise<ClientRateLimitInfo> {
    const { request, key } = state
    const counted = await store.increment(
      { type, rule: name, key },
      state.windowMs,
      factsOf(request),
    )
    Object.assign(state, counted)
    if (!isDryRun) addLimitHeaders(name, state)
    if (state.count <= state.limit) tallyPass(tally)
    return { totalHits: state.count, resetTime: undefined }
  }

  // Without `windowMs`, which only its own store and headers use: the window of a request is in its state.
  return rateLimit({
    skip: request => !begin(request),
    limit: request => stateOf(request).limit,
    // The store is handed what this returns. It counts a request and not only a key, and adds to its headers.
    keyGenerator: request => stateOf(request) as unknown as string,
    // Ours cost much less.
    standardHeaders: false,
    legacyHeaders: false,
    store: {
      increment: state => count(state as unknown as LimitState),
      // Nobody asks for these.
      decrement: () => {},
      resetKey: () => {},
    },
    handler: (request, response, next) => {
      const state = stateOf(request)
      // As functions under `with` know it.
      Object.assign(Object(request).rateLimit, { key: state.key })
      deny(state, response, next)
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
