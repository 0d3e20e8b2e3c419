import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { countByAnswer } from './answer-counts.ts'
import type { Denial } from './denial.ts'
import type { MaybePromise } from './maybe-promise.ts'

/** What one rule decides about a request; `undefined` leaves the decision to the next question. Never throws or rejects. */
export type Question = (request: Request) => MaybePromise<Decision | undefined>

/** `pass` skips all questions that follow. */
export type Decision = 'pass' | Denial

/** Asks the questions in force about every request, in their order, until one of them decides. */
export function createFilter(questionsInForce: () => readonly Question[]): RequestHandler {
  return (request, response, next) =>
    ask({ questions: questionsInForce(), request, response, next }, 0)
}

/** A request with the questions that were in force when it arrived. */
interface Exchange {
  readonly questions: readonly Question[]
  readonly request: Request
  readonly response: Response
  readonly next: NextFunction
}

/** Asks the questions from `index` on. Synchronous until a store answers with a promise. */
function ask(exchange: Exchange, index: number): MaybePromise<void> {
  const { questions, request, response, next } = exchange
  for (let at = index; at < questions.length; at++) {
    const decision = questions[at]?.(request)
    if (decision instanceof Promise) {
      return decision.then(decided => act(exchange, decided, at + 1)).catch(next)
    }
    if (decision !== undefined) return act(exchange, decision, at + 1)
  }
  countByAnswer(request, response)
  next()
}

/** Carries out a decision. Without one, or if a denial lets the request pass, the questions continue at `nextIndex`. */
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
