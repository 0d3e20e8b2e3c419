import { isDeepStrictEqual } from 'node:util'
import type { RequestHandler } from 'express'
import { ACTIONS, type Action } from '../http/actions.ts'
import { createFilter } from './filter.ts'
import { compileChecks } from './filter-checks.ts'
import type { RuleParts } from './guard-rule.ts'
import { createLimitHeaders } from './limit-headers.ts'
import { createRouteLimit } from './route-limit.ts'
import { needsBody } from './rules/client-key.ts'
import { factsOf } from './rules/request-facts.ts'
import { type CheckedLimits, RULE_KINDS } from './rules/rules-schema.ts'
import { createTallies, type Tallies } from './tallies.ts'

/** The difference between two sets of rules; rules by kind and name, as in `throttle "posts"`. */
export interface RuleChanges {
  readonly came: readonly string[]
  readonly went: readonly string[]
  readonly changed: readonly string[]
}

/** The limits of a service, as middleware whose rules can be changed while it runs. */
export type Limiter = ReturnType<typeof createLimiter>

export interface LimiterOptions extends Omit<RuleParts, 'tallies' | 'addLimitHeaders'> {
  readonly limits: CheckedLimits
}

export function createLimiter(options: LimiterOptions) {
  const { bans, notices } = options
  const parts = { ...options, addLimitHeaders: createLimitHeaders() }
  let rules = compileRules(options.limits, parts)

  function guardRoute(action: Action, when: 'beforeBody' | 'afterBody'): RequestHandler {
    return (request, response, next) => {
      if (factsOf(request).isSafe) return next()
      const limits = rules[when][action]
      const askFrom = (index: number): unknown =>
        limits[index] === undefined
          ? next()
          : limits[index](request, response, error =>
              error === undefined ? askFrom(index + 1) : next(error),
            )
      askFrom(0)
    }
  }

  return {
    /** For all requests, before every route. */
    filter: createFilter({
      checksInForce: () => rules.checks,
      onSendingFailure: notices.sendingFailed,
    }),

    /** For the route of an action, before its body is read. */
    limit: (action: Action) => guardRoute(action, 'beforeBody'),

    /** For the route of an action: the limits that count by something in its body. */
    limitByBody: (action: Action) => guardRoute(action, 'afterBody'),

    /** Replaces all rules in one step. Bans stay, and the counters of rules that keep their kind and name. */
    replace: (limits: CheckedLimits): RuleChanges => {
      const previous = rules.source
      rules = compileRules(limits, parts, rules.tallies.find)
      options.store?.keepOnly?.(rules.tallies.report())
      return compareRules(previous, limits)
    },

    /** The ban rules in force. */
    banRules: () => rules.source.bans,

    /** The numbers of the rules in force, and how many bans are in force. */
    report: () => ({ rules: rules.tallies.report(), bans: bans.count() }),
  }
}

function compileRules(
  limits: CheckedLimits,
  given: Omit<RuleParts, 'tallies'>,
  findPrevious?: Tallies['find'],
) {
  const parts = { ...given, tallies: createTallies(limits, findPrevious) }
  const { store, tallies } = parts
  const routeLimits =
    store === undefined
      ? []
      : limits.rateLimits.map(rule => {
          return { rule, handler: createRouteLimit(rule, { ...parts, store }) }
        })

  function groupByAction(afterBody: boolean) {
    return Object.fromEntries(
      ACTIONS.map(action => [
        action,
        routeLimits
          .filter(({ rule }) => rule.actions.includes(action))
          .filter(({ rule }) => needsBody(rule.source.by) === afterBody)
          .map(({ handler }) => handler),
      ]),
    ) as Record<Action, RequestHandler[]>
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
