import { z } from 'zod'
import { ACTIONS } from '../../http/actions.ts'
import { isObject } from '../../platform/json.ts'
import { combineMatchers, type MatchTests, matchShape } from '../rules/matchers.ts'
import {
  actions,
  answer,
  count,
  countOrFunction,
  duration,
  durationOrFunction,
  flag,
  key,
  type RuleType,
  ruleName,
  statuses,
} from '../rules/rule-values.ts'

const named = {
  /** Unique among the rules of its kind. The default is the place of the rule, as in `throttle[0]`. */
  name: ruleName.optional(),
}

const trial = {
  /** Counts, and reports what the rule would do, but lets the request pass. */
  dryRun: flag.optional(),
}

const filterShape = { ...named, ...matchShape, ...trial }

/** Of rules that can wait for the answer. */
const answered = {
  /** From 200 to 599: a matching request counts once its answer has one of these statuses, and not before. */
  status: statuses.optional(),
}

const byAddress = key({ withBody: false }).prefault('ip')

/** The kinds of rules, in the order in which a request meets them: the type of a rule, and what checks and compiles it. */
export const KINDS = {
  /** Matching requests pass, and no other rule applies to them. */
  safelist: {
    type: 'safelist',
    schema: z.strictObject({ ...named, ...matchShape }).transform(compileFilter),
  },

  /** Matching requests get 403. */
  blocklist: {
    type: 'blocklist',
    schema: z.strictObject(filterShape).transform(compileFilter),
  },

  /** After `maxretry` matching requests a client gets 403 for `bantime`. */
  bans: {
    type: 'ban',
    schema: z
      .strictObject({
        ...filterShape,
        ...answered,
        maxretry: count,
        findtime: duration,
        bantime: duration,
        by: byAddress,
        /** Whether matching requests pass until the ban (`allow2ban`, the default) or each gets 403. */
        mode: z.enum(['allow2ban', 'fail2ban'], 'must be "allow2ban" or "fail2ban"').optional(),
      })
      .refine(
        rule => rule.status === undefined || rule.mode !== 'fail2ban',
        misfit(
          'status',
          'cannot be given together with mode "fail2ban", which denies before the answer is known',
        ),
      )
      .transform(rule => ({
        ...compileFilter(rule),
        /** Those of the answers that count; `undefined` if a request counts before it is answered. */
        statuses: rule.status,
        by: rule.by,
        limit: rule.maxretry,
        windowMs: rule.findtime,
        banMs: rule.bantime,
        /** Whether each match is denied, not only the requests of a banned client. */
        deniesStrikes: rule.mode === 'fail2ban',
      })),
  },

  /** Matching requests over the limit get 429. */
  throttle: {
    type: 'throttle',
    schema: z
      .strictObject({
        ...filterShape,
        /** How many requests of a key pass in each period. */
        limit: count,
        period: duration,
        by: byAddress,
        with: answer.optional(),
      })
      .transform(rule => ({
        ...compileFilter(rule),
        by: rule.by,
        limit: rule.limit,
        windowMs: rule.period,
        answer: rule.with,
      })),
  },

  /** Matching requests pass and are reported; with a limit, those over it. */
  track: {
    type: 'track',
    schema: z
      .strictObject({
        ...filterShape,
        ...answered,
        limit: count.optional(),
        period: duration.optional(),
        by: byAddress,
      })
      .refine(
        rule => rule.limit === undefined || rule.period !== undefined,
        misfit('period', 'must be given with limit'),
      )
      .refine(
        rule => rule.period === undefined || rule.limit !== undefined,
        misfit('limit', 'must be given with period'),
      )
      .transform(rule => {
        const { limit, period: windowMs, by, status } = rule
        const checked = { ...compileFilter(rule), statuses: status }
        if (limit === undefined || windowMs === undefined) return checked
        return { ...checked, by, limit, windowMs }
      }),
  },

  /** Limits on the routes of users, asked in this order. */
  rateLimits: {
    type: 'rateLimit',
    schema: z
      .strictObject({
        ...named,
        to: countOrFunction,
        within: durationOrFunction,
        only: actions.optional(),
        except: actions.optional(),
        by: key({ withBody: true }).prefault('ip'),
        with: answer.optional(),
        ...trial,
      })
      .refine(
        rule => rule.only === undefined || rule.except === undefined,
        misfit('except', 'cannot be given together with only'),
      )
      .transform(({ only = ACTIONS, except = [], ...rule }) => ({
        ...compileFilter({ dryRun: rule.dryRun }),
        actions: only.filter(action => !except.includes(action)),
        by: rule.by,
        limit: rule.to,
        windowMs: rule.within,
        answer: rule.with,
      })),
  },
} as const satisfies Record<string, { type: RuleType; schema: z.ZodType }>

/** For `refine`: a key that does not fit to the others, which is checked even if one of them is wrong. */
function misfit(key: string, error: string) {
  return { path: [key], error, when: ({ value }: { readonly value: unknown }) => isObject(value) }
}

/** What is compiled for each kind. */
function compileFilter({
  dryRun = false,
  ...tests
}: MatchTests & { dryRun?: boolean | undefined }) {
  return { isDryRun: dryRun, matches: combineMatchers(tests) }
}

type Kinds = typeof KINDS

/** The kinds of rules by their names in a limits file. */
export type RuleKind = keyof Kinds

export const RULE_KINDS = Object.keys(KINDS) as RuleKind[]

/** A rule of a kind as it is written. */
type Written<Kind extends RuleKind> = z.input<Kinds[Kind]['schema']>

/** What a limits file may hold. Functions of the request and RegExp are for modules only, not for JSON. */
export type LimitsFile = { readonly [Kind in keyof Kinds]?: readonly Written<Kind>[] }

export type SafelistRule = Written<'safelist'>
export type FilterRule = Written<'blocklist'>
export type BanRule = Written<'bans'>
export type ThrottleRule = Written<'throttle'>
export type TrackRule = Written<'track'>
export type RateLimitRule = Written<'rateLimits'>

/** All keys that are given must match; a rule without any matches every request. */
export type Matching = z.input<z.ZodObject<typeof matchShape>>

/** A rule of a kind, checked and compiled. */
export type Compiled<Kind extends RuleKind> = z.output<Kinds[Kind]['schema']> & {
  readonly type: Kinds[Kind]['type']
  readonly name: string
  /** To describe and compare it. */
  readonly source: Written<Kind>
}

/** The rules of a limits file, by their kind. Functions in them may throw. */
export type CheckedLimits = { readonly [Kind in RuleKind]-?: readonly Compiled<Kind>[] }

/** The keys that a rule of a kind may have. */
export function keysOf(kind: RuleKind): readonly string[] {
  return Object.keys(KINDS[kind].schema.in.shape)
}

/** The rules of a service without limits. */
export const NO_LIMITS = Object.fromEntries(
  RULE_KINDS.map(kind => [kind, []]),
) as unknown as CheckedLimits
