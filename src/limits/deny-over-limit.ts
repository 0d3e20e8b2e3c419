import { finished } from 'node:stream'
import type { NextFunction, RequestHandler, Response } from 'express'
import { type ErrorDetails, ServiceError } from '../errors.ts'
import { fixedHeaders } from '../http/reply.ts'
import type { RuleParts } from './guard-rule.ts'
import { secondsUntil } from './limit-headers.ts'
import { noticeOf } from './notices.ts'
import type { LimitRule } from './rules/filter-rule.ts'
import type { FixedAnswer } from './rules/limits-file.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import { type Tally, tallyOf, tallyRefusal } from './tallies.ts'

/** A request that is over the limit of a rule. */
interface Denied {
  readonly state: LimitState
  /** Whether it fits into an empty window. */
  readonly canFit: boolean
}

/** Answers it. `retryHeaders` say when it may come again. */
type Deny = (
  state: LimitState,
  retryHeaders: Readonly<Record<string, string>>,
  response: Response,
  next: NextFunction,
) => void

/** Reports a request that is over the limit of a rule. */
export function reportOverLimit(rule: LimitRule, { notices, tallies }: RuleParts) {
  const tally = tallyOf(tallies, rule)
  return (state: LimitState): void => {
    const { count = 0, limit, amount } = state
    tally.counted += amount
    if (rule.isDryRun) tally.wouldRefuse += amount
    const notice = noticeOf(rule, state)
    notices.publish(notice)
    notices.mark(notice)
    // Counts are exact, so one request alone sees this one.
    if (count - amount <= limit) notices.writeLine('warn', notice, 'limit exceeded')
  }
}

/** What throttles and limits on routes do over their limit: report the request, and deny it unless the rule is in dry run. */
export function denyOverLimit(rule: LimitRule, parts: RuleParts) {
  const { notices, tallies, showLimits, steadyNow } = parts
  const { name, isDryRun, answer } = rule
  const tally = tallyOf(tallies, rule)
  const report = reportOverLimit(rule, parts)
  const onFailure = (error: unknown) => notices.functionFailed(rule, error)
  const deny =
    typeof answer === 'function'
      ? denyByFunction(answer, tally, onFailure)
      : denyFixed(name, answer, tally)

  return ({ state, canFit }: Denied, response: Response, next: NextFunction) => {
    const { request, key = '', count = 0, limit, resetTime } = state
    const { line } = request
    const facts = factsOf(request)
    report(state)
    if (isDryRun) return next()
    facts.show(rule, state)
    showLimits(request)
    // The key without what only the store needs.
    request.rateLimit = { limit, used: count, remaining: 0, resetTime, key }
    const retryAfter = String(secondsUntil(resetTime, steadyNow()))
    deny(state, canFit ? { 'Retry-After': retryAfter } : {}, response, error => {
      if (error === undefined) {
        // A limit on a route has its headers whenever it counts.
        if (rule.type === 'throttle') facts.shown?.delete(rule)
        showLimits(request)
        request.line = line
      }
      next(error)
    })
  }
}

/** Answers 429, or what the rule has under `with`. */
function denyFixed(rule: string, answer: FixedAnswer | undefined, tally: Tally): Deny {
  // What never changes is made once.
  const details: ErrorDetails = { violatedPolicies: [rule], ...(answer && detailsOf(answer)) }
  return (state, retryHeaders, _response, next) => {
    tallyRefusal(tally, state)
    const headers = { ...retryHeaders, ...details.headers }
    next(new ServiceError('rate_limited', { ...details, headers }))
  }
}

/**
 * Lets a function of the rule answer. The request passes if it calls its `next`, or throws before it has begun to answer;
 * `onFailure` gets what it throws.
 */
function denyByFunction(
  handler: RequestHandler,
  tally: Tally,
  onFailure: (error: unknown) => void,
): Deny {
  return (state, retryHeaders, response, next) => {
    const { request } = state
    // The request counts as refused unless the function lets it pass, also if its client leaves.
    let isDecided = false
    const decide = (outcome: 'passed' | 'refused') => {
      if (isDecided) return
      isDecided = true
      if (outcome === 'passed') tally.passed += state.amount
      else tallyRefusal(tally, state)
    }
    finished(response, () => decide('refused'))
    const { Vary: _vary, ...fixed } = fixedHeaders(request.id)
    const headers = { ...fixed, ...request.replyHeaders, ...retryHeaders }
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    const vary = response.getHeader('Vary')
    response.vary('Accept')
    // Other denials get their reason in `writeReply`, which the function does not use.
    request.line = { ...request.line, reason: 'rate_limited' }
    let isHandedOn = false

    /** The `next` of the function. In Express two words skip the rest of a route or router, and every handler that could answer. */
    function handOn(given?: unknown): void {
      if (isHandedOn) return
      const error = given && given !== 'route' && given !== 'router' ? given : undefined
      if (response.headersSent) {
        // Headers that were sent cannot be taken back, and nobody else may answer.
        if (error !== undefined) onFailure(error)
        if (!response.writableEnded) response.destroy()
        return
      }
      isHandedOn = true
      for (const name of Object.keys(headers)) response.removeHeader(name)
      if (vary === undefined) response.removeHeader('Vary')
      else response.setHeader('Vary', vary)
      if (error === undefined) decide('passed')
      next(error)
    }

    function handleFailure(error: unknown): void {
      onFailure(error)
      handOn()
    }

    // Such as that of a write after the end, which nobody else handles.
    response.on('error', onFailure)
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
  const named = Object.entries(answer.headers ?? {}).map(([name, value]) => [
    REPLY_HEADERS.find(each => each.toLowerCase() === name.toLowerCase()) ?? name,
    value,
  ])
  return { ...answer, headers: Object.fromEntries(named) }
}
