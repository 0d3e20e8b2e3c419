import type { RequestHandler } from 'express'
import { ServiceError } from '../../errors.ts'

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
