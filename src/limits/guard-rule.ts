import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { BanList } from './ban-list.ts'
import type { Count, CounterStore } from './counter-store.ts'
import type { AddLimitHeaders } from './limit-headers.ts'
import { type Notice, type Notices, noticeOf } from './notices.ts'
import { factsOf } from './rules/request-facts.ts'
import type { CompiledCounter, CompiledFilterRule } from './rules/rules-schema.ts'
import { type Tallies, tallyOf } from './tallies.ts'

/** What rules use. */
export interface RuleParts {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly bans: BanList
  readonly notices: Notices
  readonly tallies: Tallies
  readonly addLimitHeaders: AddLimitHeaders
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** A handler as for a parameter of a route in Express: it also gets what the request is counted by, if anything is. */
export type MatchHandler = (
  request: Request,
  response: Response,
  next: NextFunction,
  key: string | undefined,
) => void | Promise<void>

/** What the handler of a rule needs of it. Failures are logged and not thrown: a limiter must never take the service down. */
export function guardRule(
  rule: CompiledFilterRule & Partial<CompiledCounter>,
  { store, notices, tallies }: RuleParts,
) {
  const { type, name, limit, windowMs = 0 } = rule
  const keyOf = (request: Request) => (store === undefined ? undefined : rule.keyOf?.(request))

  function guard<T>(ask: () => T): T | undefined {
    try {
      return ask()
    } catch (error) {
      notices.functionFailed(rule, error)
      return undefined
    }
  }

  return {
    tally: tallyOf(tallies, rule),

    /** Lets requests pass that the rule does not match, and those for which a function of the rule throws. */
    onMatch:
      (handle: MatchHandler): RequestHandler =>
      (request, response, next) => {
        const match = guard(() => rule.matches(request) && { key: keyOf(request) })
        return match ? handle(request, response, next, match.key) : next()
      },

    /** The key of a request, whether the rule matches it or not; `undefined` also if its function throws. */
    keyOf: (request: Request): string | undefined => guard(() => keyOf(request)),

    /** Adds one to the count of the key of a request; `undefined` without a key, or if the store fails. */
    count: async (request: Request, key: string | undefined): Promise<Count | undefined> => {
      if (store === undefined || key === undefined) return undefined
      try {
        return await store.increment({ type, rule: name, key }, windowMs, factsOf(request))
      } catch (error) {
        notices.storeFailed(error)
        return undefined
      }
    },

    /** The notice of a decision about a request. */
    noticeOf: (request: Request, key?: string, count?: number): Notice =>
      noticeOf(rule, request, limit === undefined ? {} : { key, count, limit, period: windowMs }),
  }
}
