import type { Request, RequestHandler } from 'express'
import {
  type RateLimitExceededEventHandler,
  type RateLimitInfo,
  rateLimit,
  type Store,
} from 'express-rate-limit'
import { atOnce } from './at-once.ts'
import { compileKey, needsBody } from './client-key.ts'
import { type CounterStore, counterKey } from './counter-store.ts'
import { type AddLimitHeaders, retryAfterSeconds } from './limit-headers.ts'
import type { Action } from './limits-file.ts'
import type { Notice, Notices } from './notices.ts'
import { refuse } from './refusal.ts'
import { ACTIONS, type CheckedLimits, durationMs } from './rules-schema.ts'

type Rule = CheckedLimits['rateLimits'][number]

/** A limit on routes, ready to be asked. */
export interface RouteLimit {
  readonly actions: ReadonlySet<Action>
  /** Whether it counts by something in the body, and so must wait for it. */
  readonly needsBody: boolean
  readonly handler: RequestHandler
}

export interface RouteLimitOptions {
  readonly store: CounterStore
  readonly notices: Notices
  readonly addLimitHeaders: AddLimitHeaders
}

/** What the functions of a rule say of one request. */
interface Measure {
  readonly key: string
  readonly quota: number
  readonly windowMs: number
}

/** express-rate-limit leaves its count in `rateLimit`; several rules on one route take turns in both. */
type CountedRequest = Request & {
  rateLimit?: RateLimitInfo | undefined
  limitMeasure?: Measure | undefined
}

/** One express-rate-limit for each window that a function of a rule gives; more than these are not kept. */
const MAX_WINDOWS = 100

export function createRouteLimit(rule: Rule, options: RouteLimitOptions): RouteLimit {
  const { notices, addLimitHeaders } = options
  const keyOf = compileKey(rule.by)
  const windowOf = compileWindow(rule)
  const limiters = new Map<number, RequestHandler>()

  function measured(request: Request): Measure | undefined {
    try {
      const key = keyOf(request)
      if (key === undefined) return undefined
      const quota = atOnce(typeof rule.to === 'function' ? rule.to(request) : rule.to)
      if (!isCount(quota)) throw new TypeError(`to gave ${String(quota)}`)
      return { key, quota, windowMs: windowOf(request) }
    } catch (error) {
      notices.functionFailed('rateLimit', rule.name, error)
      return undefined
    }
  }

  function limiterOf(windowMs: number): RequestHandler {
    let limiter = limiters.get(windowMs)
    if (limiter === undefined) {
      if (limiters.size >= MAX_WINDOWS) limiters.clear()
      limiter = createLimiter({ rule, windowMs, refuseOver, ...options })
      limiters.set(windowMs, limiter)
    }
    return limiter
  }

  /** Tells the client where it stands; a dry run has nothing to tell. How long until its window ends. */
  function addHeaders(request: CountedRequest, { key, quota, windowMs }: Measure): number {
    const count = request.rateLimit?.used ?? 0
    const state = { rule: rule.name, key, quota, windowMs, count, resetsInMs: resetsInMs(request) }
    if (!rule.dryRun) addLimitHeaders(request, state)
    return retryAfterSeconds(state.resetsInMs)
  }

  const refuseOver: RateLimitExceededEventHandler = (request: CountedRequest, response, next) => {
    const measure = measureOf(request)
    const count = request.rateLimit?.used ?? 0
    const notice = noticeOf(rule, measure, count, request)
    const { logFields } = request
    notices.publish(notice)
    notices.mark(notice)
    notices.writeLineOnce('warn', notice, 'limit passed', resetsInMs(request))
    if (rule.dryRun) {
      next()
      return
    }
    const retryAfter = addHeaders(request, measure)
    request.limitMeasure = undefined
    const refusal = { rule: rule.name, answer: rule.with, retryAfterSeconds: retryAfter }
    const handOn = (error?: unknown) => {
      // A function of the rule let the request pass, so that it was not refused.
      if (error === undefined) request.logFields = logFields
      next(error)
    }
    refuse(refusal, request, response, handOn, error =>
      notices.functionFailed('rateLimit', rule.name, error),
    )
  }

  const { only = ACTIONS, except = [] } = rule
  return {
    actions: new Set(only.filter(action => !except.includes(action))),
    needsBody: needsBody(rule.by),
    handler: (request: CountedRequest, response, next) => {
      const measure = measured(request)
      if (measure === undefined) {
        next()
        return
      }
      request.limitMeasure = measure
      request.rateLimit = undefined
      limiterOf(measure.windowMs)(request, response, error => {
        // Without a count the store has failed; without a measure the headers are there already.
        const isCounted = request.rateLimit !== undefined && request.limitMeasure !== undefined
        if (error === undefined && isCounted) addHeaders(request, measure)
        next(error)
      })
    },
  }
}

/** Times that are the same for every request are parsed once a rule. */
function compileWindow({ within }: Rule): (request: Request) => number {
  if (typeof within !== 'function') {
    const windowMs = durationMs(within) as number
    return () => windowMs
  }
  return request => {
    const given = atOnce(within(request))
    const windowMs = durationMs(given)
    if (windowMs === undefined) throw new TypeError(`within gave ${String(given)}`)
    return windowMs
  }
}

function resetsInMs({ rateLimit }: CountedRequest): number {
  return Math.max(0, Number(rateLimit?.resetTime ?? 0) - Date.now())
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1
}

/** Of a request that is just being counted. */
function measureOf(request: CountedRequest): Measure {
  return request.limitMeasure as Measure
}

interface LimiterOptions extends RouteLimitOptions {
  readonly rule: Rule
  readonly windowMs: number
  readonly refuseOver: RateLimitExceededEventHandler
}

function createLimiter(options: LimiterOptions): RequestHandler {
  const { rule, windowMs, refuseOver, store, notices } = options
  return rateLimit({
    windowMs,
    limit: request => measureOf(request).quota,
    keyGenerator: request => measureOf(request).key,
    standardHeaders: false,
    legacyHeaders: false,
    handler: refuseOver,
    store: storeOf(store, rule.name, windowMs),
    passOnStoreError: true,
    logger: { warn: notices.storeFailed, error: notices.storeFailed },
    validate: false,
  })
}

/** The counter store, as express-rate-limit wants one. */
function storeOf(store: CounterStore, rule: string, windowMs: number): Store {
  const keyOf = (key: string) => counterKey('rateLimit', rule, key)
  return {
    increment: async key => {
      const { count, resetsInMs } = await store.increment(keyOf(key), windowMs)
      return { totalHits: count, resetTime: new Date(Date.now() + resetsInMs) }
    },
    decrement: async () => {},
    resetKey: async key => {
      await store.reset(keyOf(key))
    },
  }
}

function noticeOf(rule: Rule, measure: Measure, count: number, request: Request): Notice {
  return {
    type: 'rateLimit',
    rule: rule.name,
    request,
    key: measure.key,
    count,
    limit: measure.quota,
    period: measure.windowMs,
    ...(rule.dryRun && { dryRun: true as const }),
  }
}
