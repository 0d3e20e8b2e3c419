import type { Answer, Key, Matching, Patterns } from './limits-file.ts'
import { MATCH_KEYS } from './matchers.ts'
import { listOf, toRegExp } from './patterns.ts'
import { durationMs } from './rule-values.ts'
import { type CheckedLimits, RULE_KINDS, type RuleKind } from './rules-schema.ts'

/** A checked rule, described in one line. */
export interface DescribedRule {
  readonly kind: RuleKind
  readonly name: string
  readonly words: string
}

/** The rules in the order in which a request meets them, with their defaults. */
export function describeRules(limits: CheckedLimits): readonly DescribedRule[] {
  return RULE_KINDS.flatMap(kind => describeKind(kind, limits[kind]))
}

function describeKind<Kind extends RuleKind>(
  kind: Kind,
  rules: readonly CheckedLimits[Kind][number][],
): readonly DescribedRule[] {
  return rules.map(rule => {
    const trial = rule.isDryRun ? ' (dry run: this is only reported, and the request passes)' : ''
    return { kind, name: rule.name, words: DESCRIBERS[kind](rule) + trial }
  })
}

const DESCRIBERS: {
  readonly [Kind in RuleKind]: (rule: CheckedLimits[Kind][number]) => string
} = {
  safelist: ({ source }) => `${matchInWords(source)}: passes, and no other rule is asked`,

  blocklist: ({ source }) => `${matchInWords(source)}: gets 403`,

  bans: ({ source, limit, windowMs, banMs, deniesStrikes }) => {
    const { by, mode = 'allow2ban' } = source
    const match = deniesStrikes ? 'gets 403' : 'passes'
    const ban = `everything with the same ${keyInWords(by)} gets 403 for ${timeInWords(banMs)}`
    return `${matchInWords(source)}: ${match}; after ${limit} in ${timeInWords(windowMs)} ${ban} (${mode})`
  },

  throttle: ({ source, limit, windowMs, answer }) => {
    const first = `the first ${limit} in ${timeInWords(windowMs)} by ${keyInWords(source.by)} pass`
    return `${matchInWords(source)}: ${first}, others get ${answerInWords(answer)}`
  },

  track: rule => {
    const passes = `${matchInWords(rule.source)}: passes and is reported`
    if (!('limit' in rule)) return passes
    const key = keyInWords(rule.source.by)
    return `${passes} after the first ${rule.limit} in ${timeInWords(rule.windowMs)} by ${key}`
  },

  rateLimits: ({ source, actions, limit, windowMs, answer }) => {
    const { to, within, by } = source
    const count = typeof limit === 'number' ? limit : 'N'
    const window = typeof windowMs === 'number' ? timeInWords(windowMs) : 'T'
    const first = `the first ${count} in ${window} by ${keyInWords(by)} pass`
    return [
      `${actions.join(', ') || 'no action'}: ${first}, others get ${answerInWords(answer)}`,
      ...(typeof to === 'function' ? [`N is the result of ${functionInWords(to)}`] : []),
      ...(typeof within === 'function' ? [`T is the result of ${functionInWords(within)}`] : []),
    ].join('; ')
  },
}

/** The requests that a rule of the filter is about. */
function matchInWords(rule: Matching & { readonly status?: readonly number[] }): string {
  const parts = MATCH_KEYS.flatMap(key => {
    const value = rule[key]
    if (value === undefined) return []
    if (typeof value === 'function') return [`match by ${functionInWords(value)}`]
    if (key === 'ip') return [`ip ${[value].flat().join(' or ')}`]
    if (key !== 'header' && key !== 'query') return [`${key} ${patternsInWords(value as Patterns)}`]
    return Object.entries(value).map(
      ([name, given]) => `${key} ${textInWords(name)} ${patternsInWords(given)}`,
    )
  })
  const status = rule.status === undefined ? '' : `, answered with ${rule.status.join(' or ')}`
  return (parts.join(', ') || 'every request') + status
}

