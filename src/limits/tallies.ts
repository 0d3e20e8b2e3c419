import {
  type CheckedLimits,
  RULE_KINDS,
  type RuleKind,
  type RuleType,
} from './rules/rules-schema.ts'

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

/** The tallies of the rules in force. */
export type Tallies = ReturnType<typeof createTallies>

type FindTally = (kind: RuleKind, name: string) => Tally | undefined

/** Rules for which `findPrevious` has a tally keep it, others begin at zero. */
export function createTallies(limits: CheckedLimits, findPrevious: FindTally = () => undefined) {
  const entries = entriesOf(limits, findPrevious)
  const tallies = new Map<object, Tally>(entries.map(({ rule, tally }) => [rule, tally]))

  return {
    /** The tally of a rule in force. */
    of: (rule: object) => tallies.get(rule) as Tally,

    /** The tally of a rule by its kind and name. */
    find: (kind: RuleKind, name: string): Tally | undefined =>
      entries.find(entry => entry.kind === kind && entry.rule.name === name)?.tally,

    /** In the order in which requests meet the rules. */
    report: (): readonly RuleReport[] =>
      entries.map(({ rule: { type, name, isDryRun }, tally }) => {
        return { type, rule: name, isDryRun, ...tally }
      }),
  }
}

/** Apart from the functions of the tallies, which would keep `findPrevious`, and with it the rules of all earlier reloads. */
function entriesOf(limits: CheckedLimits, findPrevious: FindTally) {
  return RULE_KINDS.flatMap(kind =>
    limits[kind].map(rule => {
      const begun = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
      return { kind, rule, tally: findPrevious(kind, rule.name) ?? begun }
    }),
  )
}

/** Adds a request that the rule counts and lets pass. */
export function tallyPass(tally: Tally): void {
  tally.counted++
  tally.passed++
}

/** Adds a request that the rule refuses or, in a dry run, would refuse. */
export function tallyRefusal(tally: Tally, { isDryRun }: { readonly isDryRun: boolean }): void {
  if (isDryRun) tally.wouldRefuse++
  else tally.refused++
}
