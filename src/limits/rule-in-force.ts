import { channel } from 'node:diagnostics_channel'
import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { logText } from '../http/request-log.ts'
import type { BanList } from './ban-list.ts'
import { type CounterStore, counterText, ruleText } from './counter-store.ts'
import type { LimitLog } from './limit-log.ts'
import type { RuleReport } from './rule-report.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type { CompiledCounter, CompiledRule, RuleType } from './rules/rule-values.ts'

/** What the rules of a service share. */
export interface Shared {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly bans: BanList
  readonly log: LimitLog
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** The same by a clock that never jumps, by which windows end. */
  readonly steadyNow: () => number
}

/** The numbers of a rule, to which its handlers add. */
export type Tally = { -readonly [Name in keyof RuleReport]: RuleReport[Name] }

/** A decision of a rule about a request, as it is published. */
export interface Notice {
  readonly type: RuleType
  readonly rule: string
  readonly request: Request
  /** What the request was counted by. */
  readonly key?: string | undefined
  readonly count?: number | undefined
  readonly limit?: number | undefined
  /** Milliseconds. */
  readonly period?: number | undefined
  /** Whether the rule only reports what it would have done. */
  readonly dryRun?: true
}

/** The name of the channel of `node:diagnostics_channel` on which notices are published. */
export const CHANNEL_NAME = 'user-records.limits'

/** A handler of Express for a request that a rule matches. */
export type MatchHandler = (
  state: LimitState,
  response: Response,
  next: NextFunction,
) => void | Promise<void>

export type RuleInForce<Rule extends CompiledRule = CompiledRule> = ReturnType<
  typeof putInForce<Rule>
>

/**
 * What the handlers of a rule ask of it, and report to it. Failures are logged and not thrown: a limiter must never take the
 * service down.
 */
export function putInForce<Rule extends CompiledRule & Partial<CompiledCounter>>(
  rule: Rule,
  tally: Tally,
  shared: Shared,
) {
  const { store, log } = shared
  const { type, name, isDryRun } = rule
  const ruleName = ruleText(rule)
  const published = channel(CHANNEL_NAME)
  const keyOf = (request: Request) => (store === undefined ? undefined : rule.by?.find(request))

  function guard<T>(ask: () => T): T | undefined {
    try {
      return ask()
    } catch (error) {
      fail(error)
      return undefined
    }
  }

  /** Logs that a function of the rule threw; the request passes. */
  function fail(err: unknown): void {
    const message = 'rule function failed, request allowed'
    log.write({ level: 'error', message, source: ruleName }, { type, rule: name, err })
  }

  function stateOf(request: Request, key: string | undefined, amount = 1): LimitState {
    const limit = valueFor(request, key, rule.limit)
    const windowMs = valueFor(request, key, rule.windowMs)
    return { request, key, limit, windowMs, amount, count: undefined, resetTime: NO_TIME }
  }

  /** A request that the rule matches. `undefined` for others, and for those for which a function of the rule throws. */
  const matching = (request: Request): LimitState | undefined =>
    guard(() => (rule.matches(request) ? stateOf(request, keyOf(request)) : undefined))

  /** It has key, count, limit and period only if the rule can count. */
  function noticeOf({ request, key, count, limit, windowMs: period }: LimitState): Notice {
    const counted = rule.limit !== undefined && { key, count, limit, period }
    return { type, rule: name, request, ...counted, ...(isDryRun && { dryRun: true }) }
  }

  function publish(state: LimitState): void {
    if (published.hasSubscribers) published.publish(noticeOf(state))
  }

  /** Publishes a refusal, and adds it to the request's own log line. */
  function announce(state: LimitState, more?: object): void {
    publish(state)
    const { request } = state
    // In place of all that a rule in dry run has said before.
    const said = { type, rule: name, dryRun: isDryRun || undefined, banEndsAt: undefined }
    request.line = { ...request.line, ...said, ...more }
  }

  /** Adds what the rule refuses or, in a dry run, would refuse. Its client is known by its address where the rule does not count. */
  function tallyRefusal({ key, request, amount }: LimitState): void {
    if (isDryRun) {
      tally.wouldRefuse += amount
      return
    }
    tally.refused += amount
    tally.clients.add(key ?? factsOf(request).ipKey)
  }

  return {
    ...shared,
    rule,
    tally,
    fail,
    matching,
    stateOf,
    publish,
    announce,
    tallyRefusal,

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
        const text = counterText(ruleName, key, windowMs)
        const { totalHits, resetTime } = await store.increment(text, amount)
        Object.assign(state, { count: totalHits, resetTime })
      } catch (error) {
        log.storeFailed(error)
      }
      return state.count
    },

    /** Adds what the rule counts and lets pass. */
    tallyPass: (amount = 1): void => {
      tally.counted += amount
      tally.passed += amount
    },

    /** Reports that the rule refuses a request or, in a dry run, would refuse it. */
    refuse: (state: LimitState, logFields?: object): void => {
      tallyRefusal(state)
      announce(state, logFields)
    },

    /** Writes a log line about a decision, unless the rule has written too many within the last second. */
    writeLine: (
      line: { readonly level: 'info' | 'warn'; readonly message: string },
      state: LimitState,
      more?: object,
    ): void => {
      const { request, key: _key, count: _count, ...notice } = noticeOf(state)
      const client = logText(factsOf(request).ip)
      const fields = { requestId: request.id, ...notice, client, ...more }
      log.write({ ...line, source: ruleName }, fields)
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
