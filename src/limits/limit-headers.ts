import { createHash } from 'node:crypto'
import type { Request } from 'express'
import { memoize } from './rules/memoize.ts'
import type { LimitState } from './rules/request-facts.ts'

/** Adds an item of the rule to `RateLimit` and `RateLimit-Policy`, in the form of express-rate-limit's `draft-8`. */
export type AddLimitHeaders = (rule: string, state: LimitState) => void

export function createLimitHeaders(): AddLimitHeaders {
  const partitionOf = memoize(hashPartition)
  const quotedName = memoize(quote)

  return (rule, { request, key = '', limit, windowMs, count = 0, resetsInMs }) => {
    const name = quotedName(rule)
    const remaining = Math.max(limit - count, 0)
    const windowSeconds = Math.ceil(windowMs / 1000)
    const state = `${name}; r=${remaining}; t=${retryAfterSeconds(resetsInMs)}`
    const policy = `${name}; q=${limit}; w=${windowSeconds}; pk=:${partitionOf(key)}:`
    const { replyHeaders } = request
    // A new object each time: a denial that lets the request pass restores the previous one.
    request.replyHeaders =
      replyHeaders === undefined
        ? { RateLimit: state, 'RateLimit-Policy': policy }
        : {
            ...replyHeaders,
            RateLimit: join(replyHeaders.RateLimit, state),
            'RateLimit-Policy': join(replyHeaders['RateLimit-Policy'], policy),
          }
  }
}

/** Removes the items of a rule, before it adds those of a request that it has counted once more. */
export function dropLimitHeaders(request: Request, rule: string): void {
  const { RateLimit: state, 'RateLimit-Policy': policy, ...others } = request.replyHeaders ?? {}
  if (state === undefined || policy === undefined) return
  const start = `${quote(rule)}; `
  const without = (items: string) => {
    // Within a name, quotes are escaped.
    const left = items.split(/, (?=")/).filter(item => !item.startsWith(start))
    return left.join(', ')
  }
  request.replyHeaders =
    without(state) === ''
      ? others
      : { ...others, RateLimit: without(state), 'RateLimit-Policy': without(policy) }
}

/** At least 1: a client that is sent 0 retries immediately and is denied again. */
export function retryAfterSeconds(resetsInMs: number): number {
  return Math.max(1, Math.ceil(resetsInMs / 1000))
}

function join(items: string | undefined, item: string): string {
  return items === undefined ? item : `${items}, ${item}`
}

function hashPartition(key: string): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 12)
  return Buffer.from(hash).toString('base64')
}

/** A string in a header may hold printable ASCII only: RFC 9651 3.3.3. */
function quote(rule: string): string {
  return `"${rule.replace(/[^\x20-\x7e]/gu, '?').replace(/["\\]/g, '\\$&')}"`
}
