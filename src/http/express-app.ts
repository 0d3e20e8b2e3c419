import { isIPv4, isIPv6, type Socket } from 'node:net'
import express, { type Application, request as expressRequest, type Request } from 'express'
import { queryObject } from './query.ts'

/** An Express application without any middleware. `trustProxy` is what Express takes as `trust proxy`. */
export function createExpressApp(trustProxy: false | number | readonly string[]): Application {
  const app = express()
  app.disable('x-powered-by')
  app.enable('case sensitive routing')
  app.enable('strict routing')
  app.set('etag', false)
  // Only functions in limits files read `request.query`. It is parsed when they do.
  app.set('query parser', queryObject)
  app.set('trust proxy', trustProxy)
  // Without a proxy no address is forwarded, and asking twice would take a microsecond.
  if (trustProxy !== false) readForwardedAddresses(app)
  return app
}

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
function readForwardedAddresses(app: Application): void {
  const isTrusted: Trust = app.get('trust proxy fn')
  const trust: Trust = (address = LOOPBACK, hop) => isTrusted(withoutPort(address), hop)
  app.set('trust proxy fn', trust)
  // The address of a trusted program on a Unix socket that forwards none. Without trust it is unknown.
  const own = isTrusted(LOOPBACK, 0) ? LOOPBACK : undefined
  const { request: prototype } = app as unknown as { readonly request: Request }
  Object.defineProperty(prototype, 'ip', {
    configurable: true,
    get(this: Request): string | undefined {
      if (hasLostAddress(this.socket)) return undefined
      const ip = expressIp.call(this) ?? own
      return ip === undefined ? undefined : withoutPort(ip)
    },
  })
}

/** Whether the program at the other end of the connection may say what the client has sent. */
export function isFromTrustedProxy({ app, socket }: Request): boolean {
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
  if (text.startsWith('[')) {
    const address = text.slice(1, text.indexOf(']'))
    return isIPv6(address) ? address : text
  }
  const colon = text.indexOf(':')
  if (colon < 0 || text.includes(':', colon + 1)) return text
  const address = text.slice(0, colon)
  return isIPv4(address) ? address : text
}
