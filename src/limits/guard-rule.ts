import type { Request } from 'express'
import type { BanList } from './ban-list.ts'
import type { Count, CounterStore } from './counter-store.ts'
import type { AddLimitHeaders } from './limit-headers.ts'
import type { MaybePromise } from './maybe-promise.ts'
import { type Notice, type Notices, noticeOf } from './notices.ts'
import { factsOf } from './rules/request-facts.ts'
import type { CompiledCounter, CompiledFilterRule } from './rules/rules-schema.ts'
import type { Tallies } from './tallies.ts'

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

export type GuardedRule = ReturnType<typeof guardRule>

/** What a check needs of its rule. Failures are logged and not thrown: a limiter must never take the service down. */
export function guardRule(
  rule: CompiledFilterRule & Partial<CompiledCounter>,
  { store, notices, tallies }: RuleParts,
) {
  const { type, name, limit, windowMs = 0 } = rule

  function guard<T>(ask: () => T): T | undefined {
    try {
      return ask()
    } catch (error) {
      notices.functionFailed(rule, error)
      return undefined
    }
  }

  function handleFailure(error: unknown): undefined {
    notices.storeFailed(error)
  }

  return {
    tally: tallies.of(rule),

    /** False if a function of the rule throws. */
    matches: (request: Request): boolean => guard(() => rule.matches(request)) === true,

    /** A matching request with its key, if it has one and anything is counted; `undefined` also if a function of the rule throws. */
    ask: (request: Request): { readonly key: string | undefined } | undefined =>
      guard(() => {
        if (!rule.matches(request)) return undefined
        return { key: store === undefined ? undefined : rule.keyOf?.(request) }
      }),

    /** The key that the rule counts a request by; `undefined` if it has none, its function throws or nothing is counted. */
    keyOf: (request: Request): string | undefined =>
      store === undefined ? undefined : guard(() => rule.keyOf?.(request)),

    /** Adds one to the count of the key of a request; `undefined` without a key, or if the store fails. */
    count: (request: Request, key: string | undefined): MaybePromise<Count | undefined> => {
      if (store === undefined || key === undefined) return undefined
      try {
        const counted = store.increment({ type, rule: name, key }, windowMs, factsOf(request))
        return counted instanceof Promise ? counted.catch(handleFailure) : counted
      } catch (error) {
        return handleFailure(error)
      }
    },

    /** The notice of a decision about a request. */
    noticeOf: (request: Request, key?: string, count?: number): Notice =>
      noticeOf(rule, request, limit === undefined ? {} : { key, count, limit, period: windowMs }),
  }
}
