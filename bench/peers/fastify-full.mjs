// Fastify with plugins for the features that the service has: security headers, ETags, a rate limit and its logger.
import etag from '@fastify/etag'
import helmet from '@fastify/helmet'
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { addUserRoutes, listen } from './fastify-routes.mjs'
import { openUsersTable } from './users-table.mjs'

const app = fastify({ logger: true })
await app.register(helmet)
await app.register(etag)
await app.register(rateLimit, { max: 1_000_000_000, timeWindow: '1 minute' })
app.register(async routes => addUserRoutes(routes, openUsersTable()))
await listen(app)
