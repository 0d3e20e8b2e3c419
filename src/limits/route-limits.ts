import type { Request, RequestHandler } from 'express'
import { type RateLimitInfo, rateLimit, type Store } from 'express-rate-limit'
import type { Action } from '../http/actions.ts'
import type { Count, CounterStore } from './counter-store.ts'
import { compileDenyOverLimit } from './deny-over-limit.ts'
import type { AddLimitHeaders } from './limit-headers.ts'
import type { Notices } from './notices.ts'
import { needsBody } from './rules/client-key.ts'
import type { CompiledRateLimit, Quota } from './rules/compiled-rules.ts'
import { memoize } from './rules/memoize.ts'
import { factsOf } from './rules/request-facts.ts'
import { type Tallies, tallyPass } from './tallies.ts'

/** A limit on the routes of some actions. */
export interface RouteLimit {
  readonly actions: ReadonlySet<Action>
  /** Whether it counts by something in the body, which must be read first. */
  readonly needsBody: boolean
  readonly handler: RequestHandler
}

export interface RouteLimitOptions {
  readonly store: CounterStore
  readonly notices: Notices
  readonly addLimitHeaders: AddLimitHeaders
  readonly tallies: Tallies
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** express-rate-limit puts its count here. */
type CountedRequest = Request & { rateLimit?: RateLimitInfo | undefined }

/** The most limiters of express-rate-limit that a rule keeps, one for each window that its function returns. */
const MAX_WINDOWS = 100

/**
 * express-rate-limit does not tell its store which request it counts. So a rule has a limiter for each of these steps of the
 * time that requests have waited for earlier counts.
 */
const WAIT_STEP_MS = 10
const MAX_WAIT_MS = 40

/** Passed to `next` instead of an error, for a request over the limit. */
const OVER = Symbol('over the limit')

/** Counts with express-rate-limit; headers and denials are those of all limits. */
export function createRouteLimit(rule: CompiledRateLimit, options: RouteLimitOptions): RouteLimit {
  const { notices, addLimitHeaders, tallies } = options
  const tally = tallies.of(rule)
  const { name, isDryRun } = rule
  const quotaOf = compileQuota(rule, notices)
  const limitersOf = memoize((windowMs: number) => {
    const create = (waitedMs: number) =>
      createRateLimiter({ rule: name, windowMs, waitedMs, ...options })
    return memoize(create, MAX_WAIT_MS / WAIT_STEP_MS + 1)
  }, MAX_WINDOWS)
  const denyOverLimit = compileDenyOverLimit('rateLimit', rule, { notices, tally })

  return {
    actions: new Set(rule.actions),
    needsBody: needsBody(rule.source.by),
    handler: (request: CountedRequest, response, next) => {
      const quota = quotaOf(request)
      if (quota === undefined) return next()
      // Several rules on one route use these fields one after another.
      const facts = factsOf(request)
      facts.routeQuota = quota
      request.rateLimit = undefined
      const countRequest = limitersOf(quota.windowMs)(roundWait(facts.waitedMs))
      countRequest(request, response, verdict => {
        if (verdict !== undefined && verdict !== OVER) return next(verdict)
        const counted = countOf(request)
        // The store has failed.
        if (counted === undefined) return next()
        facts.addWait(counted)
        const { key, limit, windowMs } = quota
        const { count, resetsInMs } = counted
        // Key by key: to spread both objects takes 3 µs.
        const state = { key, limit, windowMs, count, resetsInMs }
        if (!isDryRun) addLimitHeaders(request, name, state)
        if (verdict !== OVER) {
          tallyPass(tally)
          notices.trace?.({ type: 'rateLimit', rule: name, ...state })
        }
        const denial = verdict === OVER ? denyOverLimit(request, state) : undefined
        if (denial === undefined) next()
        else denial(response, next)
      })
    },
  }
}

/** The next step up. */
function roundWait(waitedMs: number): number {
  return Math.min(Math.ceil(waitedMs / WAIT_STEP_MS) * WAIT_STEP_MS, MAX_WAIT_MS)
}

/** The quota of a rule for a request; `undefined` if it has no key, or a function of the rule fails. */
function compileQuota(
  { name, keyOf, limit, windowMs }: CompiledRateLimit,
  notices: Notices,
): (request: Request) => Quota | undefined {
  return request => {
    try {
      const key = keyOf(request)
      if (key === undefined) return undefined
      return {
        key,
        limit: typeof limit === 'function' ? limit(request) : limit,
        windowMs: typeof windowMs === 'function' ? windowMs(request) : windowMs,
      }
    } catch (error) {
      notices.functionFailed('rateLimit', name, error)
      return undefined
    }
  }
}

interface RateLimiterOptions extends Omit<RouteLimitOptions, 'addLimitHeaders' | 'tallies'> {
  readonly rule: string
  readonly windowMs: number
  /** How long its requests have waited for earlier counts. */
  readonly waitedMs: number
}

function createRateLimiter(options: RateLimiterOptions): RequestHandler {
  const { windowMs, notices } = options
  return rateLimit({
    windowMs,
    limit: request => quotaInUse(request).limit,
    keyGenerator: request => quotaInUse(request).key,
    standardHeaders: false,
    legacyHeaders: false,
    handler: (_request, _response, next) => next(OVER),
    store: createStore(options),
    passOnStoreError: true,
    logger: { warn: notices.storeFailed, error: notices.storeFailed },
    validate: false,
  })
}

function quotaInUse(request: Request): Quota {
  return factsOf(request).routeQuota as Quota
}

/** The counter store in the form that express-rate-limit needs. */
function createStore({ store, rule, windowMs, waitedMs, now }: RateLimiterOptions): Store {
  const counterKey = (key: string) => ({ type: 'rateLimit', rule, key }) as const
  return {
    increment: async key => {
      const counted = await store.increment(counterKey(key), windowMs, waitedMs)
      return { totalHits: counted.count, resetTime: new ResetTime(counted, now()) }
    },
    decrement: async () => {},
    resetKey: async key => {
      await store.reset(counterKey(key))
    },
  }
}

/**
 * The date that express-rate-limit passes on. It carries the count, because the wall clock may jump before the date is read.
 */
class ResetTime extends Date {
  readonly counted: Count

  constructor(counted: Count, now: number) {
    super(now + counted.resetsInMs)
    this.counted = counted
  }
}

function countOf({ rateLimit: info }: CountedRequest): Count | undefined {
  return info?.resetTime instanceof ResetTime ? info.resetTime.counted : undefined
}
