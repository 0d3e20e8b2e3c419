import type { Patterns } from './limits-file.ts'
import { type MatchKeys, toRegExp } from './matching.ts'
import { functionInWords, keyInWords, textInWords, timeInWords } from './rule-words.ts'
import { ACTIONS, type CheckedLimits, durationMs, type RuleKind } from './rules-schema.ts'

/** The kinds in the order in which a request meets them. */
export const KINDS_IN_ORDER = [
  'safelist',
  'blocklist',
  'bans',
  'throttle',
  'track',
  'rateLimits',
] as const satisfies readonly RuleKind[]

/** One rule of each kind. */
type RuleOf<Kind extends RuleKind> = CheckedLimits[Kind][number]

/** A rule as it was understood, in a line of words. */
export interface DescribedRule {
  readonly kind: RuleKind
  readonly name: string
  readonly words: string
}

/** The rules in the order in which they are asked, with what they leave out filled in. */
export function describeRules(limits: CheckedLimits): readonly DescribedRule[] {
  return KINDS_IN_ORDER.flatMap(kind =>
    limits[kind].map(rule => {
      const { name } = rule
      const isTrial = 'dryRun' in rule && rule.dryRun === true
      const trial = isTrial ? ' (dry run: this is only told, and the request passes)' : ''
      return { kind, name, words: describers[kind](rule as never) + trial }
    }),
  )
}

const describers: { readonly [Kind in RuleKind]: (rule: RuleOf<Kind>) => string } = {
  safelist: rule => `${conditions(rule)}: passes, and no later rule is asked`,
  blocklist: rule => `${conditions(rule)}: answered with 403`,
  bans: rule => {
    const { by, maxretry, findtime, bantime, mode = 'allow2ban' } = rule
    const each = mode === 'fail2ban' ? 'each answered with 403' : 'passes'
    const strikes = `after ${maxretry} in ${time(findtime)}`
    const end = `all that has the same ${keyInWords(by)} is answered with 403 for ${time(bantime)}`
    return `${conditions(rule)}: ${each}, and ${strikes} ${end} (${mode})`
  },
  throttle: rule => {
    const { by, limit, period } = rule
    const quota = `the first ${limit} in ${time(period)} by ${keyInWords(by)} pass`
    return `${conditions(rule)}: ${quota}, more are ${answer(rule.with)}`
  },
  track: rule => {
    const { by, limit, period } = rule
    if (limit === undefined || period === undefined)
      return `${conditions(rule)}: passes and is told of`
    const quota = `after the first ${limit} in ${time(period)} by ${keyInWords(by)}`
    return `${conditions(rule)}: passes, and is told of ${quota}`
  },
  rateLimits: rule => {
    const { by, to, within } = rule
    const count = typeof to === 'function' ? `as many as ${functionInWords(to)} says` : `${to}`
    const window =
      typeof within === 'function' ? `a time that ${functionInWords(within)} says` : time(within)
    const quota = `the first ${count} in ${window} by ${keyInWords(by)} pass`
    return `${actionsOf(rule).join(', ') || 'no action'}: ${quota}, more are ${answer(rule.with)}`
  },
}

/** On which actions a rule stands. */
export function actionsOf({ only = ACTIONS, except = [] }: RuleOf<'rateLimits'>) {
  return only.filter(action => !except.includes(action))
}

function conditions(keys: MatchKeys): string {
  const { method, path, ip, host, userAgent, header = {}, query = {}, match } = keys
  const parts = [
    method !== undefined && `method ${patterns(method)}`,
    path !== undefined && `path ${patterns(path)}`,
    ip !== undefined && `ip ${[ip].flat().join(' or ')}`,
    host !== undefined && `host ${patterns(host)}`,
    userAgent !== undefined && `userAgent ${patterns(userAgent)}`,
    ...Object.entries(header).map(([name, value]) => `header ${named(name)} ${patterns(value)}`),
    ...Object.entries(query).map(([name, value]) => `query ${named(name)} ${patterns(value)}`),
    match !== undefined && `match by ${functionInWords(match)}`,
  ]
  return parts.filter(part => part !== false).join(', ') || 'every request'
}

const named = textInWords

function patterns(given: Patterns): string {
  return [given]
    .flat()
    .map(pattern =>
      typeof pattern === 'string' ? textInWords(pattern) : String(toRegExp(pattern)),
    )
    .join(' or ')
}

function time(given: string | number): string {
  return timeInWords(durationMs(given) as number)
}

function answer(given: RuleOf<'throttle'>['with']): string {
  if (given === undefined) return 'answered with 429'
  if (typeof given === 'function') return `answered by ${functionInWords(given)}`
  if ('redirect' in given) {
    const alert = given.alert === undefined ? '' : ` and ${JSON.stringify(given.alert)}`
    return `answered with 302 to ${textInWords(given.redirect)}${alert}`
  }
  const { status = 429, message, headers = {} } = given
  const told = [
    message !== undefined && JSON.stringify(message),
    ...Object.entries(headers).map(([name, value]) => JSON.stringify(`${name}: ${value}`)),
  ].filter(part => part !== false)
  return `answered with ${status}${told.map(part => ` and ${part}`).join('')}`
}
