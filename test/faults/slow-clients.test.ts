import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { inForm, isLong, quantile, report } from '../support/faults.ts'
import { fillDatabase } from '../support/fill-users.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { startProbe } from '../support/probe-latency.ts'
import { residentMb } from '../support/process-memory.ts'
import { spawnService } from '../support/spawn-service.ts'

/** Number of clients of each kind. */
const CLIENTS = inForm({ short: 10, long: 250 })

const DRIBBLE_MS = inForm({ short: 20, long: 1000 })

/** So long that an unread response does not fit into the buffers of the system. */
const USERS = 1000

const HEAD = 'HTTP/1.1\r\nHost: localhost\r\n'
const POST = `POST /users ${HEAD}Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n`

interface Hostile {
  /** Milliseconds until the service closed the connection. */
  readonly closedAfterMs: Promise<number>
  readonly received: () => string
}

/** The real service; in the short form one with shorter timeouts. */
async function openPatient(): Promise<{ url: string; port: number; pid?: number | undefined }> {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, USERS, 'x'.repeat(255))
  if (isLong) {
    const { url, port, process } = await spawnService({ cwd })
    return { url, port, pid: process.pid }
  }
  // Longer than an honest client has to wait on a busy machine.
  const timeouts = { headersMs: 3000, requestMs: 4000, takeMs: 3000, checkEveryMs: 50 }
  return openTestApp({ timeouts, env: { DATABASE_URL: join(cwd, 'data', 'users.db') } })
}

function connectAndSend(port: number, start: string, dribble: string): Hostile {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.on('data', data => {
    received += data
  })
  socket.on('error', () => {})
  socket.write(start)
  let sent = 0
  const dribbling = setInterval(() => socket.write(dribble.charAt(sent++) || 'x'), DRIBBLE_MS)
  return { closedAfterMs: untilClosed(socket, dribbling), received: () => received }
}

function silent(port: number): Hostile {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  return { closedAfterMs: untilClosed(socket), received: () => '' }
}

/** Requests long responses and reads nothing. A write that fails shows that the connection is closed. */
function unread(port: number): Hostile {
  const socket = connect(port, '127.0.0.1').pause()
  socket.on('error', () => {})
  socket.write(`GET /users?per_page=${USERS} ${HEAD}\r\n`.repeat(100))
  const asking = setInterval(() => socket.write('G'), DRIBBLE_MS)
  return { closedAfterMs: untilClosed(socket, asking), received: () => '' }
}

function untilClosed(socket: Socket, timer?: NodeJS.Timeout): Promise<number> {
  const startedAt = performance.now()
  onTestFinished(() => {
    socket.destroy()
  })
  return new Promise(resolve => {
    socket.once('close', () => {
      clearInterval(timer)
      resolve(performance.now() - startedAt)
    })
  })
}

function openDescriptors(pid: number | undefined): number {
  return pid === undefined ? 0 : readdirSync(`/proc/${pid}/fd`).length
}

test('clients that send slowly, send nothing or do not read are cut off, and others are served meanwhile', async () => {
  const { url, port, pid } = await openPatient()
  const before = { descriptors: openDescriptors(pid), mb: pid === undefined ? 0 : residentMb(pid) }
  const honest = startProbe(`${url}/users/1`)
  const of = (make: () => Hostile) => Array.from({ length: CLIENTS }, make)
  const kinds = {
    headers: of(() => connectAndSend(port, `GET /users ${HEAD}`, 'X-Header: '.repeat(100))),
    bodies: of(() => connectAndSend(port, POST, '{'.padEnd(5000))),
    silent: of(() => silent(port)),
    unread: of(() => unread(port)),
  }
  await sleep(DRIBBLE_MS)
  const during = { descriptors: openDescriptors(pid), mb: pid === undefined ? 0 : residentMb(pid) }

  const closed: Record<string, number> = {}
  for (const [kind, clients] of Object.entries(kinds)) {
    const times = await Promise.all(clients.map(({ closedAfterMs }) => closedAfterMs))
    closed[kind] = Math.round(quantile(times, 1))
  }
  for (const { received } of kinds.headers) expect(received()).toMatch(/^HTTP\/1.1 408 /)
  for (const { received } of kinds.bodies) expect(received()).toMatch(/^HTTP\/1.1 408 /)
  const honestly = await honest.stop()
  expect(Object.keys(honestly.statuses)).toEqual(['200'])
  await sleep(DRIBBLE_MS)
  const after = { descriptors: openDescriptors(pid), mb: pid === undefined ? 0 : residentMb(pid) }
  expect(after.descriptors - before.descriptors).toBeLessThan(5)
  report('slow clients', { slowestMs: closed, honest: honestly, before, during, after })
})

test('a client that reads slowly is not cut off', async () => {
  const { port } = await openPatient()
  const socket = connect(port, '127.0.0.1')
  const requests = 10
  socket.write(`GET /users?per_page=${USERS} ${HEAD}\r\n`.repeat(requests))
  socket.write(`GET /livez ${HEAD}Connection: close\r\n\r\n`)
  let text = ''
  socket.on('data', data => {
    text += data
    socket.pause()
    setTimeout(() => socket.resume(), 5)
  })
  await once(socket, 'close')
  expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(requests + 1)
})
