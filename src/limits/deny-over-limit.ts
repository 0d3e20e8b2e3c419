import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { type ErrorCode, type ErrorDetails, ServiceError } from '../errors.ts'
import { fixedHeaders } from '../http/reply.ts'
import { isHeld } from './answer-counts.ts'
import type { Denial } from './filter.ts'
import { retryAfterSeconds } from './limit-headers.ts'
import { type Notices, noticeOf } from './notices.ts'
import type { Answer, FixedAnswer } from './rules/limits-file.ts'
import type { LimitState } from './rules/request-facts.ts'
import type { Tally } from './tallies.ts'

/** A rule with a limit, as a throttle or on a route. */
export interface LimitRule {
  readonly name: string
  readonly isDryRun: boolean
  /** The answer that replaces 429. */
  readonly answer: Answer | undefined
}

/** Reports a request over its limit. Returns its denial; `undefined` if the rule is in dry run. */
export type DenyOverLimit = (request: Request, state: LimitState) => Denial | undefined

/** Compiles what throttles and route limits both do over their limit. Adds the request to `tally`. */
export function compileDenyOverLimit(
  type: 'throttle' | 'rateLimit',
  rule: LimitRule,
  { notices, tally }: { readonly notices: Notices; readonly tally: Tally },
): DenyOverLimit {
  const { name, isDryRun, answer } = rule
  // What never changes is made once.
  const details: ErrorDetails = {
    violatedPolicies: [name],
    ...(typeof answer === 'object' && detailsOf(answer)),
  }

  return (request, { key, count, limit, windowMs: period, resetsInMs }) => {
    const { logFields, replyHeaders } = request
    tally.counted++
    const notice = noticeOf({ type, rule, request, counted: { key, count, limit, period } })
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
      answerBy(answer, {
        ...{ request, response, next, retryAfter },
        onFailure: error => notices.functionFailed(type, name, error),
        onRefused: () => void tally.refused++,
        onPassed: () => {
          tally.passed++
          request.logFields = logFields
          request.replyHeaders = replyHeaders
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
  /** One of these is called once it is known whether the request passes. */
  readonly onRefused: () => void
  readonly onPassed: () => void
}

/** Lets a function of the rule answer. If it throws before it has begun to answer, the request passes. */
function answerBy(handler: RequestHandler, exchange: DeniedExchange): void {
  const { request, response, next, retryAfter, onFailure, onRefused, onPassed } = exchange
  const { Vary: _vary, ...fixed } = fixedHeaders(request.id)
  const headers = { ...fixed, ...request.replyHeaders, 'Retry-After': retryAfter }
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  const vary = response.getHeader('Vary')
  response.vary('Accept')
  // Other denials get their reason in `writeReply`, which the function does not use.
  request.logFields = { ...request.logFields, reason: 'rate_limited' satisfies ErrorCode }
  let isDecided = false
  let isHandedOn = false
  const hasBegun = () => response.headersSent || isHeld(response)

  function decide(report: () => void): void {
    if (!isDecided) report()
    isDecided = true
  }

  /** The `next` of the function. In Express two words skip the rest of a route or router, and every handler that could answer. */
  function handOn(error?: unknown): void {
    if (isHandedOn) return
    isHandedOn = true
    const isError = error && error !== 'route' && error !== 'router'
    if (hasBegun()) {
      // Headers that were sent cannot be taken back, and nobody else may answer.
      decide(onRefused)
      if (isError) onFailure(error)
      if (!response.writableEnded && !isHeld(response)) response.destroy()
      return
    }
    for (const name of Object.keys(headers)) response.removeHeader(name)
    if (vary === undefined) response.removeHeader('Vary')
    else response.setHeader('Vary', vary)
    decide(isError ? onRefused : onPassed)
    next(isError ? error : undefined)
  }

  function handleFailure(error: unknown): void {
    onFailure(error)
    handOn()
  }

  // Synchronous on purpose: a rejected promise would leave the client waiting.
  try {
    Promise.resolve(handler(request, response, handOn)).catch(handleFailure)
  } catch (error) {
    handleFailure(error)
  }
  // A function that takes its time may still let the request pass.
  if (hasBegun() || response.closed) decide(onRefused)
  else response.once('close', () => decide(onRefused))
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
