import type { Request } from 'express'

/** The host that a request asks for under TRUST_PROXY, without port and final dot, in lower case; `undefined` without one. */
export function requestedHost(request: Request): string | undefined {
  const host: string | undefined = request.hostname
  return host?.toLowerCase().replace(/\.$/, '') || undefined
}
