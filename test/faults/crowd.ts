import { connect, type Socket } from 'node:net'

type Statuses = Readonly<Record<string, number>>

let serial = 0

const REQUESTS = {
  read: () => request(`GET /users/${anyId()}`),
  list: () => request('GET /users?per_page=1000'),
  create: (more = {}) =>
    request('POST /users', { user: { name: 'Ann', email: `crowd${serial}@example.com`, ...more } }),
  password: () => REQUESTS.create({ password: 'correct horse' }),
  mixed: () => {
    const kind = serial % 10
    if (kind === 0) return REQUESTS.create()
    if (kind === 1) return request(`PUT /users/${anyId()}`, { user: { name: `Name ${serial}` } })
    if (kind === 2) return request(`GET /users?per_page=20&page=${1 + (serial % 50)}`)
    return kind === 3 ? request('GET /users/0') : REQUESTS.read()
  },
}

export interface CrowdOptions {
  readonly port: number
  readonly clients: number
  readonly workload: keyof typeof REQUESTS
  /** Whether it has had enough, by the numbers of responses by status. */
  readonly isOver: (statuses: Statuses) => boolean
}

/** Clients that send their next request at once when they have a response, and come back if they are cut off. */
export function crowd({ port, clients, workload, isOver }: CrowdOptions): Promise<Statuses> {
  const statuses: Record<string, number> = {}
  const note = (status: string) => {
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  return new Promise(resolve => {
    let open = 0
    function begin(): void {
      open++
      const socket = connect(port, '127.0.0.1')
      socket.write(REQUESTS[workload]())
      onEachStatus(socket, status => {
        note(status)
        if (isOver(statuses)) socket.destroy()
        else socket.write(REQUESTS[workload]())
      })
      socket.on('error', error => note((error as NodeJS.ErrnoException).code ?? ''))
      socket.on('close', () => {
        open--
        if (!isOver(statuses)) begin()
        else if (open === 0) resolve(statuses)
      })
    }
    for (let client = 0; client < clients; client++) begin()
  })
}

/** Calls back for each response that begins, by its status. */
function onEachStatus(socket: Socket, take: (status: string) => void): void {
  let received = ''
  socket.on('data', chunk => {
    // Keeps what may be the beginning of a status line. No body of the service contains one.
    received = received.slice(-11) + chunk.toString('latin1')
    for (const [, status = ''] of received.matchAll(/HTTP\/1\.1 (\d{3})/g)) take(status)
  })
}

/** A client that always has three unanswered requests for a path on one connection, whatever the responses are. */
export function openPipelining(port: number, path: string): Socket {
  const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  onEachStatus(
    socket.on('error', () => {}),
    () => socket.write(request),
  )
  socket.write(request.repeat(3))
  return socket
}

/** A client that asks for a path on new connections, again and again. Call the result for all statuses that it got. */
export function keepAsking(url: string): () => Promise<number[]> {
  const statuses = new Set<number>()
  let isStopping = false
  const asking = (async () => {
    do {
      const response = await fetch(url, { headers: { Connection: 'close' } })
      await response.arrayBuffer()
      statuses.add(response.status)
    } while (!isStopping)
  })()
  return async () => {
    isStopping = true
    await asking
    return [...statuses]
  }
}

function anyId(): number {
  return 1 + Math.floor(Math.random() * 1000)
}

/** Each by another client, for a service that trusts its proxy. */
function request(line: string, json?: object): string {
  serial++
  const number = Math.floor(Math.random() * 2 ** 20)
  const client = `X-Forwarded-For: 10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`
  const body = json === undefined ? '' : JSON.stringify(json)
  const type = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  return `${line} HTTP/1.1\r\nHost: x\r\n${client}\r\n${json === undefined ? '' : type}\r\n${body}`
}
