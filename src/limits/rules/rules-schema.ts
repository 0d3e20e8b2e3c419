import { z } from 'zod'
import { ACTIONS } from '../../http/actions.ts'
import { isObject } from '../../json.ts'
import type { LimitsFile } from './limits-file.ts'
import { combineMatchers, type MatchTests, matchShape } from './matchers.ts'
import {
  actions,
  answer,
  count,
  countOrFunction,
  duration,
  durationOrFunction,
  flag,
  key,
  ruleName,
  statuses,
} from './rule-values.ts'

export type RuleKind = keyof LimitsFile

type FileRule<Kind extends RuleKind> = NonNullable<LimitsFile[Kind]>[number]

/** A schema for each key of a rule of the file, no more and no fewer. */
type ShapeOf<Rule> = { readonly [Key in keyof Rule]-?: z.ZodType<unknown, Rule[Key] | undefined> }

const safelistShape = { name: ruleName, ...matchShape }

const filterShape = { ...safelistShape, dryRun: flag.default(false) }

const answeredShape = { ...filterShape, status: statuses.optional() }

const byAddress = key({ withBody: false }).prefault('ip')

/** The keys of each kind, in the order in which a request meets the kinds. */
export const RULE_SHAPES = {
  safelist: safelistShape,
  blocklist: filterShape,
  bans: {
    ...answeredShape,
    maxretry: count,
    findtime: duration,
    bantime: duration,
    by: byAddress,
    mode: z
      .enum(['allow2ban', 'fail2ban'], 'must be "allow2ban" or "fail2ban"')
      .default('allow2ban'),
  },
  throttle: {
    ...filterShape,
    limit: count,
    period: duration,
    by: byAddress,
    with: answer.optional(),
  },
  track: {
    ...answeredShape,
    limit: count.optional(),
    period: duration.optional(),
    by: byAddress,
  },
  rateLimits: {
    name: ruleName,
    to: countOrFunction,
    within: durationOrFunction,
    only: actions.optional(),
    except: actions.optional(),
    by: key({ withBody: true }).prefault('ip'),
    with: answer.optional(),
    dryRun: flag.default(false),
  },
} satisfies { readonly [Kind in RuleKind]: ShapeOf<FileRule<Kind>> }

export const RULE_KINDS = Object.keys(RULE_SHAPES) as RuleKind[]

/** How the keys of a rule fit together is checked even if one of them is wrong. */
const when = ({ value }: { readonly value: unknown }) => isObject(value)

/** Checks a rule that has a name, and compiles it. Functions in it may throw. */
export const RULE_SCHEMAS = {
  safelist: z.strictObject(RULE_SHAPES.safelist).transform(filterRule),

  blocklist: z.strictObject(RULE_SHAPES.blocklist).transform(filterRule),

  bans: z
    .strictObject(RULE_SHAPES.bans)
    .refine(rule => rule.status === undefined || rule.mode !== 'fail2ban', {
      path: ['status'],
      error:
        'cannot be given together with mode "fail2ban", which denies before the answer is known',
      when,
    })
    .transform(rule => ({
      ...filterRule(rule),
      /** Those of the answers that count; `undefined` if a request counts before it is answered. */
      statuses: rule.status,
      keyOf: rule.by,
      limit: rule.maxretry,
      windowMs: rule.findtime,
      banMs: rule.bantime,
      /** Whether each match is denied, not only the requests of a banned client. */
      deniesStrikes: rule.mode === 'fail2ban',
    })),

  throttle: z.strictObject(RULE_SHAPES.throttle).transform(rule => ({
    ...filterRule(rule),
    keyOf: rule.by,
    limit: rule.limit,
    windowMs: rule.period,
    answer: rule.with,
  })),

  track: z
    .strictObject(RULE_SHAPES.track)
    .refine(rule => rule.limit === undefined || rule.period !== undefined, {
      path: ['period'],
      error: 'must be given with limit',
      when,
    })
    .refine(rule => rule.period === undefined || rule.limit !== undefined, {
      path: ['limit'],
      error: 'must be given with period',
      when,
    })
    .transform(rule => {
      const { limit, period: windowMs, by: keyOf, status } = rule
      const checked = { ...filterRule(rule), statuses: status }
      if (limit === undefined || windowMs === undefined) return checked
      return { ...checked, keyOf, limit, windowMs }
    }),

  rateLimits: z
    .strictObject(RULE_SHAPES.rateLimits)
    .refine(rule => rule.only === undefined || rule.except === undefined, {
      path: ['except'],
      error: 'cannot be given together with only',
      when,
    })
    .transform(({ name, dryRun, only = ACTIONS, except = [], by, to, within, with: answer }) => ({
      ...filterRule({ name, dryRun }),
      actions: only.filter(action => !except.includes(action)),
      keyOf: by,
      limit: to,
      windowMs: within,
      answer,
    })),
}

function filterRule(rule: MatchTests & { readonly name: string; readonly dryRun?: boolean }) {
  const { name, dryRun = false, ...tests } = rule
  return { name, isDryRun: dryRun, matches: combineMatchers(tests) }
}

/** The type of the rules of a kind, as in their notices. */
export const TYPE_OF_KIND = {
  safelist: 'safelist',
  blocklist: 'blocklist',
  bans: 'ban',
  throttle: 'throttle',
  track: 'track',
  rateLimits: 'rateLimit',
} as const satisfies Readonly<Record<RuleKind, string>>

export type RuleType = (typeof TYPE_OF_KIND)[RuleKind]

/** Differs for different rules, because no type has a blank. */
export function ruleText(type: RuleType, name: string): string {
  return `${type} ${name}`
}

type Compiled<Kind extends RuleKind> = z.output<(typeof RULE_SCHEMAS)[Kind]> & {
  readonly type: (typeof TYPE_OF_KIND)[Kind]
  /** As written in the file, to describe and compare it. */
  readonly source: FileRule<Kind>
}

/** The rules of a limits file, checked and compiled, by their kind. */
export type CheckedLimits = { readonly [Kind in RuleKind]-?: readonly Compiled<Kind>[] }

export type CompiledBan = Compiled<'bans'>
export type CompiledThrottle = Compiled<'throttle'>
export type CompiledTrack = Compiled<'track'>
export type CompiledRateLimit = Compiled<'rateLimits'>

/** A rule of the filter, of any kind. */
export type CompiledFilterRule = ReturnType<typeof filterRule> & { readonly type: RuleType }

/** What a rule has that counts: `limit` requests of a key pass in each window of `windowMs`. */
export type CompiledCounter = Pick<CompiledRateLimit, 'keyOf' | 'limit' | 'windowMs'>

/** The rules of a service without limits. */
export const NO_LIMITS = Object.fromEntries(
  RULE_KINDS.map(kind => [kind, []]),
) as unknown as CheckedLimits
