import { METHODS } from 'node:http'
import { actionsOf } from './describe-rules.ts'
import type { Patterns } from './limits-file.ts'
import type { MatchKeys } from './matching.ts'
import type { CheckedLimits } from './rules-schema.ts'

/**
 * Lines about rules that are right and surely not meant so: that match everything, that match nothing, or that count
 * where nothing is counted. Only what is certain, whatever comes.
 */
export function warnAbout(
  limits: CheckedLimits,
  { isCounting }: { readonly isCounting: boolean },
): readonly string[] {
  const { safelist, blocklist, bans, throttle, track, rateLimits } = limits
  const filterRules = { safelist, blocklist, bans, throttle, track }
  const warnings: string[] = []
  const warn = (kind: string, rule: { readonly name: string }, what: string) =>
    warnings.push(`${kind} ${JSON.stringify(rule.name)} ${what}`)

  for (const rule of safelist.filter(matchesAll)) {
    warn('safelist', rule, 'matches every request, so that no other rule is ever asked')
  }
  const refusing = { blocklist, bans: bans.filter(({ mode }) => mode === 'fail2ban') }
  for (const [kind, rules] of Object.entries(refusing)) {
    for (const rule of rules.filter(each => matchesAll(each) && each.dryRun !== true)) {
      warn(kind, rule, 'refuses every request that no safelist lets through')
    }
  }
  for (const [kind, rules] of Object.entries(filterRules)) {
    for (const rule of rules) {
      const reason = whyNever(rule)
      if (reason !== undefined) warn(kind, rule, `matches no request: ${reason}`)
    }
  }
  for (const rule of rateLimits.filter(each => actionsOf(each).length === 0)) {
    warn('rateLimits', rule, 'stands on no action: except leaves none')
  }
  const counted = bans.length + throttle.length + rateLimits.length
  if (!isCounting && counted + track.filter(({ limit }) => limit !== undefined).length > 0) {
    warnings.push('CACHE_STORE is none: nothing is counted, and rules that count refuse nothing')
  }
  return warnings
}

function matchesAll(rule: MatchKeys): boolean {
  const { method, path, ip, host, userAgent, header, query, match } = rule
  const keys = [method, path, ip, host, userAgent, header, query, match]
  return keys.every(key => key === undefined)
}

function whyNever({ method, path, host }: MatchKeys): string | undefined {
  if (allAre(method, text => !METHODS.includes(text.toUpperCase()))) return 'no method is that'
  if (allAre(path, text => !text.startsWith('/'))) return 'every path begins with /'
  return allAre(host, text => /^[^:]*:\d+$/.test(text)) ? 'hosts have no port here' : undefined
}

/** Whether all patterns are texts of which this is true; a `*` might be anything. */
function allAre(patterns: Patterns | undefined, test: (text: string) => boolean): boolean {
  if (patterns === undefined) return false
  return [patterns]
    .flat()
    .every(pattern => typeof pattern === 'string' && !pattern.includes('*') && test(pattern))
}