function patternsInWords(patterns: Patterns): string {
  const words = listOf(patterns).map(pattern =>
    typeof pattern === 'string' ? textInWords(pattern) : String(toRegExp(pattern)),
  )
  return words.join(' or ')
}

function answerInWords(given: Answer | undefined): string {
  if (given === undefined) return '429'
  if (typeof given === 'function') return `the answer of ${functionInWords(given)}`
  if ('redirect' in given) {
    const alert = given.alert === undefined ? '' : ` and ${JSON.stringify(given.alert)}`
    return `302 to ${textInWords(given.redirect)}${alert}`
  }
  const { status = 429, message, headers = {} } = given
  const texts = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  if (message !== undefined) texts.unshift(message)
  return [status, ...texts.map(text => JSON.stringify(text))].join(' and ')
}

const UNITS = [
  { name: 'day', ms: 86_400_000 },
  { name: 'hour', ms: 3_600_000 },
  { name: 'minute', ms: 60_000 },
  { name: 'second', ms: 1000 },
]

/** A time as in a limits file, such as `1 day`, `90 seconds` or `50 ms`, in the largest unit that is exact. */
export function timeInWords(ms: number): string {
  const unit = UNITS.find(each => ms % each.ms === 0)
  if (unit === undefined) return `${ms} ms`
  const count = ms / unit.ms
  return `${count} ${unit.name}${count === 1 ? '' : 's'}`
}

/** What a rule counts by, as in `ip and header:X-Api-Key`. */
export function keyInWords(key: Key = 'ip'): string {
  return [key]
    .flat()
    .map(part => (typeof part === 'function' ? functionInWords(part) : part))
    .join(' and ')
}

const KEYS_OF_FUNCTIONS = ['', 'by', 'match', 'to', 'within', 'with']

/** A function with its name. A function that was written in place has the name of its key, which is left out. */
function functionInWords({ name }: { readonly name: string }): string {
  return KEYS_OF_FUNCTIONS.includes(name) ? 'a function' : `a function (${name})`
}

/** A text as it is, or in quotes if it has blanks, line breaks or other unusual characters. */
export function textInWords(text: string): string {
  return /^[\w.:/@%+*-]+$/.test(text) ? text : JSON.stringify(text)
}

/** What each kind of rule has where the file says nothing else. */
const DEFAULTS: Readonly<Record<RuleKind, object>> = {
  safelist: {},
  blocklist: { dryRun: false },
  bans: { by: 'ip', mode: 'allow2ban', dryRun: false },
  throttle: { by: 'ip', with: { status: 429 }, dryRun: false },
  track: { by: 'ip', dryRun: false },
  rateLimits: { by: 'ip', with: { status: 429 }, dryRun: false },
}

const TIMES = ['findtime', 'period', 'within', 'bantime']

/**
 * The rules as plain JSON, in the order in which a request meets them. Each has its kind and its defaults. Times are in
 * milliseconds under names such as `period_ms`, `actions` replaces `only` and `except`, and functions are the text
 * `[function]`.
 */
export function plainRules(limits: CheckedLimits): readonly object[] {
  return RULE_KINDS.flatMap(kind =>
    limits[kind].map(rule => {
      const members = Object.entries({ ...DEFAULTS[kind], ...rule.source })
        .filter(([key]) => key !== 'only' && key !== 'except')
        .map(([key, value]) => {
          const isTime = TIMES.includes(key) && typeof value !== 'function'
          return isTime ? [`${key}_ms`, durationMs(value)] : [key, toPlain(value)]
        })
      const actions = 'actions' in rule && { actions: rule.actions }
      return { kind, ...Object.fromEntries(members), ...actions }
    }),
  )
}

function toPlain(value: unknown): unknown {
  if (typeof value === 'function') return '[function]'
  if (value instanceof RegExp) return { regex: value.source, flags: value.flags }
  if (Array.isArray(value)) return value.map(toPlain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toPlain(item)]))
}
