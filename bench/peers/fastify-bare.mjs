// Fastify with schemas, and nothing else.
import fastify from 'fastify'
import { addUserRoutes, listen } from './fastify-routes.mjs'
import { openUsersTable } from './users-table.mjs'

const app = fastify()
addUserRoutes(app, openUsersTable())
await listen(app)
