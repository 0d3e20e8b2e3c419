import { isIPv4, isIPv6 } from 'node:net'
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
  // Without a proxy there is no such address, and asking twice would take a microsecond.
  if (trustProxy !== false) ignoreForwardedPorts(app)
  return app
}

type Trust = (address: string, hop: number) => boolean

const expressIp = Object.getOwnPropertyDescriptor(expressRequest, 'ip')?.get as (
  this: Request,
) => string | undefined

/**
 * Removes the port that some load balancers append to addresses in X-Forwarded-For from `request.ip`. With it, rules and log
 * would see each port as another client.
 */
function ignoreForwardedPorts(app: Application): void {
  const isTrusted: Trust = app.get('trust proxy fn')
  const trust: Trust = (address, hop) => isTrusted(withoutPort(address), hop)
  app.set('trust proxy fn', trust)
  const { request: prototype } = app as unknown as { readonly request: Request }
  Object.defineProperty(prototype, 'ip', {
    configurable: true,
    get(this: Request): string | undefined {
      const ip = expressIp.call(this)
      return ip === undefined ? undefined : withoutPort(ip)
    },
  })
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
