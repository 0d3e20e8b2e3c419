import { z } from 'zod'
import { parseDuration } from '../duration.ts'
import type { Action, Answer, Key, LimitsFile, Patterns } from './limits-file.ts'
import { compileAddresses, compilePatterns } from './matching.ts'
import { nearest } from './nearest.ts'

/** Rules that were checked and hold no mistake, with a name each. */
export type CheckedLimits = {
  readonly [Kind in RuleKind]: readonly (NonNullable<LimitsFile[Kind]>[number] & {
    readonly name: string
  })[]
}

export type RuleKind = keyof LimitsFile

export const ACTIONS = [
  'list',
  'read',
  'create',
  'update',
  'delete',
] as const satisfies readonly Action[]

const YEAR_MS = 365 * 86_400_000

/** Milliseconds, or `undefined` for what is no time above zero and up to a year. */
export function durationMs(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value * 1000 : parseDuration(String(value))
  return ms !== undefined && ms > 0 && ms <= YEAR_MS ? ms : undefined
}

const name = z
  .string()
  .min(1, 'must be a name')
  .max(200, 'must be a name of at most 200 characters')

const pattern = z.union([
  z.string(),
  z.instanceof(RegExp),
  z.strictObject({
    regex: z.string(),
    flags: z
      .string()
      .regex(/^[imsu]*$/)
      .optional(),
  }),
])

const patterns = z.custom<Patterns>(
  value => z.union([pattern, z.array(pattern).min(1)]).safeParse(value).success && compiles(value),
  'must be a pattern (text with * for any run, or {"regex", "flags"} with flags of i, m, s and u) or a list of them',
)

const patternsByName = z.custom<Readonly<Record<string, Patterns>>>(
  value =>
    isObject(value) &&
    Object.keys(value).length > 0 &&
    Object.entries(value).every(([key, item]) => key !== '' && patterns.safeParse(item).success),
  'must be an object {NAME: pattern}',
)

const addresses = z.custom<string | readonly string[]>(value => {
  const entries = [value].flat()
  return entries.length > 0 && entries.every(isAddress)
}, 'must be an address or a range such as "203.0.113.0/24", or a list of them')

const time = z.custom<string | number>(
  value => ['string', 'number'].includes(typeof value) && durationMs(value) !== undefined,
  'must be a time such as "1 day", more than 0 and at most a year',
)

const count = z.custom<number>(
  value => Number.isSafeInteger(value) && (value as number) >= 1,
  'must be a whole number from 1',
)

const flag = z.boolean('must be true or false')

const ACTIONS_RULE = `must be a list of ${ACTIONS.join(', ')}`
const actions = z.custom<readonly Action[]>(
  value => z.array(z.enum(ACTIONS)).min(1).safeParse(value).success,
  ACTIONS_RULE,
)

const KEY_NAME = /^(?:ip|domain|host|path|(?:header|query):.+)$/
const BODY_KEY_NAME = /^body:[^.]+(?:\.[^.]+)*$/

const answer = z.custom<Answer>(
  isAnswer,
  'must be {"redirect", "alert"}, {"status", "message", "headers"} or a function',
)

const match = functionOr('must be a function of the request')

const matchKeys = {
  name: name.optional(),
  method: patterns.optional(),
  path: patterns.optional(),
  ip: addresses.optional(),
  host: patterns.optional(),
  userAgent: patterns.optional(),
  header: patternsByName.optional(),
  query: patternsByName.optional(),
  match: match.optional(),
}

const filterKeys = { ...matchKeys, dryRun: flag.optional() }

const KINDS = {
  rateLimits: z
    .strictObject({
      name: name.optional(),
      to: z.union([count, functionOr('')], 'must be a whole number from 1, or a function'),
      within: z.union([time, functionOr('')], 'must be a time such as "1 minute", or a function'),
      only: actions.optional(),
      except: actions.optional(),
      by: keyOf('ip, domain, host, path, header:NAME, query:NAME, body:NAME.NAME', true).optional(),
      with: answer.optional(),
      dryRun: flag.optional(),
    })
    .refine(rule => rule.only === undefined || rule.except === undefined, {
      path: ['except'],
      error: 'cannot be given together with only',
      when: ({ value }) => isObject(value),
    }),
  safelist: z.strictObject(matchKeys),
  blocklist: z.strictObject(filterKeys),
  throttle: z.strictObject({
    ...filterKeys,
    limit: count,
    period: time,
    by: keyOf('ip, domain, host, path, header:NAME, query:NAME').optional(),
    with: answer.optional(),
  }),
  track: z
    .strictObject({
      ...filterKeys,
      limit: count.optional(),
      period: time.optional(),
      by: keyOf('ip, domain, host, path, header:NAME, query:NAME').optional(),
    })
    .refine(rule => rule.limit === undefined || rule.period !== undefined, {
      path: ['period'],
      error: 'must be given with limit',
      when: ({ value }) => isObject(value),
    })
    .refine(rule => rule.period === undefined || rule.limit !== undefined, {
      path: ['limit'],
      error: 'must be given with period',
      when: ({ value }) => isObject(value),
    }),
  bans: z.strictObject({
    ...filterKeys,
    maxretry: count,
    findtime: time,
    bantime: time,
    by: keyOf('ip, domain, host, path, header:NAME, query:NAME').optional(),
    mode: z.enum(['allow2ban', 'fail2ban'], 'must be "allow2ban" or "fail2ban"').optional(),
  }),
} as const

