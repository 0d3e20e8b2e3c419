import { compileKey, type KeyOf } from './client-key.ts'
import type { Answer } from './limits-file.ts'
import { compileMatch, type RequestTest } from './matching.ts'
import { type CheckedLimits, durationMs } from './rules-schema.ts'

/** A rule of the filter, with nothing left to parse. Functions in it may throw. */
export interface FilterRule {
  readonly name: string
  readonly isDryRun: boolean
  readonly matches: RequestTest
}

/** A rule that counts, in windows of `windowMs`. */
export interface CountingRule extends FilterRule {
  readonly keyOf: KeyOf
  /** So many requests of a key pass in a window. */
  readonly limit: number
  readonly windowMs: number
}

export interface ThrottleRule extends CountingRule {
  readonly answer: Answer | undefined
}

export interface BanRule extends CountingRule {
  readonly banMs: number
  readonly refusesStrikes: boolean
}

export interface FilterRules {
  readonly safelist: readonly FilterRule[]
  readonly blocklist: readonly FilterRule[]
  readonly bans: readonly BanRule[]
  readonly throttle: readonly ThrottleRule[]
  /** Without a limit, every match is told of. */
  readonly track: readonly (FilterRule | CountingRule)[]
}

export function compileFilterRules(limits: CheckedLimits): FilterRules {
  return {
    safelist: limits.safelist.map(rule => compile({ ...rule, dryRun: false })),
    blocklist: limits.blocklist.map(compile),
    bans: limits.bans.map(rule => ({
      ...compile(rule),
      keyOf: compileKey(rule.by),
      limit: rule.maxretry,
      windowMs: ms(rule.findtime),
      banMs: ms(rule.bantime),
      refusesStrikes: rule.mode === 'fail2ban',
    })),
    throttle: limits.throttle.map(rule => ({
      ...compile(rule),
      keyOf: compileKey(rule.by),
      limit: rule.limit,
      windowMs: ms(rule.period),
      answer: rule.with,
    })),
    track: limits.track.map(rule =>
      rule.limit === undefined
        ? compile(rule)
        : {
            ...compile(rule),
            keyOf: compileKey(rule.by),
            limit: rule.limit,
            windowMs: ms(rule.period),
          },
    ),
  }
}

function compile(rule: CheckedLimits['blocklist'][number]): FilterRule {
  return { name: rule.name, isDryRun: rule.dryRun ?? false, matches: compileMatch(rule) }
}

/** Of a time that was checked. */
function ms(time: unknown): number {
  return durationMs(time) as number
}
