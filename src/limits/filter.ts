import type { NextFunction, Request, Response } from 'express'
import { ServiceError } from '../errors.ts'
import type { MaybePromise } from './maybe-promise.ts'

/** What one rule decides about a request; `undefined` leaves the decision to the next check. Never throws or rejects. */
export type Check = (request: Request) => MaybePromise<Decision | undefined>

/** `pass` skips all checks that follow. */
export type Decision = 'pass' | Denial

/**
 * Answers a denied request: calls `next` with an error, or lets a function of the rule answer. Calls `next` without an error
 * if that function lets the request pass.
 */
export type Denial = (response: Response, next: NextFunction) => void

// Made once, so that a flood of denied requests does not create an error for each.
const BLOCKED = new ServiceError('blocked')

/** Answers 403. */
export const denyBlocked: Denial = (_response, next) => next(BLOCKED)

/** A request and what answers it. */
export interface Exchange {
  readonly request: Request
  readonly response: Response
  readonly next: NextFunction
}

/** Asks checks about a request until one of them decides. Synchronous until a store answers with a promise. */
export function askChecks(
  checks: readonly Check[],
  exchange: Exchange,
  index = 0,
): MaybePromise<void> {
  const { request, response, next } = exchange

  /** Without a decision, or if a denial lets the request pass, the checks continue at `nextIndex`. */
  function act(decision: Decision | undefined, nextIndex: number): MaybePromise<void> {
    if (decision === undefined) return askChecks(checks, exchange, nextIndex)
    if (decision === 'pass') return next()
    decision(response, error => {
      if (error === undefined) void askChecks(checks, exchange, nextIndex)
      else next(error)
    })
  }

  for (let at = index; at < checks.length; at++) {
    const decision = checks[at]?.(request)
    if (decision instanceof Promise) {
      return decision.then(decided => act(decided, at + 1)).catch(next)
    }
    if (decision !== undefined) return act(decision, at + 1)
  }
  next()
}
