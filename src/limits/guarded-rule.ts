import type { Request } from 'express'
import type { Count, CounterStore } from './counter-store.ts'
import type { MaybePromise } from './maybe-promise.ts'
import type { Notices, NoticeType } from './notices.ts'
import { factsOf } from './rules/request-facts.ts'
import type { CompiledCounter, CompiledFilterRule } from './rules/rules-schema.ts'

export interface GuardOptions {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly notices: Notices
}

/** Wraps the match of a rule: a request for which a function of the rule throws does not match. */
export function guardMatch(
  type: NoticeType,
  rule: CompiledFilterRule,
  notices: Notices,
): (request: Request) => boolean {
  return request => {
    try {
      return rule.matches(request)
    } catch (error) {
      notices.functionFailed(type, rule.name, error)
      return false
    }
  }
}

/** The key and the count of a rule. Failures are logged and not thrown: a limiter must never take the service down. */
export interface GuardedCounter {
  /** The key that the rule counts this request by; `undefined` if it has none, its function throws or nothing is counted. */
  keyOf(request: Request): string | undefined
  /** Adds one to the count of the key of a request; `undefined` without a key, or if the store fails. */
  count(request: Request, key: string | undefined): MaybePromise<Count | undefined>
}

export function guardCounter(
  type: NoticeType,
  rule: CompiledCounter,
  { store, notices }: GuardOptions,
): GuardedCounter {
  const { name, windowMs } = rule

  function handleFailure(error: unknown): undefined {
    notices.storeFailed(error)
  }

  return {
    keyOf: request => {
      if (store === undefined) return undefined
      try {
        return rule.keyOf(request)
      } catch (error) {
        notices.functionFailed(type, name, error)
        return undefined
      }
    },

    count: (request, key) => {
      if (store === undefined || key === undefined) return undefined
      const facts = factsOf(request)
      try {
        const counted = store.increment({ type, rule: name, key }, windowMs, facts.waitedMs)
        if (!(counted instanceof Promise)) return counted
        return counted.then(count => {
          facts.addWait(count)
          return count
        }, handleFailure)
      } catch (error) {
        return handleFailure(error)
      }
    },
  }
}
