import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { countUsers } from '../support/many-users.ts'
import { openTestApp } from '../support/open-test-app.ts'
import {
  AS_JSON,
  CHUNKED,
  CLOSING,
  type RawExchange,
  requestBytes,
  sendRaw,
} from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { holdWrites } from '../support/sql.ts'

/** More than may wait in all, if they were all read immediately. */
const MANY = 12_000

/** Clients that come after the flood. */
const OTHERS = 50

const HOUR_MS = 3_600_000

const GET_ONE = requestBytes('GET /users/1')

const app = shareTestApp({ users: [newUserBody()] })

function post(fields: Record<string, unknown> = {}): Buffer {
  return requestBytes('POST /users', AS_JSON, JSON.stringify(newUserBody(fields)))
}

/** A create that takes longer than other requests. */
const slowPost = () => post({ password: 'correct horse' })

function repeat(bytes: Buffer, count: number): Buffer {
  return Buffer.concat(Array(count).fill(bytes))
}

/** All answers to a client that ends its side of the connection after its requests. */
async function answersAtEnd(port: number, ...requests: readonly Buffer[]) {
  const exchange = sendRaw(port, Buffer.concat(requests))
  exchange.socket.end()
  return exchange.ended
}

/** Lets what was sent arrive. */
async function passTurns(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await nextTurn()
}

test('requests on one connection see what earlier ones did, and are answered in order', async () => {
  const own = await openTestApp()
  const { answers, socket } = sendRaw(
    own.port,
    Buffer.concat([
      slowPost(),
      requestBytes('PUT /users/1', AS_JSON, '{"user":{"name":"Bea"}}'),
      GET_ONE,
      requestBytes('DELETE /users/1'),
      GET_ONE,
      requestBytes('GET /livez'),
    ]),
  )
  const all = await answers(6)
  expect(all.map(({ status }) => status)).toEqual([201, 200, 200, 204, 404, 200])
  expect(JSON.parse(all[2]?.body ?? '')).toMatchObject({ name: 'Bea' })
  socket.destroy()
})

test('a flood of requests on one connection is answered completely, and others are served meanwhile', async () => {
  // On a busy machine the flood takes longer than the timeout of the headers.
  const timeouts = { headersMs: HOUR_MS, requestMs: HOUR_MS, takeMs: HOUR_MS, checkEveryMs: 1000 }
  const { port } = await openTestApp({ timeouts })
  const other = sendRaw(port, requestBytes('GET /users'))
  await other.answers(1)
  const flood = sendRaw(port, repeat(requestBytes('GET /livez'), MANY))
  flood.socket.write(requestBytes('GET /no-such-path', CLOSING))
  await once(flood.socket, 'data')
  for (let count = 2; count <= 5; count++) {
    other.socket.write(requestBytes('GET /users'))
    await other.answers(count)
  }
  expect(flood.socket.destroyed).toBe(false)
  const answers = await flood.ended
  expect(answers.map(({ status }) => status)).toEqual([...Array(MANY).fill(200), 404])
  expect((await other.answers(5)).map(({ status }) => status)).toEqual(Array(5).fill(200))
  other.socket.destroy()
})

test('a body that arrives after a held connection is released is read', async () => {
  const [head = '', body = ''] = String(post()).split('\r\n\r\n')
  const exchange = sendRaw(
    app.port,
    Buffer.concat([repeat(requestBytes('GET /users'), 100), Buffer.from(`${head}\r\n\r\n`)]),
  )
  await exchange.answers(100)
  exchange.socket.write(Buffer.concat([Buffer.from(body), requestBytes('GET /users/1', CLOSING)]))
  const answers = await exchange.ended
  expect(answers.slice(100).map(({ status }) => status)).toEqual([201, 200])
})

test.each([
  ['a broken body', requestBytes('POST /users', CHUNKED, 'nonsense\r\n'), 400],
  ['garbage', Buffer.from('garbage\r\n\r\n'), 400],
  ['a header over 16 KB', requestBytes('GET /', { Name: 'a'.repeat(17_000) }), 431],
  ['CONNECT', Buffer.from('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'), 400],
])('%s after a slow POST is refused only after its 201', async (_, broken, status) => {
  const bytes = Buffer.concat([slowPost(), GET_ONE, broken])
  const answers = await sendRaw(app.port, bytes).ended
  expect(answers.map(answer => answer.status)).toEqual([201, 200, status])
  for (const { headers } of answers) expect(headers['x-request-id']).toMatch(/^[\w.-]{1,128}$/)
})

test.each([
  ['its body', requestBytes('POST /users', CHUNKED), ['nonsense\r\n', 'more\r\n']],
  ['its head', Buffer.from('GET / HTTP/1.1\r\nNonsense\r\n'), ['\r\n', 'more\r\n']],
])(
  'a request that is malformed later (%s) does not destroy the answer to an earlier one',
  async (_, begun, packets) => {
    const exchange = sendRaw(app.port, Buffer.concat([slowPost(), begun]))
    exchange.socket.setNoDelay()
    for (const packet of packets) {
      await passTurns()
      exchange.socket.write(packet)
    }
    expect((await exchange.ended).map(({ status }) => status)).toEqual([201, 400])
  },
)

