import { createHash } from 'node:crypto'
import { memoize } from '../platform/memoize.ts'
import { factsOf, type LimitState } from './rules/request-facts.ts'
import type { LimitRule } from './rules/rule-values.ts'

const partitionOf = memoize(hashPartition)
const quotedName = memoize(quote)

/** Gives a limit an item in the `RateLimit` and `RateLimit-Policy` of a request. `now` is by the clock by which windows end. */
export function showLimit(rule: LimitRule, state: LimitState, now: number): void {
  const { request } = state
  const facts = factsOf(request)
  facts.shown ??= new Map()
  facts.shown.set(rule, state)
  request.replyHeaders = headersOf(facts.shown, now)
}

/** Takes its item away again. */
export function hideLimit(rule: LimitRule, { request }: LimitState, now: number): void {
  const { shown } = factsOf(request)
  if (shown?.delete(rule)) request.replyHeaders = headersOf(shown, now)
}

/** In the form of express-rate-limit's `draft-8`. */
function headersOf(shown: ReadonlyMap<LimitRule, LimitState>, now: number) {
  let left = ''
  let policy = ''
  for (const [rule, { limit, count = 0, resetTime, windowMs, key = '' }] of shown) {
    const item = `${left === '' ? '' : ', '}${quotedName(rule.name)}; `
    left += `${item}r=${Math.max(limit - count, 0)}; t=${wholeSeconds(resetTime.getTime() - now)}`
    policy += `${item}q=${limit}; w=${Math.ceil(windowMs / 1000)}; pk=:${partitionOf(key)}:`
  }
  return left === '' ? undefined : { RateLimit: left, 'RateLimit-Policy': policy }
}

/** At least 1: a client that is sent 0 retries immediately and is denied again. */
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
