import type { Request } from 'express'
import type { z } from 'zod'
import { isObject } from '../../platform/json.ts'
import type { ClientKey } from './client-key.ts'
import { combineMatchers, type MatchTests, matchShape } from './matchers.ts'
import { type Answer, flag, key, type RequestTest, ruleName, statuses } from './rule-values.ts'

/** The type of a rule, as in its notices. */
export type RuleType = 'safelist' | 'blocklist' | 'ban' | 'throttle' | 'track' | 'rateLimit'

/** What names a rule in notices and log lines. */
export interface NamedRule {
  readonly type: RuleType
  readonly name: string
  readonly isDryRun: boolean
}

/** A compiled rule of any kind. Its functions throw if those of the file do. */
export interface CompiledRule extends NamedRule {
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
export function ruleText({ type, name }: Pick<NamedRule, 'type' | 'name'>): string {
  return `${type} ${name.length} ${name}`
}

/**
 * What a rule of the file has by a shape. Editors show the comments on its keys, as long as the declaration of the shape itself
 * has them: those of keys from another file are lost in it.
 */
export type InputOf<Shape extends z.ZodRawShape> = z.input<z.ZodObject<Shape>>

export const named = {
  /** Unique among the rules of its kind. The default is the place of the rule, as in `throttle[0]`. */
  name: ruleName.optional(),
}

export const dryRun = {
  /** Counts, and reports what the rule would do, but lets the request pass. */
  dryRun: flag.optional(),
}

/** All keys that are given must match; a rule without any matches every request. */
export type Matching = InputOf<typeof matchShape>

export const filterShape = { ...named, ...matchShape, ...dryRun }

export type FilterShape = typeof named & typeof matchShape & typeof dryRun

/** Of rules that can wait for the answer. */
export const answered = {
  /** From 200 to 599: a matching request counts once its answer has one of these statuses, and not before. */
  status: statuses.optional(),
}

export const byAddress = key({ withBody: false }).prefault('ip')

/** For `refine`: a key that does not fit to the others, which is checked even if one of them is wrong. */
export const misfit = (key: string, error: string) => {
  return { path: [key], error, when: ({ value }: { readonly value: unknown }) => isObject(value) }
}

/** What is compiled for each kind. */
export function compileFilter({
  dryRun = false,
  ...tests
}: MatchTests & { dryRun?: boolean | undefined }) {
  return { isDryRun: dryRun, matches: combineMatchers(tests) }
}
