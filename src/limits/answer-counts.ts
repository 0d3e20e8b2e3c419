import type { Request, Response } from 'express'
import type { GuardedRule } from './guard-rule.ts'
import type { MaybePromise } from './maybe-promise.ts'
import { factsOf } from './rules/request-facts.ts'

/**
 * The check of a rule with `status`: it decides nothing, and counts a matching request once its answer is known. `prepare` takes
 * what it needs of the request, which may still change, and returns what counts it.
 */
export function checkAnswer(
  { matches }: GuardedRule,
  statuses: ReadonlySet<number>,
  prepare: (request: Request) => () => MaybePromise<void>,
): (request: Request) => undefined {
  return request => {
    if (!matches(request)) return undefined
    const count = prepare(request)
    const facts = factsOf(request)
    facts.answerCounts ??= []
    facts.answerCounts.push(status => (statuses.has(status) ? count() : undefined))
    return undefined
  }
}

/**
 * Counts a request that the filter lets pass when its response is complete, and sends the response after that: the next
 * request of the client finds the ban that it has earned, in whichever process. Calls `onFailure` with what `end` throws when
 * its caller, such as the `with` function of a rule, cannot catch it any more.
 */
export function countByAnswer(
  request: Request,
  response: Response,
  onFailure: (error: unknown) => void,
): void {
  const facts = request.limitFacts
  if (facts?.answerCounts === undefined) return
  const counts = facts.answerCounts
  const { end } = response
  const endLater = (...args: unknown[]) => {
    const send = () => {
      response.end = end
      return Reflect.apply(end, response, args)
    }
    const waits = counts.map(count => count(response.statusCode)).filter(wait => wait !== undefined)
    if (waits.length === 0) return send()
    facts.isAnswerHeld = true
    response.end = (() => response) as Response['end']
    const fail = (error: unknown) => {
      onFailure(error)
      response.destroy()
    }
    void Promise.all(waits).then(send, send).catch(fail)
    return response
  }
  response.end = endLater as Response['end']
}
