import type { NoticeType } from './notices.ts'
import type { RuleReport } from './rule-report.ts'
import type { CheckedLimits, RuleKind } from './rules/compiled-rules.ts'
import { RULE_KINDS } from './rules/rules-schema.ts'

/** What one rule has done, as in its report. What asks the rule finds it when it is compiled, and then only adds to it. */
export interface Tally {
  counted: number
  passed: number
  refused: number
  wouldRefuse: number
}

/** The tallies of the rules in force. */
export interface Tallies {
  of(rule: Rule): Tally
  /** In the order in which requests meet the rules. */
  report(): readonly RuleReport[]
  /** The tally of a rule by its type and name. */
  find(type: NoticeType, name: string): Tally | undefined
}

type Rule = CheckedLimits[RuleKind][number]

const TYPES: Readonly<Record<RuleKind, NoticeType>> = {
  safelist: 'safelist',
  blocklist: 'blocklist',
  bans: 'ban',
  throttle: 'throttle',
  track: 'track',
  rateLimits: 'rateLimit',
}

/** Rules that are in `previous` under the same type and name keep their tallies, others begin at zero. */
export function createTallies(limits: CheckedLimits, previous?: Tallies): Tallies {
  const tallies = new Map<Rule, Tally>()
  const byName = new Map<string, Tally>()
  for (const kind of RULE_KINDS) {
    const type = TYPES[kind]
    for (const rule of limits[kind]) {
      const tally = previous?.find(type, rule.name) ?? createTally()
      tallies.set(rule, tally)
      byName.set(keyOf(type, rule.name), tally)
    }
  }

  return {
    of: rule => tallies.get(rule) as Tally,

    find: (type, name) => byName.get(keyOf(type, name)),

    report: () =>
      RULE_KINDS.flatMap(kind =>
        limits[kind].map(rule => {
          const { name, isDryRun } = rule
          return { type: TYPES[kind], rule: name, isDryRun, ...(tallies.get(rule) as Tally) }
        }),
      ),
  }
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

function createTally(): Tally {
  return { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
}

function keyOf(type: NoticeType, name: string): string {
  return `${type} ${name}`
}
