import { isIP, isIPv6 } from 'node:net'
import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { logText } from './log-text.ts'
import { requestedHost } from './requested-host.ts'

export interface AllowedHostOptions {
  /**
   * Names and addresses, without ports; `*` for all. `undefined` allows what `isLocal` does while only programs of this
   * machine can connect and none of them is trusted to forward requests of others, and otherwise any host.
   */
  readonly allowedHosts: readonly string[] | '*' | undefined
  /** As `createExpressApp`. */
  readonly trustProxy: false | number | readonly string[]
  /** Whether the server listens on loopback only. */
  readonly isOnLoopback: () => boolean
  /** Called with the host of each request that is refused, in a form that is safe to log. */
  readonly onRefused: (host: string) => void
}

/**
 * Throws `host_not_allowed` for a request that asks for another host. Without this, a page whose host name resolves to this
 * machine could read and write everything (DNS rebinding): browsers take page and service for one origin.
 */
export function requireAllowedHost(options: AllowedHostOptions): RequestHandler {
  const isAllowed = compileHosts(options)
  return (request, _response, next) => {
    const host = requestedHost(request) ?? unnamedHost(request)
    if (host === undefined || isAllowed(host)) {
      next()
      return
    }
    options.onRefused(logText(host))
    next(new ServiceError('host_not_allowed'))
  }
}

/**
 * `undefined` for a request that asks for no host; empty if the one that counts has no name, as in `X-Forwarded-Host: :443`.
 * That must not hide the Host header.
 */
function unnamedHost({ headers }: Request): string | undefined {
  return headers.host ? '' : undefined
}

function compileHosts({
  allowedHosts,
  trustProxy,
  isOnLoopback,
}: AllowedHostOptions): (host: string) => boolean {
  if (allowedHosts === '*') return () => true
  if (allowedHosts === undefined) {
    // Zero hops are no proxy.
    const trustsProxy = trustProxy !== false && trustProxy !== 0
    return host => trustsProxy || !isOnLoopback() || isLocal(host)
  }
  const known = new Set(allowedHosts.map(comparedHost))
  return host => known.has(host) || known.has(comparedHost(host))
}

/** Nobody can make these names or addresses lead elsewhere and then here: RFC 6761 6.3. */
function isLocal(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || isIP(withoutBrackets(host)) !== 0
}

/** A host as it is compared: an address of IPv6 has many spellings. */
function comparedHost(host: string): string {
  // A link-local address may name its interface, as in `fe80::1%eth0`.
  const [address = ''] = withoutBrackets(host).split('%')
  if (isIPv6(address)) return new URL(`http://[${address}]`).host
  return host.toLowerCase().replace(/\.$/, '')
}

function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
}
