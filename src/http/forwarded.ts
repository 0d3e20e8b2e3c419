import { isIP, type Socket } from 'node:net'
import { type Application, request as expressRequest, type Request } from 'express'

type Trust = (address: string | undefined, hop: number) => boolean

/** The address of a connection on a Unix socket, which has none. */
const LOOPBACK = '127.0.0.1'

const expressIp = Object.getOwnPropertyDescriptor(expressRequest, 'ip')?.get as (
  this: Request,
) => string | undefined

/**
 * Makes a connection on a Unix socket, which has no address, count as loopback. Removes the port that some load balancers append
 * to addresses in X-Forwarded-For from `request.ip`: with it, rules and log would see each port as another client.
 */
export function readForwardedAddresses(app: Application): void {
  const isTrusted: Trust = app.get('trust proxy fn')
  const trust: Trust = (address = LOOPBACK, hop) => isTrusted(withoutPort(address), hop)
  app.set('trust proxy fn', trust)
  // The address of a trusted program on a Unix socket that forwards none. Without trust it is unknown.
  const own = isTrusted(LOOPBACK, 0) ? LOOPBACK : undefined
  const { request: prototype } = app as unknown as { readonly request: Request }
  Object.defineProperty(prototype, 'ip', {
    configurable: true,
    get(this: Request): string | undefined {
      // Found once: express-rate-limit asks for it with each rule.
      if (this.clientAddress === undefined && !hasLostAddress(this.socket)) {
        const ip = expressIp.call(this) ?? own
        this.clientAddress = ip && withoutPort(ip)
      }
      return this.clientAddress
    },
  })
}

/** Whether the program at the other end of the connection may say what the client has sent. */
function isFromTrustedProxy({ app, socket }: Request): boolean {
  const isTrusted: Trust = app.get('trust proxy fn')
  return !hasLostAddress(socket) && isTrusted(socket.remoteAddress, 0)
}

/** Whether a client of TCP was gone before its address was read, so that nobody knows whether it is a trusted proxy. */
export function hasLostAddress(socket: Socket): boolean {
  return (
    socket.remoteAddress === undefined && (socket.localAddress !== undefined || socket.destroyed)
  )
}

/** The address in `198.51.100.7:4444`, `[2001:db8::7]:4444` and `[2001:db8::7]`; any other text is returned unchanged. */
function withoutPort(text: string): string {
  const [, inBrackets, beforeColon] = /^(?:\[([^\]]*)\].*|([\d.]+):[^:]*)$/.exec(text) ?? []
  const address = inBrackets ?? beforeColon ?? ''
  return isIP(address) === 0 ? text : address
}

/** The host that a request asks for under TRUST_PROXY, without port and final dot, in lower case; `undefined` without one. */
export function requestedHost(request: Request): string | undefined {
  const host: string | undefined = request.hostname
  return (host && plainHost(host)) || undefined
}

/** A host name in lower case and without a final dot. */
export function plainHost(name: string): string {
  return name.toLowerCase().replace(/\.$/, '')
}

/** One path without an empty segment, as in `X-Forwarded-Prefix: /accounts`, and what follows it. */
const PREFIX = /^((?:\/[^/,]+)+)\/?$/

/**
 * The path under which clients find this application, for URLs; empty without one: what a trusted proxy has removed, then where
 * another application has mounted this one. It may be a client's text: proxies may pass the header on, and the path of a mount
 * may have a parameter.
 */
export function mountPath(request: Request): string {
  const { headers, baseUrl = '' } = request
  const [, prefix = ''] = PREFIX.exec(String(headers['x-forwarded-prefix'])) ?? []
  return uriPath(prefix !== '' && isFromTrustedProxy(request) ? prefix + baseUrl : baseUrl)
}

/** Escapes what a URI must not contain, such as a stray percent sign. A path of `//x` would name a host. */
export function uriPath(sent: string): string {
  const escaped = sent
    .toWellFormed()
    .replace(/%(?![0-9A-Fa-f]{2})|[^\w.~!$&'()*+,;=:@%/-]/gu, encodeURIComponent)
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}
