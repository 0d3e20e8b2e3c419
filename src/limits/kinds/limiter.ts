import { isDeepStrictEqual } from 'node:util'
import { isRegExp } from 'node:util/types'
import type { RequestHandler } from 'express'
import { ACTIONS, type Action } from '../../http/actions.ts'
import type { SplitRequest } from '../../http/router.ts'
import { ruleText } from '../counter-store.ts'
import { limitMany, limitRequests } from '../limit-requests.ts'
import { putInForce, type Shared, type Tally } from '../rule-in-force.ts'
import { createRefusedClients, type RuleReport } from '../rule-report.ts'
import { factsOf } from '../rules/request-facts.ts'
import type { CompiledRule } from '../rules/rule-values.ts'
import { block, handleBans, passSafely, track as trackMatches } from './filter-rules.ts'
import { type CheckedLimits, RULE_KINDS, type RuleKind } from './kinds.ts'

/** The difference between two sets of rules; rules by kind and name, as in `throttle "posts"`. */
export type RuleChanges = ReturnType<typeof compareRules>

/** The limits of a service, as middleware whose rules can be changed while it runs. */
export type Limiter = ReturnType<typeof createLimiter>

export function createLimiter({ limits, ...shared }: Shared & { readonly limits: CheckedLimits }) {
  let rules = chainRules(limits, shared)

  return {
    /** For all requests, before every route. */
    filter: ((request, response, next) => rules.filter(request, response, next)) as RequestHandler,

    /** For the route of an action, before its body is read. */
    limit:
      (action: Action): RequestHandler =>
      (request, response, next) =>
        rules.routes[action].beforeBody(request, response, next),

    /**
     * For the route of an action: the limits that count by something in its body and, for a request that counts as several, all
     * others once more.
     */
    limitByBody:
      (action: Action, split?: SplitRequest): RequestHandler =>
      (request, response, next) => {
        const bodies = split?.(request)
        factsOf(request).bodies = bodies
        const { afterBody, ofEach } = rules.routes[action]
        return (bodies ? ofEach : afterBody)(request, response, next)
      },

    /** Replaces all rules in one step. Bans stay, and so do counters, by the kind and name of their rule. */
    replace: (limits: CheckedLimits): RuleChanges => {
      const previous = rules.source
      rules = chainRules(limits, shared, rules.tallies)
      shared.store?.letRunOut?.(new Set(rules.tallies.keys()))
      return compareRules(previous, limits)
    },

    banRules: () => rules.source.bans,

    /** The numbers of the rules in force, and how many bans are in force. */
    report: () => ({
      rules: Array.from(rules.tallies.values(), (tally): RuleReport => ({ ...tally })),
      bans: shared.bans.count(),
    }),
  }
}

/** The tallies of rules, each under its `ruleText`, in the order in which requests meet the rules. */
type Tallies = ReadonlyMap<string, Tally>

/** The handlers of all rules. A rule keeps its tally over a reload if it keeps its type and name. */
function chainRules(limits: CheckedLimits, shared: Shared, previous?: Tallies) {
  const tallies = new Map<string, Tally>()

  function inForce<Rule extends CompiledRule>(rule: Rule) {
    const { type, name, isDryRun } = rule
    const known = previous?.get(ruleText(rule)) ?? {
      ...{ counted: 0, passed: 0, refused: 0, wouldRefuse: 0 },
      clients: createRefusedClients(shared.steadyNow),
    }
    const tally = Object.assign(known, { type, rule: name, isDryRun })
    tallies.set(ruleText(rule), tally)
    return putInForce(rule, tally, shared)
  }

  const { safelist, blocklist, bans, throttle, track, rateLimits } = {
    safelist: limits.safelist.map(rule => passSafely(inForce(rule))),
    blocklist: limits.blocklist.map(rule => block(inForce(rule))),
    bans: limits.bans.map(rule => ({ rule, ...handleBans(inForce(rule)) })),
    throttle: limits.throttle.map(rule => limitRequests(inForce(rule))),
    track: limits.track.map(rule => trackMatches(inForce(rule))),
    rateLimits: limits.rateLimits.map(rule => {
      const ruled = inForce(rule)
      return { rule, one: limitRequests(ruled), many: limitMany(ruled) }
    }),
  } satisfies Record<RuleKind, readonly unknown[]>
  const strikes = (isOfAnswers: boolean) =>
    bans
      .filter(({ rule }) => (rule.statuses !== undefined) === isOfAnswers)
      .map(each => each.strike)
  const needsAddress =
    shared.store !== undefined &&
    RULE_KINDS.some(kind => limits[kind].some(rule => 'by' in rule && rule.by.names.includes('ip')))

  /** The handlers of the limits that stand on the route of an action. */
  function chainRoute(action: Action) {
    const ofAction = rateLimits.filter(({ rule }) => rule.actions.includes(action))
    const early = ofAction.filter(({ rule }) => !rule.by.needsBody)
    const late = ofAction.filter(({ rule }) => rule.by.needsBody)
    const inOrder = (handlers: readonly RequestHandler[]) => chain([skipSafe, ...handlers])
    return {
      beforeBody: inOrder(early.map(({ one }) => one)),
      afterBody: inOrder(late.map(({ one }) => one)),
      ofEach: inOrder([...early, ...late].map(({ many }) => many)),
    }
  }

  return {
    source: limits,
    tallies: tallies as Tallies,
    filter: chain([
      ...(needsAddress ? [shared.log.reportMissingAddress] : []),
      ...safelist,
      ...blocklist,
      ...bans.map(({ deny }) => deny),
      ...strikes(false),
      ...throttle,
      // Answers of the filter itself do not count.
      ...strikes(true),
      ...track,
    ]),
    routes: Object.fromEntries(ACTIONS.map(action => [action, chainRoute(action)])) as Record<
      Action,
      ReturnType<typeof chainRoute>
    >,
  }
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
      limits[kind].map(({ name, source }: CheckedLimits[typeof kind][number]) => {
        const plain: unknown = JSON.parse(JSON.stringify(source, toText))
        return [`${kind} ${JSON.stringify(name)}`, plain] as const
      }),
    ),
  )
}
