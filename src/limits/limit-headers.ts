import { createHash } from 'node:crypto'
import type { Request } from 'express'
import { remembering } from './remembering.ts'

/** What the headers say of one rule for one client. */
export interface LimitState {
  readonly rule: string
  readonly key: string
  readonly quota: number
  readonly windowMs: number
  readonly count: number
  readonly resetsInMs: number
}

/**
 * Puts one item for the rule into `RateLimit` and `RateLimit-Policy` of the answer, in the form that express-rate-limit
 * has for `draft-8`. It is not asked to, because it hashes the key again for each request.
 */
export type AddLimitHeaders = (request: Request, state: LimitState) => void

export function createLimitHeaders(): AddLimitHeaders {
  const partitionOf = remembering(key => {
    const hash = createHash('sha256').update(key).digest('hex').slice(0, 12)
    return Buffer.from(hash).toString('base64')
  })
  const nameOf = remembering(quoted)

  return (request, { rule, key, quota, windowMs, count, resetsInMs }) => {
    const name = nameOf(rule)
    const remaining = Math.max(quota - count, 0)
    const windowSeconds = Math.ceil(windowMs / 1000)
    request.replyHeaders ??= {}
    const headers = request.replyHeaders
    append(headers, 'RateLimit', `${name}; r=${remaining}; t=${retryAfterSeconds(resetsInMs)}`)
    const policy = `${name}; q=${quota}; w=${windowSeconds}; pk=:${partitionOf(key)}:`
    append(headers, 'RateLimit-Policy', policy)
  }
}

export function retryAfterSeconds(resetsInMs: number): number {
  return Math.ceil(resetsInMs / 1000)
}

function append(headers: Record<string, string>, name: string, item: string): void {
  const items = headers[name]
  headers[name] = items === undefined ? item : `${items}, ${item}`
}

/** A string of a header may hold printable ASCII only: RFC 9651 3.3.3. */
function quoted(rule: string): string {
  return `"${rule.replace(/[^\x20-\x7e]/gu, '?').replace(/["\\]/g, '\\$&')}"`
}
