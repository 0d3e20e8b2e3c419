import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { ServiceError } from '../errors.ts'
import type { BanList } from './ban-list.ts'
import { type Count, type CounterStore, counterKey } from './counter-store.ts'
import type {
  BanRule,
  CountingRule,
  FilterRule,
  FilterRules,
  ThrottleRule,
} from './filter-rules.ts'
import { type AddLimitHeaders, retryAfterSeconds } from './limit-headers.ts'
import type { Notice, Notices, NoticeType } from './notices.ts'
import { type Refusal, refuse } from './refusal.ts'
import { factsOf } from './request-facts.ts'

export interface FilterOptions {
  /** The rules of now; they may change between two requests. */
  readonly rules: () => FilterRules
  /** `undefined` where nothing is counted. */
  readonly store: CounterStore | undefined
  readonly bans: BanList
  readonly notices: Notices
  readonly addLimitHeaders: AddLimitHeaders
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** What a throttle decided, which a function of it may take back. */
interface ThrottleRefusal extends Refusal {
  /** Asks the rules behind this one, as if it had not refused. */
  readonly resume: () => Soon<Decision | undefined>
}

type Decision = 'pass' | ServiceError | ThrottleRefusal

/** Asks safelist, blocklist, bans, throttles and tracks, in this order, about every request. */
export function createFilter(options: FilterOptions): RequestHandler {
  const { rules, store, bans, notices, addLimitHeaders, now } = options

  /** Not where a function of the rule throws. */
  function matches(type: NoticeType, rule: FilterRule, request: Request): boolean {
    try {
      return rule.matches(request)
    } catch (error) {
      notices.functionFailed(type, rule.name, error)
      return false
    }
  }

  /** The key by which a rule counts this request; `undefined` where it does not, or nothing is counted. */
  function keyFor(type: NoticeType, rule: CountingRule, request: Request): string | undefined {
    if (store === undefined) return undefined
    try {
      return rule.keyOf(request)
    } catch (error) {
      notices.functionFailed(type, rule.name, error)
      return undefined
    }
  }

  /** Counts under a key, and gives the count to `use`; without a key, or where the store fails, `undefined`. */
  function counting<T>(
    type: NoticeType,
    rule: CountingRule,
    key: string | undefined,
    use: (counted: Count | undefined) => T,
  ): Soon<T> {
    const counted =
      key === undefined ? undefined : increment(counterKey(type, rule.name, key), rule)
    return counted instanceof Promise ? counted.then(use) : use(counted)
  }

  function increment(key: string, { windowMs }: CountingRule): Soon<Count | undefined> {
    const failed = (error: unknown) => {
      notices.storeFailed(error)
      return undefined
    }
    try {
      const counted = store?.increment(key, windowMs)
      return counted instanceof Promise ? counted.catch(failed) : counted
    } catch (error) {
      return failed(error)
    }
  }

  function decide(request: Request): Soon<Decision | undefined> {
    const current = rules()
    const { safelist, blocklist, bans: banRules } = current
    const steps: readonly (() => Soon<Decision | undefined>)[] = [
      () => firstOf(safelist, rule => allowed(rule, request)),
      () => firstOf(blocklist, rule => blocked(rule, request)),
      () => (bans.isEmpty() ? undefined : firstOf(banRules, rule => standing(rule, request))),
      () => firstOf(banRules, rule => strike(rule, request)),
      () => decideFrom(0, current, request),
    ]
    return firstOf(steps, step => step())
  }

  /** Asks the throttles from a place on, and then the tracks. */
  function decideFrom(
    place: number,
    current: FilterRules,
    request: Request,
  ): Soon<Decision | undefined> {
    const askThrottle = (rule: ThrottleRule, index: number) =>
      throttled(rule, request, () => decideFrom(index + 1, current, request))
    const askTrack = (rule: FilterRule | CountingRule) => tracked(rule, request)
    const steps = [
      () => firstOf(current.throttle, askThrottle, place),
      () => firstOf(current.track, askTrack),
    ]
    return firstOf(steps, step => step())
  }

  function allowed(rule: FilterRule, request: Request): Decision | undefined {
    if (!matches('safelist', rule, request)) return undefined
    factsOf(request).isSafe = true
    notices.publish(noticeOf('safelist', rule, request))
    return 'pass'
  }

  function blocked(rule: FilterRule, request: Request): Decision | undefined {
    if (!matches('blocklist', rule, request)) return undefined
    const notice = noticeOf('blocklist', rule, request)
    notices.publish(notice)
    notices.mark(notice)
    return rule.isDryRun ? undefined : new ServiceError('blocked')
  }

  /** The refusal of a client whose ban is in force. */
  function standing(rule: BanRule, request: Request): Decision | undefined {
    const key = keyFor('ban', rule, request)
    const remainingMs = key === undefined ? undefined : bans.remainingMs(banName(rule), key)
    if (remainingMs === undefined) return undefined
    const notice = noticeOf('ban', rule, request, key)
    notices.publish(notice)
    return banned(rule, notice, remainingMs)
  }

  /** Counts a matching request against its client, who is banned with the last one that is borne. */
  function strike(rule: BanRule, request: Request): Soon<Decision | undefined> {
    if (!matches('ban', rule, request)) return undefined
    const key = keyFor('ban', rule, request)
    // In a dry run a client may be banned and come through; it is not banned any longer for that.
    const isBanned = key !== undefined && bans.remainingMs(banName(rule), key) !== undefined
    if (isBanned) return undefined
    return counting('ban', rule, key, counted => {
      const notice = noticeOf('ban', rule, request, key, counted)
      const isLast = counted !== undefined && counted.count >= rule.limit
      if (key !== undefined && isLast) ban(rule, key, notice)
      if (isLast || rule.refusesStrikes) notices.publish(notice)
      if (!rule.refusesStrikes) return undefined
      return isLast ? banned(rule, notice, rule.banMs) : struck(rule, notice)
    })
  }

  function ban(rule: BanRule, key: string, notice: Notice): void {
    bans.add({ rule: banName(rule), clientKey: key, forMs: rule.banMs, isKept: !rule.isDryRun })
    notices.writeLine('warn', notice, 'client banned', { banEndsAt: timeIn(rule.banMs) })
    void forget(counterKey('ban', rule.name, key))
  }

  /** The refusal of one match of a rule that refuses each. */
  function struck(rule: BanRule, notice: Notice): Decision | undefined {
    notices.mark(notice)
    return rule.isDryRun ? undefined : new ServiceError('blocked')
  }

  function banned(rule: BanRule, notice: Notice, remainingMs: number): Decision | undefined {
    notices.mark(notice, { banEndsAt: timeIn(remainingMs) })
    if (rule.isDryRun) return undefined
    const retryAfter = String(retryAfterSeconds(remainingMs))
    return new ServiceError('blocked', { headers: { 'Retry-After': retryAfter } })
  }

  function timeIn(ms: number): string {
    return new Date(now() + ms).toISOString()
  }

  async function forget(key: string): Promise<void> {
    try {
      await store?.reset(key)
    } catch (error) {
      notices.storeFailed(error)
    }
  }

  function throttled(
    rule: ThrottleRule,
    request: Request,
    askOthers: () => Soon<Decision | undefined>,
  ): Soon<Decision | undefined> {
    if (!matches('throttle', rule, request)) return undefined
    const key = keyFor('throttle', rule, request)
    return counting('throttle', rule, key, counted => {
      if (key === undefined || counted === undefined) return undefined
      if (counted.count <= rule.limit) return undefined
      const notice = noticeOf('throttle', rule, request, key, counted)
      const { logFields } = request
      notices.publish(notice)
      notices.mark(notice)
      notices.writeLineOnce('warn', notice, 'limit passed', counted.resetsInMs)
      if (rule.isDryRun) return undefined
      const { name, limit: quota, windowMs, answer } = rule
      addLimitHeaders(request, { rule: name, key, quota, windowMs, ...counted })
      const resume = () => {
        request.logFields = logFields
        request.replyHeaders = undefined
        return askOthers()
      }
      return {
        rule: name,
        answer,
        retryAfterSeconds: retryAfterSeconds(counted.resetsInMs),
        resume,
      }
    })
  }

  function tracked(rule: FilterRule | CountingRule, request: Request): Soon<undefined> {
    if (!matches('track', rule, request)) return undefined
    if (!('limit' in rule)) {
      const notice = noticeOf('track', rule, request)
      notices.publish(notice)
      notices.writeLine('info', notice, 'request tracked')
      return undefined
    }
    const key = keyFor('track', rule, request)
    return counting('track', rule, key, counted => {
      if (counted === undefined || counted.count <= rule.limit) return undefined
      const notice = noticeOf('track', rule, request, key, counted)
      notices.publish(notice)
      notices.writeLineOnce('info', notice, 'request tracked', counted.resetsInMs)
      return undefined
    })
  }

  const handler: RequestHandler = (request, response, next) => {
    return settle(decide(request), request, response, next)
  }

  function settle(
    decision: Soon<Decision | undefined>,
    ...handled: [Request, Response, NextFunction]
  ): Soon<void> {
    if (!(decision instanceof Promise)) return act(decision, ...handled)
    return decision.then(decided => act(decided, ...handled)).catch(handled[2])
  }

  function act(
    decision: Decision | undefined,
    request: Request,
    response: Response,
    next: NextFunction,
  ): void {
    if (decision === undefined || decision === 'pass') next()
    else if (decision instanceof ServiceError) next(decision)
    else {
      const handOn = (error?: unknown) => {
        if (error === undefined) void settle(decision.resume(), request, response, next)
        else next(error)
      }
      refuse(decision, request, response, handOn, error =>
        notices.functionFailed('throttle', decision.rule, error),
      )
    }
  }

  return handler
}

/** At once, or by a promise: a promise where a value is at hand would cost each request a turn of the queue. */
type Soon<T> = T | Promise<T>

/** The first answer that is one; each item is asked once the one before it has none. */
function firstOf<Item, T>(
  items: readonly Item[],
  ask: (item: Item, index: number) => Soon<T | undefined>,
  from = 0,
): Soon<T | undefined> {
  for (let index = from; index < items.length; index++) {
    const answer = ask(items[index] as Item, index)
    if (answer instanceof Promise) {
      return answer.then(value => value ?? firstOf(items, ask, index + 1))
    }
    if (answer !== undefined) return answer
  }
  return undefined
}

/** A ban that only tells what it would do must not come into force once the rule does. */
function banName({ name, isDryRun }: BanRule): string {
  return isDryRun ? `${name} (dry run)` : name
}

function noticeOf(
  type: NoticeType,
  rule: FilterRule | CountingRule,
  request: Request,
  key?: string,
  counted?: Count,
): Notice {
  return {
    type,
    rule: rule.name,
    request,
    key,
    ...(counted !== undefined && { count: counted.count }),
    ...('limit' in rule && { limit: rule.limit, period: rule.windowMs }),
    ...(rule.isDryRun && { dryRun: true as const }),
  }
}
