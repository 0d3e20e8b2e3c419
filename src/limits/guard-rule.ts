import type { Request } from 'express'
import type { Count, CounterStore } from './counter-store.ts'
import type { MaybePromise } from './maybe-promise.ts'
import type { Notice, Notices, NoticeType } from './notices.ts'
import type { KeyOf } from './rules/client-key.ts'
import { factsOf } from './rules/request-facts.ts'
import type { CompiledFilterRule } from './rules/rules-schema.ts'
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
  /** The result of other functions of the rule; `undefined` if one throws. */
  guard<T>(ask: () => T): T | undefined
  /** Logs what a function of the rule threw. */
  fail(error: unknown): void
  /** Adds one to the count of the key of a request; `undefined` without a key, or if the store fails. */
  count(
    request: Request,
    key: string | undefined,
    windowMs: number,
  ): MaybePromise<Count | undefined>
  /** The notice of a decision about a request; `counted` is given where the rule counts. */
  noticeOf(request: Request, counted?: Pick<Notice, 'key' | 'count' | 'limit' | 'period'>): Notice
}

export function guardRule(
  type: NoticeType,
  rule: CompiledFilterRule & { readonly keyOf?: KeyOf },
  { store, notices, tallies }: GuardOptions,
): GuardedRule {
  const { name, isDryRun } = rule

  function fail(error: unknown): void {
    notices.functionFailed(type, name, error)
  }

  function guard<T>(ask: () => T): T | undefined {
    try {
      return ask()
    } catch (error) {
      fail(error)
      return undefined
    }
  }

  function handleFailure(error: unknown): undefined {
    notices.storeFailed(error)
  }

  return {
    tally: tallies.of(rule),
    fail,
    guard,

    matches: request => guard(() => rule.matches(request)) === true,

    keyOf: request => (store === undefined ? undefined : guard(() => rule.keyOf?.(request))),

    count: (request, key, windowMs) => {
      if (store === undefined || key === undefined) return undefined
      try {
        const counted = store.increment({ type, rule: name, key }, windowMs, factsOf(request))
        return counted instanceof Promise ? counted.catch(handleFailure) : counted
      } catch (error) {
        return handleFailure(error)
      }
    },

    noticeOf: (request, counted) => {
      const notice = { type, rule: name, request, key: undefined, ...counted }
      return isDryRun ? { ...notice, dryRun: true } : notice
    },
  }
}
