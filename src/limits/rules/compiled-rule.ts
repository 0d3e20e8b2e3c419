import type { Request } from 'express'
import type { ClientKey } from './client-key.ts'
import type { Answer, RequestTest } from './rule-values.ts'

/** The type of a rule, as in its notices. */
export type RuleType = 'safelist' | 'blocklist' | 'ban' | 'throttle' | 'track' | 'rateLimit'

/** A compiled rule of any kind. Its functions throw if those of the file do. */
export interface CompiledRule {
  readonly type: RuleType
  readonly name: string
  readonly isDryRun: boolean
  readonly matches: RequestTest
}

/** What a rule has that counts: `limit` requests of a key pass in each window of `windowMs`. */
export interface CompiledCounter {
  readonly by: ClientKey
  readonly limit: number | ((request: Request) => number)
  readonly windowMs: number | ((request: Request) => number)
}

/** A rule that denies what is over its limit. */
export interface LimitRule extends CompiledRule, CompiledCounter {
  readonly answer?: Answer | undefined
}

/** Differs for different rules. With the length of its name, so that its end is known whatever follows. */
export function ruleText({ type, name }: Pick<CompiledRule, 'type' | 'name'>): string {
  return `${type} ${name.length} ${name}`
}
