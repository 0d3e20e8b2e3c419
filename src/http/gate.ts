import { isIP, isIPv6 } from 'node:net'
import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { plainHost, requestedHost } from './forwarded.ts'
import { headerValues } from './headers.ts'
import { logText } from './request-log.ts'

/** A registered name or an address, and a port: RFC 3986 3.2. */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.~!$&'()*+,;=%-]*)(?::(\d*))?$/i

const MAX_PORT = 65_535

/**
 * Throws `request_malformed` for HTTP/1.1 without a Host, and for several or an invalid one: RFC 9112 3.2. A proxy in front
 * of the service may have used another of them. A target in absolute form must name a host, and its scheme be that of the
 * connection (`scheme_not_allowed`): RFC 9110 4.2 and 7.4. Throws `transfer_coding_unsupported`: RFC 9112 6.1.
 */
export const requireValidHead: RequestHandler = (request, _response, next) => {
  const { targetScheme } = request.arrival
  const { host, 'transfer-encoding': coding } = request.headers
  const isMissing =
    targetScheme === undefined ? host === undefined && request.httpVersion === '1.1' : !host
  if (
    isMissing ||
    (host !== undefined && !isHost(host)) ||
    headerValues(request, 'host').length > 1
  ) {
    throw new ServiceError('request_malformed')
  }
  if (targetScheme !== undefined && targetScheme !== request.protocol) {
    throw new ServiceError('scheme_not_allowed')
  }
  // Node refuses a body whose last coding is not chunked.
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    throw new ServiceError('transfer_coding_unsupported')
  }
  next()
}

function isHost(text: string): boolean {
  const parts = HOST.exec(text)
  return parts !== null && Number(parts[1] ?? 0) <= MAX_PORT
}

export interface AllowedHostOptions {
  /**
   * Names and addresses, without ports; `*` for all. `undefined` allows any host, unless the server listens on loopback
   * only and trusts no proxy: then only hosts that are `isLocal`.
   */
  readonly allowedHosts: readonly string[] | '*' | undefined
  /** As `createExpressApp`. */
  readonly trustProxy: false | number | readonly string[]
  /** Called with the host of each request that is refused, in a form that is safe to log. */
  readonly onHostRefused: (host: string) => void
}

/**
 * Throws `host_not_allowed` for a request that asks for another host. Without this, a page whose host name resolves to
 * this machine could read and write everything (DNS rebinding): to browsers, page and service are one origin.
 */
export function requireAllowedHost(options: AllowedHostOptions): RequestHandler {
  const isAllowed = compileHosts(options)
  return (request, _response, next) => {
    // Empty if there is a Host header but the host that counts has no name, as in `X-Forwarded-Host: :443`.
    const host = requestedHost(request) ?? (request.headers.host ? '' : undefined)
    if (host === undefined || isAllowed(host, request.arrival)) {
      next()
      return
    }
    options.onHostRefused(logText(host))
    next(new ServiceError('host_not_allowed'))
  }
}

function compileHosts({
  allowedHosts,
  trustProxy,
}: AllowedHostOptions): (host: string, arrival: Request['arrival']) => boolean {
  if (allowedHosts === '*') return () => true
  if (allowedHosts === undefined) {
    // Zero hops are no proxy.
    const trustsProxy = trustProxy !== false && trustProxy !== 0
    return (host, { isOnLoopback }) => isLocal(host) || trustsProxy || !isOnLoopback
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
  return isIPv6(address) ? new URL(`http://[${address}]`).host : plainHost(host)
}

function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
}

/** Throws `shutting_down` for a request that came too late to be answered, and `overloaded` for one that was shed. */
export const denyLateAndShed: RequestHandler = ({ arrival }, _response, next) => {
  if (arrival.isTooLate) next(new ServiceError('shutting_down'))
  else next(arrival.isShed ? new ServiceError('overloaded') : undefined)
}

/** Throws `path_malformed` for a path whose percent-encoding cannot be decoded. */
export const requireDecodablePath: RequestHandler = ({ path }, _response, next) => {
  next(isDecodable(path) ? undefined : new ServiceError('path_malformed'))
}

/** The result of the call is used, because bundlers drop one whose result is not. */
function isDecodable(path: string): boolean {
  try {
    return !path.includes('%') || decodeURIComponent(path) !== ''
  } catch {
    return false
  }
}
