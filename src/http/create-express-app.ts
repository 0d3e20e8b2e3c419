import express, { type Application } from 'express'
import { ignoreForwardedPorts } from './client-address.ts'
import { queryObject } from './query-string.ts'

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
  ignoreForwardedPorts(app)
  return app
}
