import { createHash } from 'node:crypto'
import type { Request } from 'express'
import { memoize } from './rules/memoize.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'

/**
 * Puts an item of each limit that has counted a request into its `RateLimit` and `RateLimit-Policy`, in the form of
 * express-rate-limit's `draft-8`.
 */
export type ShowLimits = (request: Request) => void

/** `steadyNow` is the clock by which windows end. */
export function createLimitHeaders(steadyNow: () => number): ShowLimits {
  const partitionOf = memoize(hashPartition)
  const quotedName = memoize(quote)

  function stateItem(rule: string, { limit, count = 0, resetTime }: LimitState): string {
    const left = Math.max(limit - count, 0)
    return `${quotedName(rule)}; r=${left}; t=${secondsUntil(resetTime, steadyNow())}`
  }

  function policyItem(rule: string, { limit, windowMs, key = '' }: LimitState): string {
    const seconds = Math.ceil(windowMs / 1000)
    return `${quotedName(rule)}; q=${limit}; w=${seconds}; pk=:${partitionOf(key)}:`
  }

  return request => {
    const { shown } = factsOf(request)
    if (shown === undefined) return
    const items = (itemOf: typeof stateItem) =>
      Array.from(shown, ([{ name }, state]) => itemOf(name, state)).join(', ')
    request.replyHeaders =
      shown.size === 0
        ? undefined
        : { RateLimit: items(stateItem), 'RateLimit-Policy': items(policyItem) }
  }
}

/** At least 1: a client that is sent 0 retries immediately and is denied again. */
export function secondsUntil(end: Date, now: number): number {
  return wholeSeconds(end.getTime() - now)
}

/** At least 1, for the same reason. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

function hashPartition(key: string): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 12)
  return Buffer.from(hash).toString('base64')
}

/** A string in a header may hold printable ASCII only: RFC 9651 3.3.3. */
function quote(rule: string): string {
  return `"${rule.replace(/[^\x20-\x7e]/gu, '?').replace(/["\\]/g, '\\$&')}"`
}
