import type { Request } from 'express'
import type { Count, CounterStore } from './counter-store.ts'
import type { MaybePromise } from './maybe-promise.ts'
import { type Notice, type Notices, type NoticeType, noticeOf } from './notices.ts'
import { factsOf } from './rules/request-facts.ts'
import type { CompiledCounter, CompiledFilterRule } from './rules/rules-schema.ts'
import type { Tallies, Tally } from './tallies.ts'

export interface GuardOptions {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly notices: Notices
  readonly tallies: Tallies
}

/** What a check needs of its rule. Failures are logged and not thrown: a limiter must never take the service down. */
export interface GuardedRule {
  readonly tally: Tally
  /** False if a function of the rule throws. */
  matches(request: Request): boolean
  /** The key that the rule counts this request by; `undefined` if it has none, its function throws or nothing is counted. */
  keyOf(request: Request): string | undefined
  /** Adds one to the count of the key of a request; `undefined` without a key, or if the store fails. */
  count(request: Request, key: string | undefined): MaybePromise<Count | undefined>
  /** The notice of a decision about a request. */
  noticeOf(request: Request, key?: string | undefined, count?: number | undefined): Notice
}

export function guardRule(
  type: NoticeType,
  rule: CompiledFilterRule & Partial<CompiledCounter>,
  { store, notices, tallies }: GuardOptions,
): GuardedRule {
  const { name, limit, windowMs = 0 } = rule

  function guard<T>(ask: () => T): T | undefined {
    try {
      return ask()
    } catch (error) {
      notices.functionFailed(type, name, error)
      return undefined
    }
  }

  function handleFailure(error: unknown): undefined {
    notices.storeFailed(error)
  }

  return {
    tally: tallies.of(rule),

    matches: request => guard(() => rule.matches(request)) === true,

    keyOf: request => (store === undefined ? undefined : guard(() => rule.keyOf?.(request))),

    count: (request, key) => {
      if (store === undefined || key === undefined) return undefined
      try {
        const counted = store.increment({ type, rule: name, key }, windowMs, factsOf(request))
        return counted instanceof Promise ? counted.catch(handleFailure) : counted
      } catch (error) {
        return handleFailure(error)
      }
    },

    noticeOf: (request, key, count) =>
      noticeOf({
        ...{ type, rule, request },
        ...(limit !== undefined && { counted: { key, count, limit, period: windowMs } }),
      }),
  }
}
