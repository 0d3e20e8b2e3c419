import type { Request } from 'express'

const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i

/**
 * Turns a target in absolute form (`GET http://host/path`), as clients send it to a proxy, into a path. The host of the
 * target replaces the Host header: RFC 9112 3.2.2.
 */
export function toOriginForm(request: Request): void {
  const [origin, host] = ABSOLUTE_FORM.exec(request.url) ?? []
  if (origin === undefined) return
  const rest = request.url.slice(origin.length)
  request.url = rest.startsWith('/') ? rest : `/${rest}`
  request.headers.host = host
}
