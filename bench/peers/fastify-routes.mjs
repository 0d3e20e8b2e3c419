// The routes of the Fastify peers, with the schemas for validation and serialization.
const user = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    name: { type: 'string' },
    email: { type: 'string' },
    created_at: { type: 'string' },
    updated_at: { type: 'string' },
  },
}

const params = { type: 'object', properties: { id: { type: 'integer', minimum: 1 } } }

const name = { type: 'string', minLength: 1, maxLength: 255 }

const email = { type: 'string', format: 'email', maxLength: 254 }

const body = required => ({
  type: 'object',
  required: ['user'],
  properties: { user: { type: 'object', required, properties: { name, email } } },
})

/** `users` as `openUsersTable` returns it; its methods may also return promises. */
export function addUserRoutes(app, users) {
  const found = (value, reply) => value ?? reply.code(404).send({ message: 'Not found' })

  app.get(
    '/users',
    { schema: { response: { 200: { type: 'array', items: user } } } },
    async request => users.list(request.query.after),
  )
  app.get('/users/:id', { schema: { params, response: { 200: user } } }, async (request, reply) =>
    found(await users.find(request.params.id), reply),
  )
  app.post(
    '/users',
    { schema: { body: body(['name', 'email']), response: { 201: user } } },
    async (request, reply) => {
      reply.code(201)
      return users.create(request.body.user)
    },
  )
  app.put(
    '/users/:id',
    { schema: { params, body: body(['name']), response: { 200: user } } },
    async (request, reply) =>
      found(await users.rename(request.params.id, request.body.user.name), reply),
  )
}
