import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { BanList } from './ban-list.ts'
import { type CounterStore, counterText } from './counter-store.ts'
import type { Notices } from './notices.ts'
import type { CompiledCounter, CompiledRule } from './rules/filter-rule.ts'
import type { LimitState } from './rules/request-facts.ts'
import { type Tallies, tallyOf, tallyRefusal } from './tallies.ts'

/** What rules use. */
export interface RuleParts {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly bans: BanList
  readonly notices: Notices
  readonly tallies: Tallies
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** The same by a clock that never jumps, by which windows end. */
  readonly steadyNow: () => number
}

/** A handler of Express for a request that a rule matches. */
export type MatchHandler = (
  state: LimitState,
  response: Response,
  next: NextFunction,
) => void | Promise<void>

/** What the handler of a rule needs of it. Failures are logged and not thrown: a limiter must never take the service down. */
export function guardRule(
  rule: CompiledRule & Partial<CompiledCounter>,
  { store, notices, tallies }: RuleParts,
) {
  const { type, name } = rule
  const tally = tallyOf(tallies, rule)
  const keyOf = (request: Request) => (store === undefined ? undefined : rule.keyOf?.(request))

  function guard<T>(ask: () => T): T | undefined {
    try {
      return ask()
    } catch (error) {
      notices.functionFailed(rule, error)
      return undefined
    }
  }

  function stateOf(request: Request, key: string | undefined, amount = 1): LimitState {
    const limit = valueFor(request, key, rule.limit)
    const windowMs = valueFor(request, key, rule.windowMs)
    return { request, key, limit, windowMs, amount, count: undefined, resetTime: NO_TIME }
  }

  /** A request that the rule matches. `undefined` for others, and for those for which a function of the rule throws. */
  const matching = (request: Request): LimitState | undefined =>
    guard(() => (rule.matches(request) ? stateOf(request, keyOf(request)) : undefined))

  return {
    tally,
    matching,
    stateOf,

    /** Lets requests pass that the rule does not match, and those for which a function of the rule throws. */
    onMatch:
      (handle: MatchHandler): RequestHandler =>
      (request, response, next) => {
        const state = matching(request)
        return state ? handle(state, response, next) : next()
      },

    /**
     * The states of a request that counts as one with each of these bodies: one for each key that they have. Empty if a function
     * of the rule throws.
     */
    statesOf: (request: Request, bodies: readonly unknown[]): readonly LimitState[] => {
      const { body } = request
      const states = new Map<string, LimitState>()
      const isDone = guard(() => {
        for (request.body of bodies) {
          const key = keyOf(request)
          if (key === undefined) continue
          const state = states.get(key) ?? stateOf(request, key, 0)
          state.amount++
          states.set(key, state)
        }
        return true
      })
      request.body = body
      return isDone ? [...states.values()] : []
    },

    /** The key of a request, whether the rule matches it or not; `undefined` also if its function throws. */
    keyOf: (request: Request): string | undefined => guard(() => keyOf(request)),

    /** Adds a request to the count of its key. Returns the count; `undefined` without a key, or if the store fails. */
    count: async (state: LimitState): Promise<number | undefined> => {
      const { key, windowMs, amount } = state
      if (store === undefined || key === undefined) return undefined
      try {
        const text = counterText({ type, rule: name, key }, windowMs)
        const { totalHits, resetTime } = await store.increment(text, amount)
        Object.assign(state, { count: totalHits, resetTime })
      } catch (error) {
        notices.storeFailed(error)
      }
      return state.count
    },

    /** Reports that the rule refuses a request or, in a dry run, would refuse it. */
    refuse: (state: LimitState, logFields?: object): void => {
      tallyRefusal(tally, state)
      notices.publish(rule, state)
      notices.mark(rule, state.request, logFields)
    },
  }
}

const NO_TIME = new Date(0)

/** Functions of a rule are asked only about requests that it counts. */
function valueFor(
  request: Request,
  key: string | undefined,
  value: CompiledCounter['limit'] = 0,
): number {
  if (typeof value === 'number') return value
  return key === undefined ? 0 : value(request)
}
