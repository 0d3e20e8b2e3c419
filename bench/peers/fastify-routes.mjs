// The routes of the Fastify peers, with the schemas for validation and serialization.
import { announce } from './users-table.mjs'

const name = { type: 'string', minLength: 1, maxLength: 255 }

const email = { type: 'string', format: 'email', maxLength: 254 }

const params = { type: 'object', properties: { id: { type: 'integer', minimum: 1 } } }

const text = { type: 'string' }

const user = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    name: text,
    email: text,
    created_at: text,
    updated_at: text,
  },
}

const body = required => ({
  type: 'object',
  required: ['user'],
  properties: { user: { type: 'object', required, properties: { name, email } } },
})

/** `users` as `openUsersTable` returns it; its methods may also return promises. */
export function addUserRoutes(app, users) {
  const found = (value, reply) => value ?? reply.code(404).send({ message: 'Not found' })
  const list = { response: { 200: { type: 'array', items: user } } }
  const find = { params, response: { 200: user } }
  const create = { body: body(['name', 'email']), response: { 201: user } }
  const rename = { params, body: body(['name']), response: { 200: user } }

  app.get('/users', { schema: list }, async request => users.list(request.query.after))
  app.get('/users/:id', { schema: find }, async (request, reply) =>
    found(await users.find(request.params.id), reply),
  )
  app.post('/users', { schema: create }, async (request, reply) => {
    reply.code(201)
    return users.create(request.body.user)
  })
  app.put('/users/:id', { schema: rename }, async (request, reply) =>
    found(await users.rename(request.params.id, request.body.user.name), reply),
  )
}

export async function listen(app) {
  await app.listen({ port: 0, host: '127.0.0.1' })
  announce(app.server.address().port)
}
