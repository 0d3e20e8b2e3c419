import type { Matching } from '../rules/compiled-rule.ts'
import type { BanRule } from './ban-rule.ts'
import type { FilterRule } from './blocklist-rule.ts'
import type { RateLimitRule } from './rate-limit-rule.ts'
import type { SafelistRule } from './safelist-rule.ts'
import type { ThrottleRule } from './throttle-rule.ts'
import type { TrackRule } from './track-rule.ts'

export type { Action } from '../../http/actions.ts'
export type { Key, KeyName, KeyPart } from '../rules/client-key.ts'
export type { Pattern, Patterns } from '../rules/patterns.ts'
export type { Answer, Duration, FixedAnswer } from '../rules/rule-values.ts'
export type { BanRule, FilterRule, Matching, RateLimitRule, SafelistRule, ThrottleRule, TrackRule }

/** What a limits file may hold. Functions of the request and RegExp are for modules only, not for JSON. */
export interface LimitsFile {
  /** Limits on the routes of users, asked in this order. */
  readonly rateLimits?: readonly RateLimitRule[]
  /** Matching requests pass, and no other rule applies to them. */
  readonly safelist?: readonly SafelistRule[]
  /** Matching requests get 403. */
  readonly blocklist?: readonly FilterRule[]
  /** After `maxretry` matching requests a client gets 403 for `bantime`. */
  readonly bans?: readonly BanRule[]
  /** Matching requests over the limit get 429. */
  readonly throttle?: readonly ThrottleRule[]
  /** Matching requests pass and are reported. */
  readonly track?: readonly TrackRule[]
}

/** Returns the rules unchanged, so that editors complete and check them. */
export function defineLimits(limits: LimitsFile): LimitsFile {
  return limits
}
