import { finished } from 'node:stream'
import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { type ErrorCode, type ErrorDetails, ServiceError } from '../errors.ts'
import { fixedHeaders } from '../http/reply.ts'
import type { Denial } from './filter.ts'
import type { RuleParts } from './guard-rule.ts'
import { retryAfterSeconds } from './limit-headers.ts'
import { type NamedRule, noticeOf } from './notices.ts'
import type { FixedAnswer } from './rules/limits-file.ts'
import type { LimitState } from './rules/request-facts.ts'
import type { CompiledThrottle } from './rules/rules-schema.ts'

/**
 * Compiles what throttles and route limits both do over their limit: it reports the request, and returns its denial, or
 * `undefined` if the rule is in dry run.
 */
export function compileDenyOverLimit(
  rule: NamedRule & Pick<CompiledThrottle, 'answer'>,
  { notices, tallies }: RuleParts,
) {
  const { name, isDryRun, answer } = rule
  const tally = tallies.of(rule)
  // What never changes is made once.
  const details: ErrorDetails = {
    violatedPolicies: [name],
    ...(typeof answer === 'object' && detailsOf(answer)),
  }

  return (state: LimitState): Denial | undefined => {
    const { request, key, count, limit, windowMs: period, resetsInMs } = state
    const { logFields, replyHeaders } = request
    tally.counted++
    const notice = noticeOf(rule, request, { key, count, limit, period })
    notices.publish(notice)
    notices.mark(notice)
    // Counts are exact, so one request alone sees this one.
    if (count === limit + 1) notices.writeLine('warn', notice, 'limit exceeded')
    if (isDryRun) {
      tally.wouldRefuse++
      return undefined
    }
    return (response, next) => {
      const retryAfter = String(retryAfterSeconds(resetsInMs))
      if (typeof answer !== 'function') {
        tally.refused++
        const headers = { 'Retry-After': retryAfter, ...details.headers }
        return next(new ServiceError('rate_limited', { ...details, headers }))
      }
      // The request counts as refused unless the function lets it pass, also if its client leaves.
      let isDecided = false
      const decide = (outcome: 'passed' | 'refused') => {
        if (!isDecided) tally[outcome]++
        isDecided = true
      }
      finished(response, () => decide('refused'))
      answerBy(answer, {
        ...{ request, response, retryAfter },
        onFailure: error => notices.functionFailed(rule, error),
        next: error => {
          if (error === undefined) {
            decide('passed')
            Object.assign(request, { logFields, replyHeaders })
          }
          next(error)
        },
      })
    }
  }
}

interface DeniedExchange {
  readonly request: Request
  readonly response: Response
  readonly retryAfter: string
  /** Called without an error if the request passes all the same. */
  readonly next: NextFunction
  /** Called with what a function of the rule throws. */
  readonly onFailure: (error: unknown) => void
}

/** Lets a function of the rule answer. If it throws before it has begun to answer, the request passes. */
function answerBy(handler: RequestHandler, exchange: DeniedExchange): void {
  const { request, response, next, retryAfter, onFailure } = exchange
  const { Vary: _vary, ...fixed } = fixedHeaders(request.id)
  const headers = { ...fixed, ...request.replyHeaders, 'Retry-After': retryAfter }
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  const vary = response.getHeader('Vary')
  response.vary('Accept')
  // Other denials get their reason in `writeReply`, which the function does not use.
  request.logFields = { ...request.logFields, reason: 'rate_limited' satisfies ErrorCode }
  let isHandedOn = false

  /** The `next` of the function. In Express two words skip the rest of a route or router, and every handler that could answer. */
  function handOn(given?: unknown): void {
    if (isHandedOn) return
    isHandedOn = true
    const error = given && given !== 'route' && given !== 'router' ? given : undefined
    const isHeld = request.limitFacts?.isAnswerHeld === true
    if (response.headersSent || isHeld) {
      // Headers that were sent cannot be taken back, and nobody else may answer.
      if (error !== undefined) onFailure(error)
      if (!response.writableEnded && !isHeld) response.destroy()
      return
    }
    for (const name of Object.keys(headers)) response.removeHeader(name)
    if (vary === undefined) response.removeHeader('Vary')
    else response.setHeader('Vary', vary)
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

/** The usual spelling of headers that the reply has too, which it replaces by exact name. */
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
