import type { Request } from 'express'
import { compileDenyOverLimit } from './deny-over-limit.ts'
import type { Check } from './filter.ts'
import { type GuardOptions, guardRule } from './guard-rule.ts'
import type { AddLimitHeaders } from './limit-headers.ts'
import { andThen } from './maybe-promise.ts'
import type { CompiledRateLimit, CompiledThrottle } from './rules/rules-schema.ts'
import { tallyPass } from './tallies.ts'

export interface LimitCheckOptions extends GuardOptions {
  readonly addLimitHeaders: AddLimitHeaders
}

/**
 * Denies requests over a limit. Those of a throttle then get the headers of a limit; on routes all that are counted do, unless
 * the rule is in dry run.
 */
export function checkLimit(
  type: 'throttle' | 'rateLimit',
  rule: CompiledThrottle | CompiledRateLimit,
  options: LimitCheckOptions,
): Check {
  const { notices, addLimitHeaders } = options
  const { name, isDryRun, limit, windowMs } = rule
  const guarded = guardRule(type, rule, options)
  const denyOverLimit = compileDenyOverLimit(rule, { guarded, notices })

  return request => {
    if (!guarded.matches(request)) return undefined
    const key = guarded.keyOf(request)
    if (key === undefined) return undefined
    const quota = guarded.guard(() => {
      return { key, limit: resultOf(limit, request), windowMs: resultOf(windowMs, request) }
    })
    if (quota === undefined) return undefined
    return andThen(guarded.count(request, key, quota.windowMs), counted => {
      if (counted === undefined) return undefined
      const state = { ...quota, count: counted.count, resetsInMs: counted.resetsInMs }
      if (type === 'rateLimit' && !isDryRun) addLimitHeaders(request, name, state)
      if (state.count <= state.limit) {
        tallyPass(guarded.tally)
        return undefined
      }
      const denial = denyOverLimit(request, state)
      if (type === 'throttle' && !isDryRun) addLimitHeaders(request, name, state)
      return denial
    })
  }
}

function resultOf(value: number | ((request: Request) => number), request: Request): number {
  return typeof value === 'function' ? value(request) : value
}
