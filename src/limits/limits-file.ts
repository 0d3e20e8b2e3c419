import type { Request, RequestHandler } from 'express'

/** What a limits file may hold: JSON, or with the parts of a module, functions of the request and RegExp. */
export interface LimitsFile {
  /** Limits on the routes of users, asked in their order. */
  readonly rateLimits?: readonly RateLimitRule[]
  /** Matching requests pass, and nothing after this touches them. */
  readonly safelist?: readonly SafelistRule[]
  /** Matching requests are answered with 403. */
  readonly blocklist?: readonly FilterRule[]
  /** After so many matching requests a client is answered with 403 for a time. */
  readonly bans?: readonly BanRule[]
  /** Matching requests over the limit are answered with 429. */
  readonly throttle?: readonly ThrottleRule[]
  /** Matching requests pass and are told of. */
  readonly track?: readonly TrackRule[]
}

/** Such as "30s", "1 minute", "10 minutes", "1 hour", "1 day", or a number of seconds; at most a year. */
export type Duration = string | number

export type Action = 'list' | 'read' | 'create' | 'update' | 'delete'

/** Exact but for `*`, which is any run of characters; or a regular expression. */
export type Pattern = string | RegExp | { readonly regex: string; readonly flags?: string }

export type Patterns = Pattern | readonly Pattern[]

/**
 * "ip", "domain", "host", "path", "header:NAME", "query:NAME", on rateLimits "body:PATH" such as
 * "body:user.email", or a function. A request for which it gives nothing is not counted.
 */
export type KeyPart = KeyName | ((request: Request) => string | number | null | undefined)

export type KeyName =
  | 'ip'
  | 'domain'
  | 'host'
  | 'path'
  | `header:${string}`
  | `query:${string}`
  | `body:${string}`

/** Several parts make one compound key. */
export type Key = KeyPart | readonly KeyPart[]

/** What is answered in place of 429: a redirect, another answer, or whatever a function makes of it. */
export type Answer = ToldAnswer | RequestHandler

export type ToldAnswer =
  | { readonly redirect: string; readonly alert?: string }
  | {
      readonly status?: number
      readonly message?: string
      readonly headers?: Readonly<Record<string, string>>
    }

interface Named {
  /** Unique among the rules of its kind; without one, a rule is named by its place, as in `throttle[0]`. */
  readonly name?: string
}

interface Trial {
  /** Counts and tells what it would do, and lets the request go on. */
  readonly dryRun?: boolean
}

/** All that are given must match; a rule with none matches every request. */
interface Matching {
  readonly method?: Patterns
  /** Compared after decoding, with repeated slashes folded. */
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
  /** So many requests of a key pass in a period. */
  readonly limit: number
  readonly period: Duration
  readonly by?: Key
  readonly with?: Answer
}

export interface TrackRule extends FilterRule {
  readonly limit?: number
  readonly period?: Duration
  readonly by?: Key
}

export interface BanRule extends FilterRule {
  readonly maxretry: number
  readonly findtime: Duration
  readonly bantime: Duration
  readonly by?: Key
  /** Whether matching requests pass until the ban (`allow2ban`, the default) or are refused one by one. */
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

/** Gives the rules back as they are, for an editor to complete and check them. */
export function defineLimits(limits: LimitsFile): LimitsFile {
  return limits
}
