import { isDeepStrictEqual } from 'node:util'
import type { NextFunction, RequestHandler } from 'express'
import { ACTIONS, type Action } from '../http/actions.ts'
import { countByAnswer } from './answer-counts.ts'
import type { BanList } from './ban-list.ts'
import type { CounterStore } from './counter-store.ts'
import { askChecks, type Check } from './filter.ts'
import { type CheckOptions, compileChecks } from './filter-checks.ts'
import { checkLimit } from './limit-check.ts'
import { createLimitHeaders } from './limit-headers.ts'
import type { Notices } from './notices.ts'
import { needsBody } from './rules/client-key.ts'
import { factsOf } from './rules/request-facts.ts'
import { type CheckedLimits, type CompiledBan, RULE_KINDS } from './rules/rules-schema.ts'
import { createTallies, type LimitsReport, type Tallies } from './tallies.ts'

/** The limits of a service, as middleware whose rules can be changed while it runs. */
export interface Limiter {
  /** For all requests, before every route. */
  readonly filter: RequestHandler
  /** For the route of an action, before its body is read. */
  limit(action: Action): RequestHandler
  /** For the route of an action: the limits that count by something in its body. */
  limitByBody(action: Action): RequestHandler
  /** Replaces all rules in one step. Counters and bans stay. */
  replace(limits: CheckedLimits): RuleChanges
  /** The ban rules in force. */
  banRules(): readonly CompiledBan[]
  /** The numbers of the rules in force, and how many bans are in force. */
  report(): Pick<LimitsReport, 'rules' | 'bans'>
}

/** The difference between two sets of rules; rules by kind and name, as in `throttle "posts"`. */
export interface RuleChanges {
  readonly came: readonly string[]
  readonly went: readonly string[]
  readonly changed: readonly string[]
}

export interface LimiterOptions {
  readonly limits: CheckedLimits
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly bans: BanList
  readonly notices: Notices
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export function createLimiter(options: LimiterOptions): Limiter {
  const { bans, notices } = options
  const parts = { ...options, addLimitHeaders: createLimitHeaders() }
  let rules = compileRules(options.limits, parts)

  function askRoute(action: Action, when: 'beforeBody' | 'afterBody'): RequestHandler {
    return (request, response, next) => {
      if (factsOf(request).isSafe) next()
      else void askChecks(rules[when][action], { request, response, next })
    }
  }

  return {
    filter: (request, response, next) => {
      const pass: NextFunction = error => {
        if (error === undefined) countByAnswer(request, response, notices.sendingFailed)
        next(error)
      }
      void askChecks(rules.checks, { request, response, next: pass })
    },
    limit: action => askRoute(action, 'beforeBody'),
    limitByBody: action => askRoute(action, 'afterBody'),
    replace: limits => {
      const previous = rules.source
      rules = compileRules(limits, parts, rules.tallies)
      return compareRules(previous, limits)
    },
    banRules: () => rules.source.bans,
    report: () => ({ rules: rules.tallies.report(), bans: bans.count() }),
  }
}

function compileRules(
  limits: CheckedLimits,
  options: Omit<CheckOptions, 'tallies'>,
  previous?: Tallies,
) {
  const tallies = createTallies(limits, previous)
  const parts = { ...options, tallies }
  const routes = limits.rateLimits.map(rule => {
    return {
      rule,
      isByBody: needsBody(rule.source.by),
      check: checkLimit('rateLimit', rule, parts),
    }
  })

  function groupByAction(byBody: boolean) {
    return Object.fromEntries(
      ACTIONS.map(action => [
        action,
        routes
          .filter(({ rule, isByBody }) => isByBody === byBody && rule.actions.includes(action))
          .map(({ check }) => check),
      ]),
    ) as Record<Action, Check[]>
  }

  return {
    source: limits,
    tallies,
    checks: compileChecks(limits, parts),
    beforeBody: groupByAction(false),
    afterBody: groupByAction(true),
  }
}

function compareRules(previous: CheckedLimits, current: CheckedLimits): RuleChanges {
  const before = sourcesByRule(previous)
  const after = sourcesByRule(current)
  const isChanged = (rule: string) =>
    before.has(rule) && !isDeepStrictEqual(before.get(rule), after.get(rule))
  return {
    came: [...after.keys()].filter(rule => !before.has(rule)),
    went: [...before.keys()].filter(rule => !after.has(rule)),
    changed: [...after.keys()].filter(isChanged),
  }
}

/** Functions are compared by their code: a module that is read again has new ones. */
function sourcesByRule(limits: CheckedLimits): ReadonlyMap<string, unknown> {
  const toText = (_key: string, value: unknown) =>
    typeof value === 'function' || value instanceof RegExp ? String(value) : value
  return new Map(
    RULE_KINDS.flatMap(kind =>
      limits[kind].map(({ name, source }) => {
        const plain: unknown = JSON.parse(JSON.stringify(source, toText))
        return [`${kind} ${JSON.stringify(name)}`, plain] as const
      }),
    ),
  )
}
