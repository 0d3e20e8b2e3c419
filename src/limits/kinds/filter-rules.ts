import type { RequestHandler, Response } from 'express'
import { ServiceError } from '../../errors.ts'
import { ownCopy } from '../../platform/memoize.ts'
import { forgetStrikes } from '../counter-store.ts'
import { wholeSeconds } from '../limit-headers.ts'
import type { MatchHandler, RuleInForce } from '../rule-in-force.ts'
import { factsOf, type LimitState } from '../rules/request-facts.ts'
import type { Compiled } from './kinds.ts'

/** The handler of a safelist rule: what matches skips the rest of the chain, and the limits of its route. */
export function passSafely({ onMatch, tallyPass, publish }: RuleInForce): RequestHandler {
  return onMatch((state, _response, next) => {
    factsOf(state.request).isSafe = true
    tallyPass()
    publish(state)
    next('router')
  })
}

/** Made once, so that a flood of denied requests does not create an error for each. */
const BLOCKED = new ServiceError('blocked')

/** The handler of a blocklist rule: what matches is `blocked`. */
export function block({ rule, tally, onMatch, refuse }: RuleInForce): RequestHandler {
  return onMatch((state, _response, next) => {
    tally.counted++
    refuse(state)
    next(rule.isDryRun ? undefined : BLOCKED)
  })
}

const TRACKED = { level: 'info', message: 'request tracked' } as const

/** The handler of a track: reports what matches, with a limit only what is over it. */
export function track(inForce: RuleInForce<Compiled<'track'>>): RequestHandler {
  const { rule, onMatch, count, tallyPass, publish, writeLine } = inForce
  const { statuses } = rule

  async function report(state: LimitState): Promise<void> {
    // Without a limit every match is reported, as if it were the first over a limit of 0.
    const counted = 'limit' in rule ? await count(state) : 1
    if (counted === undefined) return
    tallyPass()
    if (counted <= state.limit) return
    publish(state)
    if (counted === state.limit + 1) writeLine(TRACKED, state)
  }

  return onMatch(async (state, response, next) => {
    if (statuses === undefined) await report(state)
    else onceAnswered(response, statuses, () => void report(state))
    next()
  })
}

const BANNED = { level: 'warn', message: 'client banned' } as const

/** The two handlers of a ban rule. */
export function handleBans(inForce: RuleInForce<Compiled<'bans'>>) {
  const { rule, tally, bans, now } = inForce
  const { keyOf, stateOf, onMatch, count, refuse, tallyPass, publish, writeLine } = inForce
  const { isDryRun, banMs, limit, statuses, deniesStrikes } = rule
  const idOf = (clientKey: string) => ({ rule: rule.name, clientKey, isDryRun })
  const endsAt = (remainingMs: number) => new Date(now() + remainingMs).toISOString()

  /** Milliseconds until the ban of a client ends; `undefined` without one. */
  const remainingMs = (key: string | undefined) =>
    key === undefined ? undefined : bans.remainingMs(idOf(key))

  /**
   * Whether a strike beyond the last one must make up for a ban that another process is making, or nobody has made: it was killed
   * at the last strike, or a reload made `maxretry` smaller. Not in a dry run, whose bans other processes never know.
   */
  const isMissing = (key: string | undefined) => !isDryRun && remainingMs(key) === undefined

  /** Bans the client of a request. False if another process was first. */
  async function begin(state: LimitState): Promise<boolean> {
    const key = ownCopy(state.key ?? '')
    const banEndsAt = endsAt(banMs)
    const isFirst = await bans.add({ ...idOf(key), forMs: banMs })
    if (isFirst) writeLine(BANNED, state, { banEndsAt })
    void forgetStrikes({ rule: rule.name, clientKey: key }, inForce, remainingMs(key))
    return isFirst
  }

  /** Reports a request of a banned client. Returns the error for it; `undefined` if the rule is in dry run. */
  function refuseBanned(state: LimitState, leftMs: number): ServiceError | undefined {
    refuse(state, { banEndsAt: endsAt(leftMs) })
    return isDryRun ? undefined : banned(leftMs)
  }

  const strike: MatchHandler = async (state, _response, next) => {
    const { key } = state
    // Let in before its ban, or in a dry run. Its ban is not prolonged.
    if (remainingMs(key) !== undefined) return next()
    const strikes = await count(state)
    // Without a key, nothing is counted.
    const hasStoreFailed = strikes === undefined && key !== undefined
    if (hasStoreFailed) return next()
    if (strikes !== undefined && strikes > limit) {
      if (isMissing(key)) await begin(state)
      // The notice of a banned client has no count.
      return next(refuseBanned(stateOf(state.request, key), remainingMs(key) ?? banMs))
    }
    const isLast = strikes === limit
    if (isLast) await begin(state)
    if (strikes !== undefined) tally.counted++
    if (deniesStrikes) {
      refuse(state, isLast ? { banEndsAt: endsAt(banMs) } : {})
      if (isDryRun) return next()
      return next(isLast ? banned(banMs) : BLOCKED)
    }
    if (isLast) publish(state)
    if (strikes !== undefined) tally.passed++
    next()
  }

  async function strikeByAnswer(state: LimitState): Promise<void> {
    if (remainingMs(state.key) !== undefined) return
    const strikes = await count(state)
    if (strikes === undefined) return
    const report = () => {
      tallyPass()
      if (strikes >= limit) publish(state)
    }
    if (strikes <= limit) report()
    if (strikes === limit) await begin(state)
    if (strikes > limit && isMissing(state.key) && (await begin(state))) report()
  }

  return {
    /** Denies all requests of a client whose ban is in force. */
    deny: ((request, _response, next) => {
      if (bans.isEmpty()) return next()
      const key = keyOf(request)
      const leftMs = remainingMs(key)
      next(leftMs === undefined ? undefined : refuseBanned(stateOf(request, key), leftMs))
    }) satisfies RequestHandler,

    /**
     * Counts what matches as a strike, and bans the client at the last one. Counts are exact, so exactly one request gets the
     * count `maxretry`. If that did not ban the client, a later request does. With `status` it counts once the request is
     * answered, and a ban begins with the next request.
     */
    strike: onMatch(
      statuses === undefined
        ? strike
        : (state, response, next) => {
            onceAnswered(response, statuses, () => void strikeByAnswer(state))
            next()
          },
    ),
  }
}

function banned(remainingMs: number): ServiceError {
  const headers = { 'Retry-After': String(wholeSeconds(remainingMs)) }
  return new ServiceError('blocked', { headers })
}

/**
 * Does some work once a request is answered with one of these statuses: when its response is sent, or when its status is decided
 * after its client has left. A client may hang up during a slow check of a password, and is counted all the same.
 */
function onceAnswered(response: Response, statuses: ReadonlySet<number>, work: () => void): void {
  const answer = (status: number) => {
    if (statuses.has(status)) work()
  }
  response.once('finish', () => answer(response.statusCode))
  response.once('close', () => {
    if (response.writableFinished) return
    if (response.headersSent) return answer(response.statusCode)
    const { writeHead } = response
    response.writeHead = ((...args: Parameters<typeof writeHead>) => {
      response.writeHead = writeHead
      answer(args[0])
      return response.writeHead(...args)
    }) as typeof writeHead
  })
}
