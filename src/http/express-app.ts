import express, { type Application } from 'express'
import { readForwardedAddresses } from './forwarded.ts'
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
