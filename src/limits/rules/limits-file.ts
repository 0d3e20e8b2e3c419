import type { Request, RequestHandler } from 'express'
import type { Action } from '../../http/actions.ts'

export type { Action }

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

/** Such as "30s", "1 minute", "10 minutes", "1 hour", "1 day", or a number of seconds; at most a year. */
export type Duration = string | number

/** Text that must match exactly, except that `*` stands for any characters; or a regular expression. */
export type Pattern = string | RegExp | { readonly regex: string; readonly flags?: string }

export type Patterns = Pattern | readonly Pattern[]

/**
 * "ip", "domain", "host", "key" (the name of the API key), "path", "header:NAME", "query:NAME", on rateLimits "body:PATH" such as
 * "body:user.email", or a function. A request without the key is not counted.
 */
export type KeyPart = KeyName | ((request: Request) => string | number | null | undefined)

export type KeyName =
  | 'ip'
  | 'domain'
  | 'host'
  | 'key'
  | 'path'
  | `header:${string}`
  | `query:${string}`
  | `body:${string}`

/** A list makes one compound key. */
export type Key = KeyPart | readonly KeyPart[]

/** The answer instead of 429: a redirect, another status, or the answer of a function. */
export type Answer = FixedAnswer | RequestHandler

export type FixedAnswer =
  | { readonly redirect: string; readonly alert?: string }
  | {
      readonly status?: number
      readonly message?: string
      readonly headers?: Readonly<Record<string, string>>
    }

interface Named {
  /** Unique among the rules of its kind. The default is the place of the rule, as in `throttle[0]`. */
  readonly name?: string
}

interface Trial {
  /** Counts, and reports what the rule would do, but lets the request pass. */
  readonly dryRun?: boolean
}

/** All keys that are given must match; a rule without any matches every request. */
export interface Matching {
  readonly method?: Patterns
  /** Compared after decoding, with repeated slashes as one. */
  readonly path?: Patterns
  /** Addresses and ranges such as 203.0.113.0/24. */
  readonly ip?: string | readonly string[]
  readonly host?: Patterns
  readonly userAgent?: Patterns
  readonly header?: Readonly<Record<string, Patterns>>
  readonly query?: Readonly<Record<string, Patterns>>
  readonly match?: (request: Request) => boolean
}

export interface SafelistRule extends Named, Matching {}

export interface FilterRule extends Named, Matching, Trial {}

export interface ThrottleRule extends FilterRule {
  /** How many requests of a key pass in each period. */
  readonly limit: number
  readonly period: Duration
  readonly by?: Key
  readonly with?: Answer
}

/** Rules that can wait for the answer. */
interface Answered {
  /** From 200 to 599: a matching request counts once its answer has one of these statuses, and not before. */
  readonly status?: readonly number[]
}

export interface TrackRule extends FilterRule, Answered {
  readonly limit?: number
  readonly period?: Duration
  readonly by?: Key
}

export interface BanRule extends FilterRule, Answered {
  readonly maxretry: number
  readonly findtime: Duration
  readonly bantime: Duration
  readonly by?: Key
  /** Whether matching requests pass until the ban (`allow2ban`, the default) or each gets 403. */
  readonly mode?: 'allow2ban' | 'fail2ban'
}

export interface RateLimitRule extends Named, Trial {
  readonly to: number | ((request: Request) => number)
  readonly within: Duration | ((request: Request) => Duration)
  readonly only?: readonly Action[]
  readonly except?: readonly Action[]
  readonly by?: Key
  readonly with?: Answer
}

/** Returns the rules unchanged, so that editors complete and check them. */
export function defineLimits(limits: LimitsFile): LimitsFile {
  return limits
}
