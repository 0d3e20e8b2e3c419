import { finished } from 'node:stream'
import type { NextFunction, RequestHandler, Response } from 'express'
import { rateLimit } from 'express-rate-limit'
import { type ErrorDetails, ServiceError } from '../errors.ts'
import { fixedHeaders } from '../http/reply.ts'
import { counterText, ruleText } from './counter-store.ts'
import { hideLimit, showLimit, wholeSeconds } from './limit-headers.ts'
import type { RuleInForce } from './rule-in-force.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type { FixedAnswer, LimitRule } from './rules/rule-values.ts'

type LimitInForce = RuleInForce<LimitRule>

/**
 * The handler of a throttle or of a limit on a route: the middleware of express-rate-limit, and what is done with a request that
 * it has counted. `skip` asks the rule, because it alone is asked about each request, and the library answers 500 if a function
 * throws.
 */
export function limitRequests(inForce: LimitInForce): RequestHandler {
  const { rule, store, log, matching } = inForce
  if (store === undefined) return (_request, _response, next) => next()
  const text = ruleText(rule)
  const decide = decideByCount(inForce)
  const middleware = rateLimit({
    skip: request => {
      request.rateLimit = undefined
      const state = matching(request)
      factsOf(request).counting = state
      return state?.key === undefined
    },
    keyGenerator: request => {
      const { key = '', windowMs } = factsOf(request).counting as LimitState
      return counterText(text, key, windowMs)
    },
    limit: request => (factsOf(request).counting as LimitState).limit,
    store,
    handler: (request, response, next) => decide(countedStates(request), response, next),
    passOnStoreError: true,
    logger: { warn: () => {}, error: error => log.storeFailed(error) },
    // Checks of other people's settings, of which some keep each store for ever.
    validate: false,
    // Ours show several rules, and names that a header cannot hold.
    standardHeaders: false,
    legacyHeaders: false,
  })
  return (request, response, next) =>
    middleware(request, response, error => {
      const { rateLimit: info } = request
      const isUnder = error === undefined && info !== undefined && info.used <= info.limit
      if (isUnder) decide(countedStates(request), response, next)
      else next(error)
    })
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
export function limitMany(inForce: LimitInForce): RequestHandler {
  const { rule, statesOf, count } = inForce
  const decide = decideByCount(inForce)
  const { needsBody } = rule.by
  return async (request, response, next) => {
    const { bodies = [] } = factsOf(request)
    const states = statesOf(request, needsBody ? bodies : bodies.slice(1).fill(undefined))
    await Promise.all(states.map(count))
    decide(states, response, next, needsBody ? 0 : 1)
  }
}

const EXCEEDED = { level: 'warn', message: 'limit exceeded' } as const

/** Lets a request pass that a rule has counted under one or several keys, or denies it. */
function decideByCount(inForce: LimitInForce) {
  const { rule, tally, steadyNow, tallyPass, tallyRefusal, announce, writeLine } = inForce
  const { type, isDryRun } = rule
  /** A limit on a route has its headers whenever it counts, a throttle only when it denies. */
  const hasHeaders = type === 'rateLimit' && !isDryRun
  const leftOf = ({ limit, count = 0 }: LimitState) => limit - count
  const deny = createDenial(inForce)

  /** Reports a request that is over the limit. */
  function report(state: LimitState): void {
    const { count = 0, limit, amount } = state
    tally.counted += amount
    announce(state)
    // Counts are exact, so one request alone sees this one.
    if (count - amount <= limit) writeLine(EXCEEDED, state)
  }

  /** `canFit` says whether the request fits into an empty window. */
  function refuse(state: LimitState, canFit: boolean, response: Response, next: NextFunction) {
    const { request, key = '', count = 0, limit, resetTime } = state
    const { line } = request
    report(state)
    if (!hasHeaders) showLimit(rule, state, steadyNow())
    // The key without what only the store needs.
    request.rateLimit = { limit, used: count, remaining: 0, resetTime, key }
    const retryAfter = String(wholeSeconds(resetTime.getTime() - steadyNow()))
    deny(state, canFit ? { 'Retry-After': retryAfter } : {}, response, error => {
      if (error === undefined) {
        if (!hasHeaders) hideLimit(rule, state, steadyNow())
        request.line = line
      }
      next(error)
    })
  }

  /** `countedBefore` says for how many of what it counts as the request has been let pass before. */
  return (
    states: readonly LimitState[],
    response: Response,
    next: NextFunction,
    countedBefore = 0,
  ) => {
    const counted = states.filter(({ count }) => count !== undefined)
    const [tightest] = counted.toSorted((one, other) => leftOf(one) - leftOf(other))
    if (tightest === undefined) return next()
    if (hasHeaders) showLimit(rule, tightest, steadyNow())
    const denied = leftOf(tightest) < 0 && !isDryRun ? tightest : undefined
    for (const state of counted) {
      if (leftOf(state) >= 0) tallyPass(state.amount)
      else if (state !== denied) {
        report(state)
        tallyRefusal(state)
      }
    }
    if (denied === undefined) return next()
    const canFit = counted.every(({ amount, limit }) => amount + countedBefore <= limit)
    refuse(denied, canFit, response, next)
  }
}

/** Answers a request that is over a limit. `retryHeaders` say when it may come again. */
type Deny = (
  state: LimitState,
  retryHeaders: Readonly<Record<string, string>>,
  response: Response,
  next: NextFunction,
) => void

/** Answers 429, or what the rule has under `with`. */
function createDenial(inForce: LimitInForce): Deny {
  const { rule, tallyRefusal } = inForce
  const { name, answer } = rule
  if (typeof answer === 'function') return denyByFunction(answer, inForce)
  // What never changes is made once.
  const details: ErrorDetails = { violatedPolicies: [name], ...(answer && detailsOf(answer)) }
  return (state, retryHeaders, _response, next) => {
    tallyRefusal(state)
    const headers = { ...retryHeaders, ...details.headers }
    next(new ServiceError('rate_limited', { ...details, headers }))
  }
}

/**
 * Lets a function of the rule answer. The request passes if it calls its `next`, or throws before it has begun to answer. Express
 * takes two words for `next` too, which skip the rest of a route or router, and every handler that could answer.
 */
function denyByFunction(
  handler: RequestHandler,
  { tally, tallyRefusal, fail }: LimitInForce,
): Deny {
  return (state, retryHeaders, response, next) => {
    const { request } = state
    // The request counts as refused unless the function lets it pass, also if its client leaves.
    let isDecided = false
    const decide = (outcome: 'passed' | 'refused') => {
      if (isDecided) return
      isDecided = true
      if (outcome === 'passed') tally.passed += state.amount
      else tallyRefusal(state)
    }
    finished(response, () => decide('refused'))
    const headers = { ...fixedHeaders(request.id), ...request.replyHeaders, ...retryHeaders }
    const { Vary: ownVary = '', ...others } = headers
    const before = Object.keys(headers).map(name => [name, response.getHeader(name)] as const)
    response.set(others).vary(ownVary)
    // Other denials get their reason in `writeReply`, which the function does not use.
    request.line = { ...request.line, reason: 'rate_limited' }
    let isHandedOn = false

    function handOn(given?: unknown): void {
      if (isHandedOn) return
      const error = given && given !== 'route' && given !== 'router' ? given : undefined
      if (response.headersSent) {
        // Headers that were sent cannot be taken back, and nobody else may answer.
        if (error !== undefined) fail(error)
        if (!response.writableEnded) response.destroy()
        return
      }
      isHandedOn = true
      for (const [name, value] of before) {
        if (value === undefined) response.removeHeader(name)
        else response.setHeader(name, value)
      }
      if (error === undefined) decide('passed')
      next(error)
    }

    function handleFailure(error: unknown): void {
      fail(error)
      handOn()
    }

    // Such as that of a write after the end, which nobody else handles.
    response.on('error', fail)
    // Synchronous on purpose: a rejected promise would leave the client waiting.
    try {
      Promise.resolve(handler(request, response, handOn)).catch(handleFailure)
    } catch (error) {
      handleFailure(error)
    }
  }
}

/**
 * Headers that a reply may have too, as it spells them: a header of the rule replaces one only if the spelling is the
 * same.
 */
const REPLY_HEADERS = [
  ...['Cache-Control', 'Content-Length', 'Content-Security-Policy', 'Content-Type', 'RateLimit'],
  ...['RateLimit-Policy', 'Retry-After', 'Vary', 'X-Content-Type-Options', 'X-Request-Id'],
]

function detailsOf(answer: FixedAnswer): ErrorDetails {
  if ('redirect' in answer) {
    const { redirect, alert } = answer
    const headers = { Location: redirect }
    return { status: 302, headers, ...(alert !== undefined && { message: alert }) }
  }
  const { status, message, headers = {} } = answer
  const named = Object.entries(headers).map(([name, value]) => [
    REPLY_HEADERS.find(each => each.toLowerCase() === name.toLowerCase()) ?? name,
    value,
  ])
  return {
    ...(status !== undefined && { status }),
    ...(message !== undefined && { message }),
    headers: Object.fromEntries(named),
  }
}
