import type { RequestHandler } from 'express'
import type { Logger } from 'pino'
import type { BanList } from './ban-list.ts'
import type { CounterStore } from './counter-store.ts'
import { createFilter } from './filter.ts'
import { compileFilterRules } from './filter-rules.ts'
import { createLimitHeaders } from './limit-headers.ts'
import type { Action } from './limits-file.ts'
import { createNotices } from './notices.ts'
import { factsOf } from './request-facts.ts'
import { createRouteLimit, type RouteLimit } from './route-limits.ts'
import { ACTIONS, type CheckedLimits, RULE_KINDS } from './rules-schema.ts'

/** The limits of a service, as middleware whose rules can be changed while it runs. */
export interface Limiter {
  /** Before every route. */
  readonly filter: RequestHandler
  /** On the route of an action, before its body is read. */
  beforeBody(action: Action): RequestHandler
  /** On the route of an action, for limits that count by something in its body. */
  afterBody(action: Action): RequestHandler
  /** Puts other rules in place of those before, as one step. Counters and bans stay. */
  replace(limits: CheckedLimits): RuleChanges
}

/** Rules by kind and name, as in `throttle "posts"`. */
export interface RuleChanges {
  readonly came: readonly string[]
  readonly went: readonly string[]
  readonly changed: readonly string[]
}

export interface LimiterOptions {
  readonly limits: CheckedLimits
  /** `undefined` where nothing is counted. */
  readonly store: CounterStore | undefined
  readonly bans: BanList
  readonly log: Logger
  readonly now: () => number
  readonly monotonicNow: () => number
}

export function createLimiter(options: LimiterOptions): Limiter {
  const { store, bans, log, now, monotonicNow } = options
  const notices = createNotices({ log, monotonicNow })
  const addLimitHeaders = createLimitHeaders()
  let rules = compile(options.limits)
  const filter = createFilter({
    rules: () => rules.filter,
    store,
    bans,
    notices,
    addLimitHeaders,
    now,
  })

  function compile(limits: CheckedLimits) {
    const routeOptions = store && { store, notices, addLimitHeaders }
    const routes = routeOptions
      ? limits.rateLimits.map(rule => createRouteLimit(rule, routeOptions))
      : []
    const ofAction = (needsBody: boolean) =>
      Object.fromEntries(
        ACTIONS.map(action => [
          action,
          routes.filter(limit => limit.needsBody === needsBody && limit.actions.has(action)),
        ]),
      ) as Record<Action, RouteLimit[]>
    return {
      source: limits,
      filter: compileFilterRules(limits),
      beforeBody: ofAction(false),
      afterBody: ofAction(true),
    }
  }

  function guard(action: Action, when: 'beforeBody' | 'afterBody'): RequestHandler {
    return (request, response, next) => {
      if (factsOf(request).isSafe) next()
      else runInTurn(rules[when][action], 0, request, response, next)
    }
  }

  return {
    filter,
    beforeBody: action => guard(action, 'beforeBody'),
    afterBody: action => guard(action, 'afterBody'),
    replace: limits => {
      const before = describeRules(rules.source)
      rules = compile(limits)
      return changesBetween(before, describeRules(limits))
    },
  }
}

/** Asks each limit from a place on, once the one before it let the request pass. */
function runInTurn(
  limits: readonly RouteLimit[],
  place: number,
  ...[request, response, next]: Parameters<RequestHandler>
): void {
  const limit = limits[place]
  if (limit === undefined) {
    next()
    return
  }
  limit.handler(request, response, error => {
    if (error === undefined) runInTurn(limits, place + 1, request, response, next)
    else next(error)
  })
}

function describeRules(limits: CheckedLimits): ReadonlyMap<string, string> {
  return new Map(
    RULE_KINDS.flatMap(kind =>
      limits[kind].map(rule => [`${kind} ${JSON.stringify(rule.name)}`, describe(rule)] as const),
    ),
  )
}

/** Text that is another one for another rule, also by the code of its functions. */
function describe(value: unknown): string {
  if (typeof value === 'function' || value instanceof RegExp) return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  const entries = Object.entries(value).map(
    ([key, item]) => `${JSON.stringify(key)}:${describe(item)}`,
  )
  return Array.isArray(value) ? `[${entries}]` : `{${entries.sort()}}`
}

function changesBetween(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): RuleChanges {
  return {
    came: [...after.keys()].filter(rule => !before.has(rule)),
    went: [...before.keys()].filter(rule => !after.has(rule)),
    changed: [...after.keys()].filter(
      rule => before.has(rule) && before.get(rule) !== after.get(rule),
    ),
  }
}
