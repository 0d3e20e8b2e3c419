import type { NoticeType } from './notices.ts'
import type { RuleReport } from './rule-report.ts'
import { type CheckedLimits, RULE_KINDS, type RuleKind } from './rules/rules-schema.ts'

/** What one rule has done, as in its report. The checks of the rule add to it. */
export interface Tally {
  counted: number
  passed: number
  refused: number
  wouldRefuse: number
}

/** The tallies of the rules in force. */
export interface Tallies {
  /** That of a rule in force. */
  of(rule: object): Tally
  /** In the order in which requests meet the rules. */
  report(): readonly RuleReport[]
  /** The tally of a rule by its kind and name. */
  find(kind: RuleKind, name: string): Tally | undefined
}

const TYPES: Readonly<Record<RuleKind, NoticeType>> = {
  safelist: 'safelist',
  blocklist: 'blocklist',
  bans: 'ban',
  throttle: 'throttle',
  track: 'track',
  rateLimits: 'rateLimit',
}

/** Rules that are in `previous` under the same kind and name keep their tallies, others begin at zero. */
export function createTallies(limits: CheckedLimits, previous?: Tallies): Tallies {
  const entries = RULE_KINDS.flatMap(kind =>
    limits[kind].map(rule => {
      const begun = { counted: 0, passed: 0, refused: 0, wouldRefuse: 0 }
      return { kind, rule, tally: previous?.find(kind, rule.name) ?? begun }
    }),
  )
  const tallies = new Map<object, Tally>(entries.map(({ rule, tally }) => [rule, tally]))

  return {
    of: rule => tallies.get(rule) as Tally,

    find: (kind, name) =>
      entries.find(entry => entry.kind === kind && entry.rule.name === name)?.tally,

    report: () =>
      entries.map(({ kind, rule: { name, isDryRun }, tally }) => {
        return { type: TYPES[kind], rule: name, isDryRun, ...tally }
      }),
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