export const RULE_KINDS = Object.keys(KINDS) as RuleKind[]

/** The rules of a limits file, or a line for each mistake that names rule and key. */
export function checkLimits(
  value: unknown,
): { readonly limits: CheckedLimits } | { readonly mistakes: readonly string[] } {
  // A promise is an object too, and would pass for one without rules.
  if (!isObject(value) || 'then' in value)
    return { mistakes: ['the file must hold an object of rules'] }
  const mistakes = Object.keys(value)
    .filter(key => !Object.hasOwn(KINDS, key))
    .map(key => unknownKey(key, RULE_KINDS))
  const limits: Record<string, unknown[]> = {}
  for (const kind of RULE_KINDS) {
    const rules = Object.hasOwn(value, kind) ? value[kind] : undefined
    limits[kind] = []
    if (rules === undefined) continue
    if (!Array.isArray(rules)) mistakes.push(`${kind}: must be a list of rules`)
    else limits[kind] = rules.map((rule, index) => checkRule(kind, index, rule, mistakes))
    mistakes.push(...repeatedNames(kind, limits[kind] ?? []))
  }
  if (mistakes.length > 0) return { mistakes: mistakes.map(onOneLine) }
  return { limits: limits as unknown as CheckedLimits }
}

/** Names and keys may hold line breaks, and a mistake is one line. */
function onOneLine(mistake: string): string {
  return mistake.replace(/[\p{Cc}\u2028\u2029]/gu, char => JSON.stringify(char).slice(1, -1))
}

function checkRule(kind: RuleKind, index: number, rule: unknown, mistakes: string[]): unknown {
  const place = `${kind}[${index}]`
  const result = KINDS[kind].safeParse(rule)
  const given = isObject(rule) && typeof rule.name === 'string' ? rule.name : undefined
  const label = given === undefined ? place : `${place} ${JSON.stringify(given)}`
  for (const issue of result.success ? [] : result.error.issues) {
    if (issue.code === 'unrecognized_keys') {
      const known = Object.keys(KINDS[kind].shape)
      mistakes.push(...issue.keys.map(key => `${label}: ${unknownKey(key, known)}`))
    } else if (issue.path.length === 0) {
      mistakes.push(`${label}: must be an object`)
    } else {
      const isMissing = isObject(rule) && !Object.hasOwn(rule, String(issue.path[0]))
      const need = isMissing
        ? issue.message.replace(/^must be/, 'is missing: it must be')
        : issue.message
      mistakes.push(`${label}: ${issue.path.join('.')} ${need}`)
    }
  }
  return { ...(rule as object), name: given ?? place }
}

function repeatedNames(kind: RuleKind, rules: readonly unknown[]): string[] {
  const names = rules.map(rule => (rule as { name: string }).name)
  return names.flatMap((ruleName, index) => {
    const isRepeated = names.indexOf(ruleName) !== index
    return isRepeated
      ? [`${kind}[${index}] ${JSON.stringify(ruleName)}: name is given twice in ${kind}`]
      : []
  })
}

function unknownKey(key: string, known: readonly string[]): string {
  const meant = nearest(key, known)
  const hint = meant === undefined ? '' : `, did you mean ${JSON.stringify(meant)}?`
  return `unknown key ${JSON.stringify(key)}${hint}`
}

function keyOf(names: string, mayReadBody = false) {
  const isPart = (part: unknown) =>
    typeof part === 'function' ||
    (typeof part === 'string' && (KEY_NAME.test(part) || (mayReadBody && BODY_KEY_NAME.test(part))))
  return z.custom<Key>(
    value => (Array.isArray(value) ? value.length > 0 && value.every(isPart) : isPart(value)),
    `must be one of ${names}, a function, or a list of them`,
  )
}

function functionOr(message: string) {
  return z.custom<never>(value => typeof value === 'function', message)
}

function isAnswer(value: unknown): boolean {
  if (typeof value === 'function') return true
  // What a header can hold: RFC 9110 5.5.
  const text = z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/)
  // A token of RFC 9110 5.6.2, but no name by which a message is framed or found in the log.
  const headerName = z
    .string()
    .regex(
      /^(?!(?:connection|keep-alive|trailer|transfer-encoding|upgrade|x-request-id)$)[\w!#$%&'*+.^`|~-]+$/i,
    )
  const target = z.string().regex(/^[\x21-\x7e]+$/)
  const redirect = z.strictObject({ redirect: target, alert: z.string().optional() })
  const custom = z.strictObject({
    status: z.int().min(200).max(599).optional(),
    message: z.string().optional(),
    headers: z.record(headerName, text).optional(),
  })
  return redirect.safeParse(value).success || custom.safeParse(value).success
}

function isAddress(value: unknown): boolean {
  try {
    compileAddresses([String(value)])
    return typeof value === 'string'
  } catch {
    return false
  }
}

function compiles(value: unknown): boolean {
  try {
    compilePatterns(value as Patterns)
    return true
  } catch {
    return false
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
