import type { z } from 'zod'
import type { RuleType } from '../rules/compiled-rule.ts'
import { bans } from './ban-rule.ts'
import { blocklist } from './blocklist-rule.ts'
import type { LimitsFile } from './define-limits.ts'
import { rateLimits } from './rate-limit-rule.ts'
import { safelist } from './safelist-rule.ts'
import { throttle } from './throttle-rule.ts'
import { track } from './track-rule.ts'

/** The kinds of rules, in the order in which a request meets them: the type of a rule, and what checks and compiles it. */
export const KINDS = {
  safelist,
  blocklist,
  bans,
  throttle,
  track,
  rateLimits,
} as const satisfies Record<keyof LimitsFile, { readonly type: RuleType }>

type Kinds = typeof KINDS

/** The kinds of rules by their names in a limits file. */
export type RuleKind = keyof Kinds

export const RULE_KINDS = Object.keys(KINDS) as RuleKind[]

type Compiled<Kind extends RuleKind> = z.output<Kinds[Kind]['schema']> & {
  readonly type: Kinds[Kind]['type']
  readonly name: string
  /** As written in the file, to describe and compare it. */
  readonly source: z.input<Kinds[Kind]['schema']>
}

/** The rules of a limits file, checked and compiled, by their kind. Functions in them may throw. */
export type CheckedLimits = { readonly [Kind in RuleKind]-?: readonly Compiled<Kind>[] }

export type CompiledBan = Compiled<'bans'>

/** The keys that a rule of a kind may have. */
export function keysOf(kind: RuleKind): readonly string[] {
  return Object.keys(KINDS[kind].schema.in.shape)
}

/** The rules of a service without limits. */
export const NO_LIMITS = Object.fromEntries(
  RULE_KINDS.map(kind => [kind, []]),
) as unknown as CheckedLimits
