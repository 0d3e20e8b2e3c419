import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { ServiceError } from '../errors.ts'
import { countByAnswer } from './answer-counts.ts'
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

export interface FilterOptions {
  /** The checks in force, in their order. */
  readonly checksInForce: () => readonly Check[]
  /** Called if the response to a request that passed cannot be sent. */
  readonly onSendingFailure: (error: unknown) => void
}

/** Asks the checks about every request until one of them decides. */
export function createFilter({ checksInForce, onSendingFailure }: FilterOptions): RequestHandler {
  /** Asks from `index` on. Synchronous until a store answers with a promise. */
  function ask(exchange: Exchange, index: number): MaybePromise<void> {
    const { checks, request, response, next } = exchange
    for (let at = index; at < checks.length; at++) {
      const decision = checks[at]?.(request)
      if (decision instanceof Promise) {
        return decision.then(decided => act(exchange, decided, at + 1)).catch(next)
      }
      if (decision !== undefined) return act(exchange, decision, at + 1)
    }
    countByAnswer(request, response, onSendingFailure)
    next()
  }

  /** Carries out a decision. Without one, or if a denial lets the request pass, the checks continue at `nextIndex`. */
  function act(
    exchange: Exchange,
    decision: Decision | undefined,
    nextIndex: number,
  ): MaybePromise<void> {
    const { response, next } = exchange
    if (decision === undefined) return ask(exchange, nextIndex)
    if (decision === 'pass') return next()
    decision(response, error => {
      if (error === undefined) void ask(exchange, nextIndex)
      else next(error)
    })
  }

  return (request, response, next) => ask({ checks: checksInForce(), request, response, next }, 0)
}

/** A request with the checks that were in force when it arrived. */
interface Exchange {
  readonly checks: readonly Check[]
  readonly request: Request
  readonly response: Response
  readonly next: NextFunction
}
