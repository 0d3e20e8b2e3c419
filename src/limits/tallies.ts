import type { NamedRule } from './notices.ts'
import { type CheckedLimits, RULE_KINDS, type RuleType, ruleText } from './rules/rules-schema.ts'

/** What one rule has done since the start. The checks of the rule add to it. */
export interface Tally {
  /** Requests that the rule matched and, if it counts, counted. */
  counted: number
  /** Of those, requests that the rule let pass, and not only because it is in dry run. */
  passed: number
  /** Requests that the rule refused, with those of clients that it has banned. */
  refused: number
  /** Requests that it would have refused if it were not in dry run. */
  wouldRefuse: number
}

/** The tally of a rule. Kept over a reload if the rule keeps its type and name. */
export interface RuleReport extends Readonly<Tally> {
  readonly type: RuleType
  readonly rule: string
  readonly isDryRun: boolean
}

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

/** The tallies of the rules in force, each under its `ruleText`. */
export type Tallies = ReadonlyMap<string, Tally>

/** Rules that have a tally keep it, others begin at zero. */
export function createTallies(limits: CheckedLimits, previous?: Tallies): Tallies {
  return new Map(
    rulesOf(limits).map(({ type, name }) => {
      const text = ruleText(type, name)
      const begun = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
      return [text, previous?.get(text) ?? begun]
    }),
  )
}

/** The tally of a rule in force. */
export function tallyOf(tallies: Tallies, { type, name }: NamedRule): Tally {
  return tallies.get(ruleText(type, name)) as Tally
}

/** In the order in which requests meet the rules. */
export function reportTallies(limits: CheckedLimits, tallies: Tallies): readonly RuleReport[] {
  return rulesOf(limits).map(rule => {
    const { type, name, isDryRun } = rule
    return { type, rule: name, isDryRun, ...tallyOf(tallies, rule) }
  })
}

function rulesOf(limits: CheckedLimits): readonly NamedRule[] {
  return RULE_KINDS.flatMap((kind): readonly NamedRule[] => limits[kind])
}

/** Adds a request that the rule counts and lets pass. */
export function tallyPass(tally: Tally): void {
  tally.counted++
  tally.passed++
}