test('a request that turns out malformed before its turn has the id that its client gave it', async () => {
  const broken = requestBytes('POST /users', { ...CHUNKED, 'X-Request-Id': 'mine' }, 'nonsense\r\n')
  const answers = await sendRaw(app.port, Buffer.concat([slowPost(), broken])).ended
  expect(answers.map(({ status }) => status)).toEqual([201, 400])
  expect(answers[1]?.headers['x-request-id']).toBe('mine')
  const lines = app.logLines.filter(({ requestId }) => requestId === 'mine')
  expect(lines).toMatchObject([{ status: 400, reason: 'request_malformed' }])
})

const LONG = `30d40\r\n${'a'.repeat(200_000)}\r\n0\r\n\r\n`

// A proxy in front may have seen the bytes after HTTP/1.0 with chunks as a part of its body.
test.each([
  ['asks to close it', requestBytes('PUT /users/1', { ...AS_JSON, ...CLOSING }, '{}'), 422],
  ['has a body that is too long', requestBytes('POST /users', CHUNKED, LONG), 413],
  [
    'is HTTP/1.0 with chunks',
    Buffer.from(
      'POST /no HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ),
    404,
  ],
])(
  'what follows a request that closes its connection changes nothing: one that %s',
  async (_, last, status) => {
    const own = await openTestApp()
    const answers = await sendRaw(own.port, Buffer.concat([last, post(), post()])).ended
    expect(answers.map(answer => answer.status)).toEqual([status])
    // Writes are in the order of their requests.
    await own.http.post('/users').send(newUserBody()).expect(201)
    expect(await countUsers(own)).toBe(1)
  },
)

test('requests that wait on a connection are dropped once its client is gone', async () => {
  const own = await openTestApp()
  // A request that waits for the database cannot be served before the client is gone.
  const held = await holdWrites(own.databaseUrl)
  const creates = Array.from({ length: 900 }, () => post())
  const bytes = Buffer.concat([requestBytes('GET /livez'), ...creates])
  const { socket, answers } = sendRaw(own.port, bytes)
  await answers(1)
  socket.resetAndDestroy()
  await once(socket, 'close')
  await held.release()
  // Each of these takes longer than one of the dropped requests would.
  for (let count = 0; count < OTHERS; count++) {
    expect((await own.http.post('/users').send(newUserBody())).status).toBe(201)
  }
  expect(await countUsers(own)).toBeLessThan(OTHERS + 10)
})

test('a hundred connections that flood at the same time are cut off, and no other', async () => {
  // This is not about how long the honest client waits.
  const { port, http } = await openTestApp({ env: { MAX_EVENT_LOOP_DELAY: '1 minute' } })
  const body = () => newUserBody({ name: 'x'.repeat(255) })
  await Promise.all(Array.from({ length: 100 }, () => http.post('/users').send(body())))
  const honest = sendRaw(port, requestBytes('GET /livez'))
  await honest.answers(1)
  const flood = repeat(requestBytes('GET /users?per_page=1000'), 2000)
  const floods = Array.from({ length: 100 }, (): RawExchange => {
    const exchange = sendRaw(port, flood)
    exchange.socket.pause()
    return exchange
  })
  await Promise.race(floods.map(({ ended }) => ended))
  honest.socket.write(GET_ONE)
  expect(await honest.answers(2)).toMatchObject([{ status: 200 }, { status: 200 }])
  for (const { socket } of [honest, ...floods]) socket.destroy()
})

test('all requests of a client that ends its side are answered in order, even more than fit into one read', async () => {
  const last = requestBytes('PATCH /users/1', AS_JSON, '{}')
  const many = repeat(requestBytes('GET /livez'), 3000)
  const answers = await answersAtEnd(app.port, slowPost(), many, last)
  expect(answers.map(({ status }) => status)).toEqual([201, ...Array(3000).fill(200), 422])
})

test('a request that is cut off by the end is refused, after earlier ones are answered', async () => {
  const own = await openTestApp()
  const answers = await answersAtEnd(own.port, slowPost(), slowPost().subarray(0, -5))
  expect(answers.map(({ status }) => status)).toEqual([201, 400])
  expect((await own.http.get('/users')).body).toHaveLength(1)
})

test('a stop waits for the answer to a client that has ended its side', async () => {
  const { port, databaseUrl, stop } = await openTestApp()
  const held = await holdWrites(databaseUrl)
  const exchange = sendRaw(port, requestBytes('GET /livez'))
  // The stop does not know a connection that the service has not accepted yet.
  await exchange.answers(1)
  exchange.socket.end(post())
  await once(exchange.socket, 'finish')
  await passTurns()
  const stopped = stop()
  await passTurns()
  await held.release()
  expect((await exchange.ended).map(({ status }) => status)).toEqual([200, 201])
  expect(await stopped).toBe(true)
})
