import { nearest } from '../../config/did-you-mean.ts'
import type { Config } from '../../config/settings.ts'
import { partsOf } from '../rules/client-key.ts'
import type { Key, Matching } from '../rules/limits-file.ts'
import { matchesAll } from '../rules/matchers.ts'
import type { CheckedLimits } from './kinds.ts'

/**
 * Warnings about rules that are allowed but surely a mistake: they match everything, ask for a path that no request has, or
 * count while nothing is counted.
 */
export function findWarnings(
  limits: CheckedLimits,
  { cacheStore, apiKeys }: Pick<Config, 'cacheStore' | 'apiKeys'>,
): readonly string[] {
  const { safelist, blocklist, bans, throttle, track, rateLimits } = limits
  const warnings: string[] = []
  const warn = (kind: string, rule: { readonly name: string }, predicate: string) =>
    warnings.push(`${kind} ${JSON.stringify(rule.name)} ${predicate}`)

  for (const rule of safelist.filter(({ source }) => matchesAll(source))) {
    warn('safelist', rule, 'matches every request: no other rule is ever asked')
  }
  const denying = { blocklist, bans: bans.filter(({ deniesStrikes }) => deniesStrikes) }
  for (const [kind, rules] of Object.entries(denying)) {
    for (const rule of rules.filter(({ source, isDryRun }) => matchesAll(source) && !isDryRun)) {
      warn(kind, rule, 'denies every request that no safelist lets through')
    }
  }
  for (const [kind, rules] of Object.entries({ safelist, blocklist, bans, throttle, track })) {
    for (const rule of rules) {
      for (const predicate of findPathWarnings(rule.source)) warn(kind, rule, predicate)
    }
  }
  for (const [kind, rules] of Object.entries({ bans, throttle, track, rateLimits })) {
    for (const rule of rules) {
      if (apiKeys === 'off' && partsOf(rule.source.by).includes('key')) {
        warn(kind, rule, 'counts nothing: API_KEYS is off, so no request has a key')
      }
      for (const path of unknownBodyKeys(rule.source.by)) {
        const meant = nearest(path, BODY_KEYS)
        const hint =
          meant === undefined ? `it has ${BODY_KEYS.join(', ')}` : `did you mean ${meant}?`
        warn(kind, rule, `counts nothing: no body has ${JSON.stringify(path)}; ${hint}`)
      }
    }
  }
  for (const rule of rateLimits.filter(({ actions }) => actions.length === 0)) {
    warn('rateLimits', rule, 'applies to no action: except names them all')
  }
  const hasCounting = [bans, throttle, track.filter(rule => 'limit' in rule), rateLimits].some(
    rules => rules.length > 0,
  )
  if (cacheStore === 'none' && hasCounting) {
    warnings.push('CACHE_STORE is none: nothing is counted, so rules that count deny nothing')
  }
  return warnings
}

/** What the bodies of this service have. */
const BODY_KEYS = ['user.name', 'user.email', 'user.password']

function unknownBodyKeys(by: Key | undefined): readonly string[] {
  return partsOf(by)
    .flatMap(part => (typeof part === 'string' ? (/^body:(.*)$/s.exec(part)?.[1] ?? []) : []))
    .filter(path => !BODY_KEYS.includes(path))
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
