import type { LimitsFile } from './kinds.ts'

export type { Action } from '../../http/actions.ts'
export type { Key, KeyName, KeyPart } from '../rules/client-key.ts'
export type { Pattern, Patterns } from '../rules/patterns.ts'
export type { Answer, Duration, FixedAnswer } from '../rules/rule-values.ts'
export type {
  BanRule,
  FilterRule,
  LimitsFile,
  Matching,
  RateLimitRule,
  SafelistRule,
  ThrottleRule,
  TrackRule,
} from './kinds.ts'

/** Returns the rules unchanged, so that editors complete and check them. */
export function defineLimits(limits: LimitsFile): LimitsFile {
  return limits
}
