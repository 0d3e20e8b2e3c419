// Express with nothing but express-rate-limit, which counts in Redis by rate-limit-redis. Without REDIS_URL it has no limit.
import { createClient } from '@redis/client'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { RedisStore } from 'rate-limit-redis'
import { announce, openUsersTable } from './users-table.mjs'

const users = openUsersTable()
const app = express()
const url = process.env.REDIS_URL
if (url) {
  const client = await createClient({ url }).connect()
  const store = new RedisStore({ sendCommand: (...args) => client.sendCommand(args) })
  app.use(rateLimit({ windowMs: 60_000, limit: 1_000_000_000, standardHeaders: 'draft-8', store }))
}
app.use(express.json())

app.get('/users', (_request, response) => {
  response.json(users.list())
})
app.get('/users/:id', (request, response) => {
  sendFound(response, users.find(Number(request.params.id)))
})
app.post('/users', (request, response) => {
  response.status(201).json(users.create(request.body.user))
})
app.put('/users/:id', (request, response) => {
  sendFound(response, users.rename(Number(request.params.id), request.body.user.name))
})

const server = app.listen(0, '127.0.0.1', () => announce(server.address().port))

function sendFound(response, user) {
  if (user === undefined) response.status(404).json({ message: 'Not found' })
  else response.json(user)
}
