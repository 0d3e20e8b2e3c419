import type { Request } from 'express'
import type { z } from 'zod'
import { isObject } from '../../platform/json.ts'
import type { KeyOf } from './client-key.ts'
import type { Answer, Key, LimitsFile } from './limits-file.ts'
import { combineMatchers, type MatchTests, matchShape, type RequestTest } from './matchers.ts'
import { flag, key, ruleName, statuses } from './rule-values.ts'

/** The kinds of rules by their names in a limits file. */
export type RuleKind = keyof LimitsFile

/** A rule of the file. */
export type FileRule<Kind extends RuleKind> = NonNullable<LimitsFile[Kind]>[number]

/** A schema for each key of a rule of the file, no more and no fewer. */
export type ShapeOf<Kind extends RuleKind> = {
  readonly [Name in keyof FileRule<Kind>]-?: z.ZodType<unknown, FileRule<Kind>[Name] | undefined>
}

/** The type of a rule, as in its notices. */
export type RuleType = 'safelist' | 'blocklist' | 'ban' | 'throttle' | 'track' | 'rateLimit'

/** What names a rule in notices and log lines. */
export interface NamedRule {
  readonly type: RuleType
  readonly name: string
  readonly isDryRun: boolean
}

/** A compiled rule of any kind. */
export interface CompiledRule extends NamedRule {
  /** Throws if a function of the rule does. */
  readonly matches: RequestTest
}

/** What a rule has that counts: `limit` requests of a key pass in each window of `windowMs`. */
export interface CompiledCounter {
  readonly keyOf: KeyOf
  readonly limit: number | ((request: Request) => number)
  readonly windowMs: number | ((request: Request) => number)
}

/** A rule that denies what is over its limit. */
export interface LimitRule extends CompiledRule, CompiledCounter {
  readonly answer?: Answer | undefined
  readonly source: { readonly by?: Key }
}

/** Differs for different rules, because no type has a blank. */
export function ruleText(type: RuleType, name: string): string {
  return `${type} ${name}`
}

export const safelistShape = { name: ruleName, ...matchShape }

export const filterShape = { ...safelistShape, dryRun: flag.default(false) }

/** Of rules that can wait for the answer. */
export const answeredShape = { ...filterShape, status: statuses.optional() }

export const byAddress = key({ withBody: false }).prefault('ip')

/** For `refine`: a key that does not fit to the others, which is checked even if one of them is wrong. */
export const misfit = (key: string, error: string) => {
  return { path: [key], error, when: ({ value }: { readonly value: unknown }) => isObject(value) }
}

/** What is compiled for each kind. */
export function compileFilter(
  rule: MatchTests & { readonly name: string; readonly dryRun?: boolean },
) {
  const { name, dryRun = false, ...tests } = rule
  return { name, isDryRun: dryRun, matches: combineMatchers(tests) }
}
