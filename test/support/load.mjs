// Loads a service from another process: a number of connections, each of which sends its next request after a response.
// It ends after a time or a number of requests, or once it has seen some statuses. Then it prints the number of responses
// by status. In its own process, so that the test can use the service meanwhile.
import { connect } from 'node:net'

const {
  port,
  connections,
  seconds = 3600,
  requests = Infinity,
  until,
  workload,
  run,
} = JSON.parse(process.argv[2])
const endsAt = performance.now() + seconds * 1000
let left = requests
const statuses = {}
let serial = 0
let open = 0

const HOST = 'HTTP/1.1\r\nHost: localhost\r\n'
const WORKLOADS = {
  read: () => get(`/users/${1 + Math.floor(Math.random() * 1000)}`),
  list: () => get('/users?per_page=1000'),
  create: () => post({ name: 'Load', email: address() }),
  password: () => post({ name: 'Load', email: address(), password: 'correct horse' }),
  mixed: () => {
    const kind = serial++ % 10
    if (kind === 0) return WORKLOADS.create()
    if (kind === 1) return put({ name: `Name ${serial}` })
    if (kind === 2) return get(`/users?per_page=20&page=${1 + (serial % 50)}`)
    if (kind === 3) return get('/users/0')
    return WORKLOADS.read()
  },
}

function address() {
  return `${run}.${process.pid}.${serial++}@example.com`
}

/** Another client address for each request, for a service that trusts its proxy. */
function client() {
  const number = Math.floor(Math.random() * 2 ** 20)
  return `X-Forwarded-For: 10.${number >> 16}.${(number >> 8) & 255}.${number & 255}\r\n`
}

function get(path) {
  return `GET ${path} ${HOST}${client()}\r\n`
}

function post(user) {
  return withBody('POST', '/users', user)
}

function put(user) {
  return withBody('PUT', `/users/${1 + Math.floor(Math.random() * 1000)}`, user)
}

function withBody(method, path, user) {
  const body = JSON.stringify({ user })
  return `${method} ${path} ${HOST}${client()}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

function begin() {
  const socket = connect(port, '127.0.0.1')
  const nextRequest = WORKLOADS[workload]
  let missing = 0
  let head = ''
  open++
  left--
  socket.write(nextRequest())
  socket.on('data', chunk => {
    let rest = chunk
    while (rest.length > 0) {
      if (missing > 0) {
        const taken = Math.min(missing, rest.length)
        missing -= taken
        rest = rest.subarray(taken)
      } else {
        head += rest.toString('latin1')
        rest = rest.subarray(rest.length)
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        const after = head.slice(end + 4)
        const status = head.slice(9, 12)
        missing = Number(/content-length: (\d+)/i.exec(head.slice(0, end))?.[1] ?? 0)
        statuses[status] = (statuses[status] ?? 0) + 1
        head = ''
        missing -= after.length
      }
      if (missing > 0) continue
      if (isOver()) socket.destroy()
      else {
        left--
        socket.write(nextRequest())
      }
    }
  })
  socket.on('error', error => {
    statuses[error.code] = (statuses[error.code] ?? 0) + 1
  })
  socket.on('close', () => {
    open--
    if (!isOver()) begin()
    else if (open === 0) finish()
  })
}

function isOver() {
  if (until !== undefined) return until.every(status => statuses[status] > 0)
  return left <= 0 || performance.now() >= endsAt
}

function finish() {
  process.send({ statuses, seconds })
  process.disconnect()
}

for (let count = 0; count < connections; count++) begin()
setTimeout(() => process.exit(1), (seconds + 30) * 1000).unref()
