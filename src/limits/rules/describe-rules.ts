import type { Answer } from './limits-file.ts'
import { describeMatching } from './matchers.ts'
import {
  functionInWords,
  keyInWords,
  statusesInWords,
  textInWords,
  timeInWords,
} from './rule-words.ts'
import type { CheckedLimits, RuleKind } from './rules-schema.ts'
import { RULE_KINDS } from './rules-schema.ts'

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
  safelist: ({ source }) => `${describeMatching(source)}: passes, and no other rule is asked`,

  blocklist: ({ source }) => `${describeMatching(source)}: gets 403`,

  bans: ({ source, limit, windowMs, banMs, deniesStrikes }) => {
    const { by, mode = 'allow2ban', status } = source
    const what = `${describeMatching(source)}${statusesInWords(status)}`
    const match = deniesStrikes ? 'gets 403' : 'passes'
    const ban = `everything with the same ${keyInWords(by)} gets 403 for ${timeInWords(banMs)}`
    return `${what}: ${match}; after ${limit} in ${timeInWords(windowMs)} ${ban} (${mode})`
  },

  throttle: ({ source, limit, windowMs, answer }) => {
    const first = `the first ${limit} in ${timeInWords(windowMs)} by ${keyInWords(source.by)} pass`
    return `${describeMatching(source)}: ${first}, others get ${answerInWords(answer)}`
  },

  track: rule => {
    const { source } = rule
    const what = `${describeMatching(source)}${statusesInWords(source.status)}`
    const passes = `${what}: passes and is reported`
    if (!('limit' in rule)) return passes
    const key = keyInWords(source.by)
    return `${passes} after the first ${rule.limit} in ${timeInWords(rule.windowMs)} by ${key}`
  },

  rateLimits: ({ source, actions, limit, windowMs, answer }) => {
    const count = typeof limit === 'number' ? `${limit}` : 'N'
    const window = typeof windowMs === 'number' ? timeInWords(windowMs) : 'T'
    const where = [
      typeof source.to === 'function' && `N is the result of ${functionInWords(source.to)}`,
      typeof source.within === 'function' && `T is the result of ${functionInWords(source.within)}`,
    ].filter(part => part !== false)
    const first = `the first ${count} in ${window} by ${keyInWords(source.by)} pass`
    const sentence = `${actions.join(', ') || 'no action'}: ${first}, others get ${answerInWords(answer)}`
    return [sentence, ...where].join('; ')
  },
}

function answerInWords(given: Answer | undefined): string {
  if (given === undefined) return '429'
  if (typeof given === 'function') return `the answer of ${functionInWords(given)}`
  if ('redirect' in given) {
    const alert = given.alert === undefined ? '' : ` and ${JSON.stringify(given.alert)}`
    return `302 to ${textInWords(given.redirect)}${alert}`
  }
  const { status = 429, message, headers = {} } = given
  const parts = [
    message !== undefined && JSON.stringify(message),
    ...Object.entries(headers).map(([name, value]) => JSON.stringify(`${name}: ${value}`)),
  ].filter(part => part !== false)
  return [status, ...parts].join(' and ')
}
