import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { type ErrorCode, type ErrorDetails, ServiceError } from '../errors.ts'
import { fixedHeaders } from '../http/reply.ts'
import { isHeld } from './answer-counts.ts'
import type { Denial } from './filter.ts'
import { type LimitState, retryAfterSeconds } from './limit-headers.ts'
import { type Notices, noticeOf } from './notices.ts'
import type { Answer, FixedAnswer } from './rules/limits-file.ts'
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
  const { name, isDryRun } = rule
  const answer = compileAnswer(rule)

  return (request, { key, count, limit, windowMs: period, resetsInMs }) => {
    const { logFields, replyHeaders } = request
    tally.counted++
    const notice = noticeOf({ type, rule, request, counted: { key, count, limit, period } })
    notices.trace?.({ type, rule: name, key, count, isOver: true, isDenied: !isDryRun })
    notices.publish(notice)
    notices.mark(notice)
    // Counts are exact, so one request alone sees this one.
    if (count === limit + 1) notices.writeLine('warn', notice, 'limit exceeded')
    if (isDryRun) {
      tally.wouldRefuse++
      return undefined
    }
    return (response, next) =>
      answer({
        request,
        response,
        next,
        retryAfter: String(retryAfterSeconds(resetsInMs)),
        onFailure: error => notices.functionFailed(type, name, error),
        onRefused: () => void tally.refused++,
        onPassed: () => void tally.passed++,
        letPass: () => {
          notices.trace?.({ type, rule: name, isDenied: false })
          request.logFields = logFields
          request.replyHeaders = replyHeaders
          next()
        },
      })
  }
}

interface DeniedExchange {
  readonly request: Request
  readonly response: Response
  readonly next: NextFunction
  readonly retryAfter: string
  /** Called with what a function of the rule throws. */
  readonly onFailure: (error: unknown) => void
  /** One of these is called once it is known whether the request passes. */
  readonly onRefused: () => void
  readonly onPassed: () => void
  /** Continues as if the request had not been denied. */
  readonly letPass: () => void
}

/** Compiles the answer of a rule. The parts that never change are made once. */
function compileAnswer({ name, answer }: LimitRule): (exchange: DeniedExchange) => void {
  if (typeof answer === 'function') return exchange => answerBy(answer, exchange)
  const violatedPolicies = [name]
  if (answer === undefined) {
    return ({ next, retryAfter, onRefused }) => {
      const headers = { 'Retry-After': retryAfter }
      onRefused()
      next(new ServiceError('rate_limited', { violatedPolicies, headers }))
    }
  }
  const details = { violatedPolicies, ...detailsOf(answer) }
  return ({ next, retryAfter, onRefused }) => {
    const headers = { 'Retry-After': retryAfter, ...details.headers }
    onRefused()
    next(new ServiceError('rate_limited', { ...details, headers }))
  }
}

/** Lets a function of the rule answer. If it throws before it has begun to answer, the request passes. */
function answerBy(handler: RequestHandler, exchange: DeniedExchange): void {
  const { request, response, next, retryAfter, onFailure, letPass } = exchange
  const verdict = createVerdict(exchange)
  const { Vary: _vary, ...fixed } = fixedHeaders(request.id)
  const headers = { ...fixed, ...request.replyHeaders, 'Retry-After': retryAfter }
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  const vary = response.getHeader('Vary')
  response.vary('Accept')
  // Other denials get their reason in `writeReply`, which the function does not use.
  request.logFields = { ...request.logFields, reason: 'rate_limited' satisfies ErrorCode }
  let isHandedOn = false
  const hasBegun = () => response.headersSent || isHeld(response)
  const hasEnded = () => response.writableEnded || isHeld(response)

  function handOn(error?: unknown): void {
    isHandedOn = true
    // Headers that were sent cannot be taken back, and nobody else may answer.
    if (hasBegun()) {
      verdict.refused()
      if (error) onFailure(error)
      if (!hasEnded()) response.destroy()
      return
    }
    for (const name of Object.keys(headers)) response.removeHeader(name)
    if (vary === undefined) response.removeHeader('Vary')
    else response.setHeader('Vary', vary)
    // In Express these two words skip the rest of the route or router, and with it every handler that could answer.
    if (!error || error === 'route' || error === 'router') {
      verdict.passed()
      letPass()
    } else {
      verdict.refused()
      next(error)
    }
  }

  function handleFailure(error: unknown): void {
    onFailure(error)
    if (isHandedOn) return
    if (!hasBegun()) handOn()
    // Half a response cannot be undone, and the client would wait for the rest.
    else if (!hasEnded()) response.destroy()
  }

  // Synchronous on purpose: a rejected promise would leave the client waiting.
  try {
    Promise.resolve(handler(request, response, handOn)).catch(handleFailure)
  } catch (error) {
    handleFailure(error)
  }
  // A function that takes its time may still let the request pass.
  if (hasBegun() || response.closed) verdict.refused()
  else response.once('close', verdict.refused)
}

/** Passes on the first of several verdicts. */
function createVerdict({ onRefused, onPassed }: DeniedExchange) {
  let isKnown = false
  const once = (report: () => void) => () => {
    if (!isKnown) report()
    isKnown = true
  }
  return { refused: once(onRefused), passed: once(onPassed) }
}

/** The usual spelling of headers, by their lower-case names: the reply replaces its own headers by exact name. */
const HEADER_NAMES = new Map(
  [
    'Cache-Control',
    'Content-Length',
    'Content-Security-Policy',
    'Content-Type',
    'RateLimit',
    'RateLimit-Policy',
    'Retry-After',
    'Vary',
    'X-Content-Type-Options',
    'X-Request-Id',
  ].map(name => [name.toLowerCase(), name]),
)

function detailsOf(answer: FixedAnswer): ErrorDetails {
  if ('redirect' in answer) {
    const { redirect, alert } = answer
    const headers = { Location: redirect }
    return { status: 302, headers, ...(alert !== undefined && { message: alert }) }
  }
  const named = Object.entries(answer.headers ?? {}).map(([name, value]) => [
    HEADER_NAMES.get(name.toLowerCase()) ?? name,
    value,
  ])
  return { ...answer, headers: Object.fromEntries(named) }
}
