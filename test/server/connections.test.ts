import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { addConnection, type Connections, closeStalled } from '../../src/server/connections.ts'
import { listen } from '../support/listen.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { beginPost, type RawExchange, requestBytes, sendRaw } from '../support/raw-http.ts'

const MAX_CONNECTIONS = 5

const GET = requestBytes('GET /livez')

function openFull() {
  return openTestApp({ env: { MAX_CONNECTIONS: String(MAX_CONNECTIONS) } })
}

/** Keep-alive connections, made one after another, whose requests were answered. */
async function idleConnections(port: number, count: number): Promise<RawExchange[]> {
  const exchanges: RawExchange[] = []
  for (let made = 0; made < count; made++) {
    const exchange = sendRaw(port, GET)
    await exchange.answers(1)
    exchanges.push(exchange)
  }
  return exchanges
}

test('a connection over MAX_CONNECTIONS replaces the oldest idle one', async () => {
  const { port } = await openFull()
  const busy = await beginPost(port)
  const [oldest, ...others] = await idleConnections(port, MAX_CONNECTIONS - 1)
  const newcomer = sendRaw(port, GET)
  expect(await newcomer.answers(1)).toMatchObject([{ status: 200 }])
  expect(await oldest?.ended).toHaveLength(1)
  for (const { socket, answers } of others) {
    socket.write(GET)
    expect(await answers(2)).toMatchObject([{ status: 200 }, { status: 200 }])
    socket.destroy()
  }
  busy.finish()
  expect(await busy.answers(2)).toMatchObject([{ status: 100 }, { status: 201 }])
  busy.socket.destroy()
  newcomer.socket.destroy()
})

test('a connection over MAX_CONNECTIONS is closed if none is idle, and the others are served', async () => {
  const { port } = await openFull()
  const posts = []
  for (let count = 0; count < MAX_CONNECTIONS; count++) posts.push(await beginPost(port))
  expect(await sendRaw(port, GET).ended).toEqual([])
  for (const { finish, answers, socket } of posts) {
    finish()
    expect(await answers(2)).toMatchObject([{ status: 100 }, { status: 201 }])
    socket.destroy()
  }
})

test('an idle connection is closed after KEEP_ALIVE_TIMEOUT, and 65 seconds without it', async () => {
  const short = await openTestApp({ env: { KEEP_ALIVE_TIMEOUT: '1s' } })
  const askedAt = performance.now()
  const [exchange] = await idleConnections(short.port, 1)
  const [answer] = await (exchange as RawExchange).answers(1)
  expect(answer?.headers['keep-alive']).toBe('timeout=1')
  await exchange?.ended
  expect(performance.now() - askedAt).toBeGreaterThan(900)
  const { headers } = await (await openFull()).http.get('/livez').set('Connection', 'keep-alive')
  expect(headers['keep-alive']).toBe('timeout=65')
})

/** More than the system buffers for a client that reads nothing, and too little to shorten the time of all clients. */
const ANSWER_BYTES = 30 * 1024 * 1024

/** Both ends of one TCP connection. */
async function openPair(): Promise<{ client: Socket; server: Socket }> {
  const listener = createServer()
  const client = connect(await listen(listener), '127.0.0.1')
  const [server] = (await once(listener, 'connection')) as [Socket]
  for (const socket of [client, server]) socket.on('error', () => {})
  onTestFinished(() => {
    for (const socket of [client, server]) socket.destroy()
  })
  client.pause()
  return { client, server }
}

/** A watched connection with an unread answer, and a clock that the test advances. */
async function openWatchedPair() {
  const { client, server } = await openPair()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const connections: Connections = new Map()
  addConnection(connections, server, 1)
  setInterval(() => closeStalled(connections, 30_000), 1000)
  server.write(Buffer.alloc(ANSWER_BYTES))
  return { client, server }
}

async function readSome(client: Socket, enough: number): Promise<void> {
  for (let bytes = 0; bytes < enough; await nextTurn()) {
    bytes += (client.read() as Buffer | null)?.length ?? 0
  }
}

test('a client is closed that reads nothing for takeMs, and not while the system accepts parts of its answer', async () => {
  const { client, server } = await openWatchedPair()
  for (let round = 1; round <= 4; round++) {
    vi.advanceTimersByTime(25_000)
    expect(server.destroyed).toBe(false)
    await readSome(client, ANSWER_BYTES / 8)
  }
  expect(server.writableLength).toBe(ANSWER_BYTES)
  vi.advanceTimersByTime(32_000)
  expect(server.destroyed).toBe(true)
})
