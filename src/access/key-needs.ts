import type { Request } from 'express'
import type { Endpoint } from '../http/endpoints.ts'
import { createTemplateFinder } from '../http/find-template.ts'
import { SCOPE_OF_ACTION } from './action-scopes.ts'
import type { Scope } from './scopes.ts'

/** What a request needs: no key, any valid key, or one with a scope. */
export type KeyNeed = 'nothing' | 'any key' | Scope

interface KnownPath {
  readonly isOpen: boolean
  /** By method, in upper case. */
  readonly scopes: ReadonlyMap<string, Scope>
}

/**
 * Finds what a request needs. It matches paths before the router does, so that nothing tells a client without a key which
 * paths exist: unknown paths need a key too.
 */
export function compileKeyNeeds(endpoints: readonly Endpoint[]): (request: Request) => KeyNeed {
  const templates = endpoints.map(({ path }) => path)
  const known = new Map(
    templates.map(template => [
      template,
      knownPath(endpoints.filter(({ path }) => path === template)),
    ]),
  )
  const templateOf = createTemplateFinder(templates)
  return request => {
    if (isPreflight(request)) return 'nothing'
    const path = known.get(templateOf(request) ?? '')
    if (path === undefined) return 'any key'
    if (path.isOpen) return 'nothing'
    const method = request.method === 'HEAD' ? 'GET' : request.method
    return path.scopes.get(method) ?? 'any key'
  }
}

function knownPath(endpoints: readonly Endpoint[]): KnownPath {
  const scopes = endpoints.flatMap(({ method, action }) =>
    action === undefined ? [] : [[method.toUpperCase(), SCOPE_OF_ACTION[action]] as const],
  )
  return { isOpen: endpoints.every(({ isOpen }) => isOpen), scopes: new Map(scopes) }
}

/** Browsers send no key with it: Fetch Standard, "CORS-preflight request". It reads and changes nothing. */
function isPreflight({ method, headers }: Request): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}
