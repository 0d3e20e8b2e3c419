import type { Request } from 'express'
import type { Action } from '../../http/actions.ts'
import type { KeyOf } from './client-key.ts'
import type {
  Answer,
  BanRule,
  FilterRule,
  RateLimitRule,
  ThrottleRule,
  TrackRule,
} from './limits-file.ts'
import type { RequestTest } from './matchers.ts'

/** A compiled rule of the filter. Functions in it may throw. */
export interface CompiledFilterRule {
  /** Its place, as in `throttle[0]`, if the file gives it no name. */
  readonly name: string
  /** As written in the file, to describe and compare it. */
  readonly source: FilterRule
  readonly isDryRun: boolean
  readonly matches: RequestTest
}

/** A rule that counts: `limit` requests of a key pass in each window of `windowMs`. */
export interface CompiledCounter extends CompiledFilterRule {
  readonly keyOf: KeyOf
  readonly limit: number
  readonly windowMs: number
}

export interface CompiledThrottle extends CompiledCounter {
  readonly source: ThrottleRule
  readonly answer: Answer | undefined
}

/** A rule that may wait for the answer. */
interface CompiledAnswered {
  /** The statuses of the answers that count; `undefined` if a request counts before it is answered. */
  readonly statuses: ReadonlySet<number> | undefined
}

export interface CompiledBan extends CompiledCounter, CompiledAnswered {
  readonly source: BanRule
  readonly banMs: number
  /** Whether each match is denied, not only the requests of a banned client. */
  readonly deniesStrikes: boolean
}

/** Without a limit, every match is reported. */
export type CompiledTrack = (CompiledFilterRule | CompiledCounter) &
  CompiledAnswered & { readonly source: TrackRule }

/** A limit on routes: on each of `actions`, `limit` requests of a key pass in each window of `windowMs`. */
export interface CompiledRateLimit {
  readonly name: string
  readonly source: RateLimitRule
  readonly isDryRun: boolean
  readonly actions: readonly Action[]
  readonly keyOf: KeyOf
  readonly limit: number | ((request: Request) => number)
  readonly windowMs: number | ((request: Request) => number)
  readonly answer: Answer | undefined
}

/** The rules of a limits file, checked and compiled, by their kind. */
export interface CheckedLimits {
  readonly safelist: readonly CompiledFilterRule[]
  readonly blocklist: readonly CompiledFilterRule[]
  readonly bans: readonly CompiledBan[]
  readonly throttle: readonly CompiledThrottle[]
  readonly track: readonly CompiledTrack[]
  readonly rateLimits: readonly CompiledRateLimit[]
}

/** The rules of a service without limits. */
export const NO_LIMITS: CheckedLimits = {
  safelist: [],
  blocklist: [],
  bans: [],
  throttle: [],
  track: [],
  rateLimits: [],
}

export type RuleKind = keyof CheckedLimits
