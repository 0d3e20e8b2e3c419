// node:http and better-sqlite3, and nothing else.
import { createServer } from 'node:http'
import { announce, openUsersTable } from './users-table.mjs'

const users = openUsersTable()

const server = createServer((request, response) => {
  const { method, url } = request
  if (method === 'GET') {
    if (url.startsWith('/users/')) sendFound(response, users.find(Number(url.slice(7))))
    else if (url.startsWith('/users?after=')) send(response, 200, users.list(url.slice(13)))
    else if (url === '/users') send(response, 200, users.list())
    else send(response, 404, { message: 'Not found' })
    return
  }
  let text = ''
  request.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  request.on('end', () => {
    const { user } = JSON.parse(text)
    if (method === 'POST') send(response, 201, users.create(user))
    else sendFound(response, users.rename(Number(url.slice(7)), user.name))
  })
})

server.listen(0, '127.0.0.1', () => announce(server.address().port))

function sendFound(response, user) {
  if (user === undefined) send(response, 404, { message: 'Not found' })
  else send(response, 200, user)
}

function send(response, status, value) {
  const body = JSON.stringify(value)
  response
    .writeHead(status, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(body),
    })
    .end(body)
}
