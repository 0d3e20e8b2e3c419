import type { Request } from 'express'
import type { Endpoint } from '../http/endpoints.ts'
import { SCOPE_OF_ACTION } from './action-scopes.ts'
import type { Scope } from './scopes.ts'

/** What a request needs: no key, any valid key, or one with a scope. */
export type KeyNeed = 'nothing' | 'any key' | Scope

interface KnownPath {
  /** Parts between slashes; `undefined` for a parameter. */
  readonly parts: readonly (string | undefined)[]
  readonly isOpen: boolean
  /** By method, in upper case. */
  readonly scopes: ReadonlyMap<string, Scope>
}

/**
 * Finds what a request needs. It matches paths as the router does, but before the router, so that nothing tells a client
 * without a key which paths exist: unknown paths need a key too.
 */
export function compileKeyNeeds(endpoints: readonly Endpoint[]): (request: Request) => KeyNeed {
  const templates = [...new Set(endpoints.map(({ path }) => path))]
  const known = templates.map(template => {
    return knownPath(
      template,
      endpoints.filter(({ path }) => path === template),
    )
  })
  return request => {
    if (isPreflight(request)) return 'nothing'
    const parts = pathOf(request).split('/')
    const path = known.find(each => isMatch(each, parts))
    if (path === undefined) return 'any key'
    if (path.isOpen) return 'nothing'
    const method = request.method === 'HEAD' ? 'GET' : request.method
    return path.scopes.get(method) ?? 'any key'
  }
}

function knownPath(template: string, endpoints: readonly Endpoint[]): KnownPath {
  const parts = template.split('/').map(part => (part.startsWith('{') ? undefined : part))
  const scopes = endpoints.flatMap(({ method, action }) =>
    action === undefined ? [] : [[method.toUpperCase(), SCOPE_OF_ACTION[action]] as const],
  )
  return { parts, isOpen: endpoints.every(({ isOpen }) => isOpen), scopes: new Map(scopes) }
}

function isMatch({ parts }: KnownPath, sent: readonly string[]): boolean {
  return (
    parts.length === sent.length &&
    parts.every((part, index) => (part === undefined ? sent[index] !== '' : part === sent[index]))
  )
}

/** Browsers send no key with it: Fetch Standard, "CORS-preflight request". It reads and changes nothing. */
function isPreflight({ method, headers }: Request): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}

function pathOf(request: Request): string {
  try {
    return request.path
  } catch {
    // A target such as http://[/ has no path.
    return request.url
  }
}
