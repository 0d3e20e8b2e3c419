import { nearest } from '../../config/did-you-mean.ts'
import type { Config } from '../../config/settings.ts'
import { isOfBody } from '../rules/client-key.ts'
import { matchesAll } from '../rules/matchers.ts'
import { type CheckedLimits, type Matching, RULE_KINDS } from './kinds.ts'

type Rule = CheckedLimits[keyof CheckedLimits][number]

/**
 * Warnings about rules that are allowed but surely a mistake: they match everything, ask for a path that no request has, or
 * count while nothing is counted.
 */
export function findWarnings(
  limits: CheckedLimits,
  { cacheStore, apiKeys }: Pick<Config, 'cacheStore' | 'apiKeys'>,
): readonly string[] {
  const rules = RULE_KINDS.flatMap(kind => limits[kind].map((rule: Rule) => ({ kind, rule })))
  const warnings = rules.flatMap(({ kind, rule }) =>
    [
      ...findMatchWarnings(rule),
      ...('by' in rule ? findKeyWarnings(rule.by.names, apiKeys) : []),
      ...('actions' in rule && rule.actions.length === 0
        ? ['applies to no action: except names them all']
        : []),
    ].map(predicate => `${kind} ${JSON.stringify(rule.name)} ${predicate}`),
  )
  if (cacheStore === 'none' && rules.some(({ rule }) => 'by' in rule)) {
    warnings.push('CACHE_STORE is none: nothing is counted, so rules that count deny nothing')
  }
  return warnings
}

/** A limit on a route has no such keys, and matches every request of its actions. */
function findMatchWarnings(rule: Rule): readonly string[] {
  if (rule.type === 'rateLimit') return []
  const warnings = findPathWarnings(rule.source)
  if (!matchesAll(rule.source)) return warnings
  if (rule.type === 'safelist') return ['matches every request: no other rule is ever asked']
  const denies = rule.type === 'blocklist' || (rule.type === 'ban' && rule.deniesStrikes)
  if (!denies || rule.isDryRun) return warnings
  return ['denies every request that no safelist lets through']
}

function findPathWarnings({ path = [] }: Matching): readonly string[] {
  return [path]
    .flat()
    .filter(text => typeof text === 'string')
    .flatMap(text => [
      ...(/^[^/*]/.test(text) ? [`has the path ${JSON.stringify(text)}: paths begin with /`] : []),
      // A path may contain an encoded question mark, so it may match something, but not what was meant.
      ...(text.includes('?')
        ? [`has the path ${JSON.stringify(text)}: a path has no query, use the key query`]
        : []),
    ])
}

/** What the bodies of this service have. */
const BODY_KEYS = ['user.name', 'user.email', 'user.password']

function findKeyWarnings(names: readonly string[], apiKeys: Config['apiKeys']): readonly string[] {
  const unknown = names
    .filter(isOfBody)
    .map(name => name.slice('body:'.length))
    .filter(path => !BODY_KEYS.includes(path))
  return [
    ...(apiKeys === 'off' && names.includes('key')
      ? ['counts nothing: API_KEYS is off, so no request has a key']
      : []),
    ...unknown.map(path => {
      const meant = nearest(path, BODY_KEYS)
      const hint = meant === undefined ? `it has ${BODY_KEYS.join(', ')}` : `did you mean ${meant}?`
      return `counts nothing: no body has ${JSON.stringify(path)}; ${hint}`
    }),
  ]
}
