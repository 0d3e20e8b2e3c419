import { createHash, timingSafeEqual } from 'node:crypto'
import type { RequestHandler } from 'express'
import { INVALID_TOKEN, ServiceError } from '../../errors.ts'
import { bearerToken } from '../../http/headers.ts'

/**
 * Throws `origin_not_allowed` for a request that a page of another origin sends, also for one that only reads. The own origin
 * is the host that the request asks for: whether the page came by TLS is known only to a proxy.
 */
export const requireOwnOrigin: RequestHandler = (request, _response, next) => {
  const { origin } = request.headers
  const isOwn = origin === undefined || isOriginOf(request.host, origin)
  next(isOwn ? undefined : new ServiceError('origin_not_allowed'))
}

function isOriginOf(host: string | undefined, origin: string): boolean {
  const page = parseUrl(origin)
  // Browsers send nothing but an origin. `null` is one that they keep to themselves.
  if (page === undefined || page.origin !== origin || !page.protocol.startsWith('http'))
    return false
  return parseUrl(`${page.protocol}//${host}`)?.host === page.host
}

function parseUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined
}

export interface TokenOptions {
  /** `undefined` lets everyone in who can connect. */
  readonly token: string | undefined
  /** Without a token, nobody is let in elsewhere. */
  readonly isOnLoopback: () => boolean
}

/** Throws `token_required` for a request without the token, or with another one. */
export function requireToken({ token, isOnLoopback }: TokenOptions): RequestHandler {
  const expected = token === undefined ? undefined : digestOf(token)

  function isKnown(presented: string | undefined): boolean {
    if (expected === undefined) return isOnLoopback()
    // Digests have one length, and comparing them takes the same time wherever they differ.
    return timingSafeEqual(digestOf(presented ?? ''), expected)
  }

  return (request, _response, next) => {
    const presented = bearerToken(request)
    if (isKnown(presented)) next()
    else next(new ServiceError('token_required', presented ? { headers: INVALID_TOKEN } : {}))
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
