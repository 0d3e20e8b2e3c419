import type { z } from 'zod'
import type { FileRule, RuleKind } from '../rules/filter-rule.ts'
import { bans } from './ban-rule.ts'
import { rateLimits, throttle } from './limit-rules.ts'
import { blocklist, safelist } from './match-rules.ts'
import { track } from './track-rule.ts'

/** The kinds of rules, in the order in which a request meets them: the type, the keys of a rule, and what checks and compiles it. */
export const KINDS = { safelist, blocklist, bans, throttle, track, rateLimits } as const

export const RULE_KINDS = Object.keys(KINDS) as RuleKind[]

type Compiled<Kind extends RuleKind> = z.output<(typeof KINDS)[Kind]['schema']> & {
  readonly type: (typeof KINDS)[Kind]['type']
  /** As written in the file, to describe and compare it. */
  readonly source: FileRule<Kind>
}

/** The rules of a limits file, checked and compiled, by their kind. Functions in them may throw. */
export type CheckedLimits = { readonly [Kind in RuleKind]-?: readonly Compiled<Kind>[] }

export type CompiledBan = Compiled<'bans'>
export type CompiledRateLimit = Compiled<'rateLimits'>

/** The rules of a service without limits. */
export const NO_LIMITS = Object.fromEntries(
  RULE_KINDS.map(kind => [kind, []]),
) as unknown as CheckedLimits
