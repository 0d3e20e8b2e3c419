// Express as its guides show it, with the middleware that they recommend first.
import { rateLimit } from 'express-rate-limit'
import helmet from 'helmet'
import { pinoHttp } from 'pino-http'
import { serveUsers } from './express-routes.mjs'

const limit = { windowMs: 60_000, limit: 1_000_000_000, standardHeaders: 'draft-8' }
serveUsers(pinoHttp(), helmet(), rateLimit(limit))
