import { isIPv6 } from 'node:net'
import type { Request } from 'express'
import { ipKeyGenerator } from 'express-rate-limit'
import { queryParameters } from '../http/query-string.ts'

/** A household or a small site has at least so much of IPv6 to itself: RFC 6177. */
const IPV6_PREFIX_BITS = 56

declare global {
  namespace Express {
    interface Request {
      /** Kept on the request and not in a WeakMap, of which the garbage collector makes much work. */
      limitFacts?: RequestFacts
    }
  }
}

/** What several rules may ask of a request; each is found out once, and only if it is asked for. */
export class RequestFacts {
  /** The client's address under TRUST_PROXY. */
  readonly ip: string | undefined
  /** Whether the safelist let the request through, which no limit may touch then. */
  isSafe = false
  readonly #request: Request
  #ipKey: string | undefined
  #path: string | undefined
  #host: string | undefined

  constructor(request: Request) {
    this.#request = request
    this.ip = request.ip
  }

  /** The address as clients are counted by it: of IPv6 only the network. */
  get ipKey(): string | undefined {
    this.#ipKey ??= countedAddress(this.ip)
    return this.#ipKey
  }

  /**
   * The path as rules compare it: what the router takes for the path, decoded, with repeated slashes folded, so
   * that no spelling of a path slips by. One that cannot be decoded stays as it was sent.
   */
  get path(): string {
    this.#path ??= comparedPath(this.#request)
    return this.#path
  }

  /** The host asked for, without port and final dot, in lower case. */
  get host(): string | undefined {
    this.#host ??= hostOf(this.#request)
    return this.#host
  }
}

/** Asking Express each time would take a tenth of the time of a read, with ten rules. */
export function factsOf(request: Request): RequestFacts {
  request.limitFacts ??= new RequestFacts(request)
  return request.limitFacts
}

/** Every value of a header, which may have been sent several times. */
export function headerValues(request: Request, lowerCaseName: string): readonly string[] {
  // Node's headersDistinct would take all headers apart for the one.
  const { rawHeaders } = request
  const values: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    const isIt = name.length === lowerCaseName.length && name.toLowerCase() === lowerCaseName
    if (isIt) values.push(rawHeaders[at + 1] as string)
  }
  return values
}

/** Every value of a query parameter; one that cannot be decoded is as it was sent. */
export function queryValues(request: Request, name: string): readonly string[] {
  return queryParameters(request.url)
    .filter(parameter => parameter.name === name)
    .map(({ value, sent }) => value ?? sent)
}

/** What a client with this address is counted by: of IPv6 only the network, as in `2001:db8:0:100::/56`. */
export function countedAddress(ip: string | undefined): string | undefined {
  if (ip === undefined || !ip.includes(':')) return ip
  // A link-local address may name the interface it came in by.
  const address = ip.replace(/%.*/s, '')
  return isIPv6(address) ? ipKeyGenerator(address, IPV6_PREFIX_BITS) : ip
}

function comparedPath(request: Request): string {
  const path = sentPath(request)
  if (!path.includes('%') && !path.includes('//')) return path
  try {
    return decodeURIComponent(path).replace(/\/{2,}/g, '/')
  } catch {
    return path
  }
}

function sentPath(request: Request): string {
  try {
    return request.path
  } catch {
    return request.url
  }
}

function hostOf(request: Request): string | undefined {
  const host: string | undefined = request.hostname
  return host?.toLowerCase().replace(/\.$/, '') || undefined
}
