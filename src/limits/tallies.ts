import type { RefusedClients } from './refused-clients.ts'
import { type NamedRule, type RuleType, ruleText } from './rules/filter-rule.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'

/** What one rule has done since the start. Its handlers add to it. */
export interface Tally {
  type: RuleType
  rule: string
  isDryRun: boolean
  /** Requests that the rule matched and, if it counts, counted. A request with several users counts as several. */
  counted: number
  /** Of those, requests that the rule let pass. Not those that pass only because it is in dry run. */
  passed: number
  /** Requests that the rule refused, with those of clients that it has banned. */
  refused: number
  /** Requests that it would have refused if it were not in dry run. */
  wouldRefuse: number
  /** Whom the rule has refused; `undefined` without a management port. */
  readonly clients?: RefusedClients | undefined
}

/** A tally at a moment; its `clients` go on. */
export type RuleReport = Readonly<Tally>

/** The limits as one process sees them. */
export interface LimitsReport {
  /** In the order in which requests meet them. */
  readonly rules: readonly RuleReport[]
  /** Bans in force. */
  readonly bans: number
  /** Where requests are counted. */
  readonly store: 'memory' | 'redis' | 'none'
  /** Whether that store can be reached; otherwise this process counts by itself. */
  readonly isStoreUp: boolean
}

/** The tallies of the rules in force, each under its `ruleText`, in the order in which requests meet the rules. */
export type Tallies = ReadonlyMap<string, Tally>

/** A rule keeps its tally over a reload if it keeps its type and name. Others begin at zero, with what `openClients` returns. */
export function createTallies(
  rules: readonly NamedRule[],
  previous: Tallies | undefined,
  openClients: (() => RefusedClients) | undefined,
): Tallies {
  return new Map(
    rules.map(({ type, name, isDryRun }) => {
      const text = ruleText(type, name)
      const counts = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
      const tally = previous?.get(text) ?? { ...counts, clients: openClients?.() }
      return [text, Object.assign(tally, { type, rule: name, isDryRun })]
    }),
  )
}

/** The tally of a rule in force. */
export function tallyOf(tallies: Tallies, { type, name }: NamedRule): Tally {
  return tallies.get(ruleText(type, name)) as Tally
}

/** Adds what the rule counts and lets pass. */
export function tallyPass(tally: Tally, amount = 1): void {
  tally.counted += amount
  tally.passed += amount
}

/**
 * Adds a request that the rule refuses or, in a dry run, would refuse. Its client is known by its address where the rule does
 * not count.
 */
export function tallyRefusal(
  tally: Tally,
  { key, request, amount }: Pick<LimitState, 'key' | 'request' | 'amount'>,
) {
  if (tally.isDryRun) {
    tally.wouldRefuse += amount
    return
  }
  tally.refused += amount
  tally.clients?.add(key ?? factsOf(request).ipKey)
}
