import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { type ErrorDetails, ServiceError } from '../errors.ts'
import { fixedHeaders } from '../http/reply.ts'
import type { Answer, ToldAnswer } from './limits-file.ts'

export interface Refusal {
  readonly rule: string
  readonly answer: Answer | undefined
  readonly retryAfterSeconds: number
}

/** Names of headers as answers write them, by how others may write them. */
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

/**
 * Answers a request that is over a limit, by the one way of all errors or as the rule has it. Where a function of
 * the rule fails, `onFailure` is told, and the request passes.
 */
export function refuse(
  refusal: Refusal,
  ...[request, response, next, onFailure]: [...Handled, onFailure: (error: unknown) => void]
): void {
  const { rule, answer, retryAfterSeconds } = refusal
  const headers = { 'Retry-After': String(retryAfterSeconds) }
  if (typeof answer === 'function') {
    answerBy(answer, headers, onFailure, request, response, next)
    return
  }
  // Synchronous on purpose: a rejected promise would leave the client waiting.
  const details = detailsOf(answer)
  next(
    new ServiceError('rate_limited', {
      ...details,
      violatedPolicies: [rule],
      headers: { ...headers, ...details.headers },
    }),
  )
}

type Handled = [request: Request, response: Response, next: NextFunction]

function answerBy(
  handler: RequestHandler,
  headers: Readonly<Record<string, string>>,
  onFailure: (error: unknown) => void,
  ...[request, response, next]: Handled
): void {
  const { Vary: _vary, ...fixed } = fixedHeaders(request.id)
  const all = { ...fixed, ...request.replyHeaders, ...headers }
  for (const [name, value] of Object.entries(all)) response.setHeader(name, value)
  const vary = response.getHeader('Vary')
  response.vary('Accept')
  let isHandedOn = false

  function goOn(error?: unknown): void {
    isHandedOn = true
    for (const name of Object.keys(all)) response.removeHeader(name)
    if (vary === undefined) response.removeHeader('Vary')
    else response.setHeader('Vary', vary)
    next(error)
  }

  function pass(error: unknown): void {
    onFailure(error)
    if (!response.headersSent && !isHandedOn) goOn()
  }

  try {
    Promise.resolve(handler(request, response, goOn)).catch(pass)
  } catch (error) {
    pass(error)
  }
}

function detailsOf(answer: ToldAnswer | undefined): ErrorDetails {
  if (answer === undefined) return {}
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
