// Express as its guides show it, with the middleware that they recommend first.
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import helmet from 'helmet'
import { pinoHttp } from 'pino-http'
import { announce, openUsersTable } from './users-table.mjs'

const users = openUsersTable()
const app = express()
app.use(pinoHttp())
app.use(helmet())
app.use(rateLimit({ windowMs: 60_000, limit: 1_000_000_000, standardHeaders: 'draft-8' }))
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
