// The routes of the Express peers, behind their middleware.
import express from 'express'
import { announce, openUsersTable } from './users-table.mjs'

export function serveUsers(...middleware) {
  const users = openUsersTable()
  const app = express()
  for (const handler of middleware) app.use(handler)
  app.use(express.json())

  app.get('/users', (request, response) => {
    response.json(users.list(request.query.after))
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
}

function sendFound(response, user) {
  if (user === undefined) response.status(404).json({ message: 'Not found' })
  else response.json(user)
}
