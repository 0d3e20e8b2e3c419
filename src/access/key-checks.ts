import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { bearerToken } from '../http/bearer-token.ts'
import type { KeyNeed } from './key-needs.ts'
import type { KeyProblem, KeyRing } from './key-ring.ts'

/** Sets `request.apiKey` if the request has a valid key. Never refuses a request. */
export function recogniseKeys(ring: Pick<KeyRing, 'recognise'>): RequestHandler {
  return (request, _response, next) => {
    const presented = bearerToken(request)
    if (presented !== undefined) {
      const found = ring.recognise(presented)
      if (typeof found === 'string') request.keyProblem = found
      else request.apiKey = found
    }
    next()
  }
}

/**
 * Throws `key_required` for a request that needs a key and has no valid one, and `scope_missing` for one whose key lacks
 * the scope. After `recogniseKeys`.
 */
export function requireKeys(needOf: (request: Request) => KeyNeed): RequestHandler {
  return (request, _response, next) => next(refuse(request, needOf(request)))
}

function refuse(request: Request, need: KeyNeed): ServiceError | undefined {
  if (need === 'nothing') return undefined
  const { apiKey, logFields, keyProblem = problemOf(request) } = request
  if (apiKey === undefined) {
    request.logFields = { ...logFields, keyProblem }
    return new ServiceError('key_required')
  }
  if (need === 'any key' || apiKey.scopes.has(need)) return undefined
  return new ServiceError('scope_missing', {
    message: `The API key lacks the scope ${need}`,
    // RFC 6750 3.1.
    headers: { 'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${need}"` },
  })
}

function problemOf({ headers }: Request): KeyProblem | 'missing' {
  return headers.authorization === undefined ? 'missing' : 'malformed'
}
