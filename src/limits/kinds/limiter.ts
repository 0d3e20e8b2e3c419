import { isDeepStrictEqual } from 'node:util'
import { isRegExp } from 'node:util/types'
import type { RequestHandler } from 'express'
import { ACTIONS, type Action } from '../../http/actions.ts'
import type { SplitRequest } from '../../http/router.ts'
import type { RuleParts } from '../guard-rule.ts'
import { showLimits } from '../limit-headers.ts'
import { limitMany, limitRequests } from '../limit-requests.ts'
import type { RefusedClients } from '../refused-clients.ts'
import { needsBody, partsOf } from '../rules/client-key.ts'
import type { NamedRule } from '../rules/filter-rule.ts'
import { factsOf } from '../rules/request-facts.ts'
import { createTallies, type RuleReport, type Tallies } from '../tallies.ts'
import { handleBans } from './ban-rule.ts'
import { type CheckedLimits, type CompiledRateLimit, RULE_KINDS } from './kinds.ts'
import { block, pass } from './match-rules.ts'
import { report as reportMatch } from './track-rule.ts'

/** The difference between two sets of rules; rules by kind and name, as in `throttle "posts"`. */
export type RuleChanges = ReturnType<typeof compareRules>

/** The limits of a service, as middleware whose rules can be changed while it runs. */
export type Limiter = ReturnType<typeof createLimiter>

export interface LimiterOptions extends Omit<RuleParts, 'tallies'> {
  readonly limits: CheckedLimits
  /** Opens the counts of the clients that a rule refuses. If left out, refused clients are not counted. */
  readonly openClients?: (() => RefusedClients) | undefined
}

export function createLimiter(options: LimiterOptions) {
  const { bans } = options
  let rules = compileRules(options.limits, options)
  const report = (): RuleReport[] => Array.from(rules.tallies.values(), tally => ({ ...tally }))

  return {
    /** For all requests, before every route. */
    filter: ((request, response, next) => rules.filter(request, response, next)) as RequestHandler,

    /** For the route of an action, before its body is read. */
    limit:
      (action: Action): RequestHandler =>
      (request, response, next) =>
        rules.beforeBody[action](request, response, next),

    /**
     * For the route of an action: the limits that count by something in its body and, for a request that counts as several, all
     * others once more.
     */
    limitByBody:
      (action: Action, split?: SplitRequest): RequestHandler =>
      (request, response, next) => {
        const bodies = split?.(request)
        if (bodies === undefined) return rules.afterBody[action](request, response, next)
        factsOf(request).bodies = bodies
        rules.ofEach[action](request, response, next)
      },

    /** Replaces all rules in one step. Bans stay, and so do counters, by the kind and name of their rule. */
    replace: (limits: CheckedLimits): RuleChanges => {
      const previous = rules.source
      rules = compileRules(limits, options, rules.tallies)
      options.store?.letRunOut?.(report())
      return compareRules(previous, limits)
    },

    banRules: () => rules.source.bans,

    /** The numbers of the rules in force, and how many bans are in force. */
    report: () => ({ rules: report(), bans: bans.count() }),
  }
}

function compileRules(limits: CheckedLimits, options: LimiterOptions, previous?: Tallies) {
  const named = RULE_KINDS.flatMap((kind): readonly NamedRule[] => limits[kind])
  const parts = { ...options, tallies: createTallies(named, previous, options.openClients) }
  const readsBody = ({ source }: CompiledRateLimit) => needsBody(source.by)
  const afterBody = limits.rateLimits.filter(readsBody)
  const beforeBody = limits.rateLimits.filter(rule => !readsBody(rule))
  return {
    source: limits,
    tallies: parts.tallies,
    filter: chainFilter(limits, parts),
    beforeBody: chainByAction(beforeBody, parts, limitRequests),
    afterBody: chainByAction(afterBody, parts, limitRequests),
    ofEach: chainByAction([...beforeBody, ...afterBody], parts, limitMany),
  }
}

/** All rules that stand before the routes, in the order in which a request meets them. */
function chainFilter(rules: CheckedLimits, parts: RuleParts): RequestHandler {
  const counting = [...rules.bans, ...rules.throttle, ...rules.track, ...rules.rateLimits]
  const bans = rules.bans.map(rule => handleBans(rule, parts))
  const needsAddress =
    parts.store !== undefined &&
    counting.some(rule => 'keyOf' in rule && partsOf(rule.source.by).includes('ip'))
  return chain([
    ...(needsAddress ? [parts.notices.reportMissingAddress] : []),
    ...rules.safelist.map(rule => pass(rule, parts)),
    ...rules.blocklist.map(rule => block(rule, parts)),
    ...bans.map(({ deny }) => deny),
    ...bans.filter(({ statuses }) => !statuses).map(({ strike }) => strike),
    ...rules.throttle.flatMap(rule => limitRequests(rule, parts)),
    // Answers of the filter itself do not count.
    ...bans.filter(({ statuses }) => statuses).map(({ strike }) => strike),
    ...rules.track.map(rule => reportMatch(rule, parts)),
  ])
}

/** For each action, those of the limits that stand on its route. */
function chainByAction(
  rules: readonly CompiledRateLimit[],
  parts: RuleParts,
  handlersOf: (
    rule: CompiledRateLimit,
    parts: RuleParts,
  ) => RequestHandler | readonly RequestHandler[],
) {
  const show: RequestHandler = (request, _response, next) => {
    showLimits(request, parts.steadyNow())
    next()
  }
  return Object.fromEntries(
    ACTIONS.map(action => {
      const ofAction = rules.filter(({ actions }) => actions.includes(action))
      const handlers = ofAction.flatMap(rule => handlersOf(rule, parts))
      return [action, chain([skipSafe, ...handlers, show])]
    }),
  ) as Record<Action, RequestHandler>
}

const skipSafe: RequestHandler = (request, _response, next) => {
  next(factsOf(request).isSafe ? 'router' : undefined)
}

/**
 * Handlers as one. As in a router of Express, which costs each request 4 µs more, `next('router')` skips the rest and an error
 * ends it.
 */
function chain(handlers: readonly RequestHandler[]): RequestHandler {
  return (request, response, done) => {
    let index = 0
    let isRunning = false

    function next(outcome?: unknown): void {
      if (outcome !== undefined) done(outcome === 'router' ? undefined : outcome)
      else {
        index++
        if (!isRunning) run()
      }
    }

    // A loop, because thousands of rules that call each other would exhaust the stack.
    function run(): void {
      isRunning = true
      for (let asked = -1; asked < index; ) {
        asked = index
        const handler = handlers[index]
        const running: unknown = handler ? handler(request, response, next) : done()
        if (running instanceof Promise) running.catch(done)
      }
      isRunning = false
    }

    run()
  }
}

function compareRules(previous: CheckedLimits, current: CheckedLimits) {
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
    typeof value === 'function' || isRegExp(value) ? String(value) : value
  return new Map(
    RULE_KINDS.flatMap(kind =>
      limits[kind].map(({ name, source }) => {
        const plain: unknown = JSON.parse(JSON.stringify(source, toText))
        return [`${kind} ${JSON.stringify(name)}`, plain] as const
      }),
    ),
  )
}
