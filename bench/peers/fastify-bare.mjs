// Fastify with schemas, and nothing else.
import fastify from 'fastify'
import { addUserRoutes } from './fastify-routes.mjs'
import { announce, openUsersTable } from './users-table.mjs'

const app = fastify()
addUserRoutes(app, openUsersTable())
await app.listen({ port: 0, host: '127.0.0.1' })
announce(app.server.address().port)
