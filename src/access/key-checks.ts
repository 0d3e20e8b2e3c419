import type { Request, RequestHandler } from 'express'
import { BEARER_CHALLENGE, INVALID_TOKEN, ServiceError } from '../errors.ts'
import type { Action } from '../http/actions.ts'
import { bearerToken } from '../http/headers.ts'
import { SCOPE_OF_ACTION } from './api-key.ts'
import type { KeyRing } from './key-ring.ts'

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
 * Throws `key_required` for a request without a valid key, unless it `isOpen`. It stands after `recogniseKeys` and before the
 * routes: a client without a key cannot find out which paths exist.
 */
export function requireKey(isOpen: (request: Request) => boolean): RequestHandler {
  return (request, _response, next) => {
    const { apiKey, line, keyProblem, headers } = request
    if (apiKey !== undefined || isPreflight(request) || isOpen(request)) return next()
    const problem = keyProblem ?? (headers.authorization === undefined ? 'missing' : 'malformed')
    request.line = { ...line, keyProblem: problem }
    next(new ServiceError('key_required', keyProblem && { headers: INVALID_TOKEN }))
  }
}

/**
 * Whether a request that was admitted may continue: its key may have expired or been revoked since. A request without
 * a key, as on the management port, may.
 */
export function isKeyValid(ring: Pick<KeyRing, 'recognise'>, request: Request): boolean {
  if (request.apiKey === undefined) return true
  return typeof ring.recognise(bearerToken(request) ?? '') !== 'string'
}

/** Throws `scope_missing` unless the key has the scope of the action. After `requireKey`, on the route. */
export function requireScope(action: Action): RequestHandler {
  const scope = SCOPE_OF_ACTION[action]
  return ({ apiKey }, _response, next) => {
    if (apiKey?.scopes.has(scope)) return next()
    const message = `The API key lacks the scope ${scope}`
    const challenge = `${BEARER_CHALLENGE}, error="insufficient_scope", scope="${scope}"`
    next(new ServiceError('scope_missing', { message, headers: { 'WWW-Authenticate': challenge } }))
  }
}

/** Browsers send no key with it: Fetch Standard, "CORS-preflight request". It reads and changes nothing. */
function isPreflight({ method, headers }: Request): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}
