import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../../support/builders.ts'
import { isEngine } from '../../support/engine.ts'
import { fillWithUsers } from '../../support/fill-with-users.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { type RawExchange, sendRaw } from '../../support/raw-http.ts'
import { holdWrites } from '../../support/sql.ts'

/** More than may wait in all, if they were all read immediately. */
const MANY = 12_000

/** Clients that come after the flood. */
const OTHERS = 50

const HOUR_MS = 3_600_000

function request(method: string, path: string, body?: object): string {
  const json = body === undefined ? '' : JSON.stringify(body)
  const entity = body && `Content-Type: application/json\r\nContent-Length: ${json.length}\r\n`
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${entity ?? ''}\r\n${json}`
}

test('requests on one connection see what earlier ones did, and are answered in order', async () => {
  const { port } = await openTestApp()
  const { answers, socket } = sendRaw(
    port,
    [
      request('POST', '/users', newUserBody({ name: 'Ann' })),
      request('PUT', '/users/1', { user: { name: 'Bea' } }),
      request('GET', '/users/1'),
      request('DELETE', '/users/1'),
      request('GET', '/users/1'),
      request('GET', '/livez'),
    ].join(''),
  )
  const all = await answers(6)
  expect(all.map(({ status }) => status)).toEqual([201, 200, 200, 204, 404, 200])
  expect(JSON.parse(all[2]?.body ?? '')).toMatchObject({ name: 'Bea' })
  socket.destroy()
})

const isSqlite = isEngine(
  'sqlite',
  'a test that writes between two packets needs a database that answers at once',
)

test.runIf(isSqlite)(
  'a waiting request sees what was committed before it was sent, whichever request was served before',
  async () => {
    const { port, databaseUrl } = await openTestApp()
    await fillWithUsers(databaseUrl, 1000)
    const database = new Database(databaseUrl)
    const between = createServer(socket => {
      socket.on('data', () => database.exec('DELETE FROM users WHERE id = 1'))
    })
    onTestFinished(() => {
      between.close()
      database.close()
    })
    await once(between.listen(0), 'listening')
    const clients = [port, (between.address() as AddressInfo).port, port].map(to => sendRaw(to, ''))
    await Promise.all(clients.map(({ socket }) => once(socket, 'connect')))
    await sleep(50)
    const [before, deleting, after] = clients as [RawExchange, RawExchange, RawExchange]
    // The event loop reads all three in one turn. A long list is sent immediately, so that the next one follows in that turn.
    before.socket.write(request('GET', '/users/1'))
    deleting.socket.write('x')
    after.socket.write(request('GET', '/users?per_page=1000') + request('GET', '/users/1'))
    expect(await before.answers(1)).toMatchObject([{ status: 200 }])
    expect(await after.answers(2)).toMatchObject([{ status: 200 }, { status: 404 }])
    for (const { socket } of clients) socket.destroy()
  },
)

test('a flood of requests on one connection is answered completely, and others are served meanwhile', async () => {
  // On a busy machine the flood takes longer than the timeout of the headers.
  const timeouts = { headersMs: HOUR_MS, requestMs: HOUR_MS, takeMs: HOUR_MS, checkEveryMs: 1000 }
  const { port } = await openTestApp({ timeouts })
  const other = sendRaw(port, request('GET', '/users'))
  await other.answers(1)
  const flood = sendRaw(port, request('GET', '/livez').repeat(MANY))
  flood.socket.write(
    request('GET', '/no-such-path').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
  )
  await once(flood.socket, 'data')
  for (let count = 2; count <= 5; count++) {
    other.socket.write(request('GET', '/users'))
    await other.answers(count)
  }
  expect(flood.socket.destroyed).toBe(false)
  const answers = await flood.ended
  expect(answers.map(({ status }) => status)).toEqual([...Array(MANY).fill(200), 404])
  expect((await other.answers(5)).map(({ status }) => status)).toEqual(Array(5).fill(200))
  other.socket.destroy()
})

test('a body that arrives after a held connection is released is read', async () => {
  const { port } = await openTestApp()
  const [head = '', body = ''] = request('POST', '/users', newUserBody()).split('\r\n\r\n')
  const last = request('GET', '/users/1').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
  const exchange = sendRaw(port, `${request('GET', '/users').repeat(100)}${head}\r\n\r\n`)
  await exchange.answers(100)
  exchange.socket.write(body + last)
  const answers = await exchange.ended
  expect(answers.slice(100).map(({ status }) => status)).toEqual([201, 200])
})

test('a request that breaks off while it waits is refused, after earlier ones are answered', async () => {
  const { port, logLines } = await openTestApp()
  const broken =
    'POST /users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n' +
    'Transfer-Encoding: chunked\r\n\r\nnonsense\r\n'
  const slow = request('POST', '/users', newUserBody({ password: 'correct horse' }))
  const answers = await sendRaw(port, slow + request('GET', '/users/1') + broken).ended
  expect(answers.map(({ status }) => status)).toEqual([201, 200, 400])
  for (const { headers } of answers) expect(headers['x-request-id']).toMatch(/^[\w.-]{1,128}$/)
  expect(logLines.filter(({ level }) => level === 'error')).toEqual([])
})

test.each([
  ['its body', 'Transfer-Encoding: chunked\r\n\r\n', ['nonsense\r\n', 'more\r\n'], [201, 400]],
  ['its body, in three packets', 'Transfer-Encoding: chunked\r\n\r\n', ['x', 'y', 'z'], [201, 400]],
  ['its head', 'Nonsense\r\n', ['\r\n', 'more\r\n'], [201, 400]],
])(
  'a malformed request (%s) does not destroy the answer to an earlier one',
  async (_, rest, packets, statuses) => {
    const { port, logLines } = await openTestApp()
    const head = 'POST /users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    const slow = request('POST', '/users', newUserBody({ password: 'correct horse' }))
    const exchange = sendRaw(port, slow + head + rest)
    exchange.socket.setNoDelay()
    for (const packet of packets) {
      await sleep(3)
      exchange.socket.write(packet)
    }
    expect((await exchange.ended).map(({ status }) => status)).toEqual(statuses)
    expect(logLines.filter(({ msg }) => msg === 'request refused')).toHaveLength(1)
  },
)

test('requests that wait on a connection are dropped once its client is gone', async () => {
  const app = await openTestApp()
  // A request that waits for the database cannot be served before the client is gone.
  const held = await holdWrites(app.databaseUrl)
  const creates = Array.from({ length: 900 }, () => request('POST', '/users', newUserBody()))
  const { socket, answers } = sendRaw(app.port, request('GET', '/livez') + creates.join(''))
  await answers(1)
  socket.resetAndDestroy()
  await once(socket, 'close')
  await held.release()
  // Each of these takes longer than one of the dropped requests would.
  for (let count = 0; count < OTHERS; count++) {
    expect((await app.http.post('/users').send(newUserBody())).status).toBe(201)
  }
  const { headers } = await app.http.get('/users?count=true')
  expect(Number(headers['x-total-count'])).toBeLessThan(OTHERS + 10)
})

test('a hundred connections that flood at the same time are cut off, and no other', async () => {
  // This is not about how long the honest client waits.
  const { port, http } = await openTestApp({ env: { MAX_EVENT_LOOP_DELAY: '1 minute' } })
  const path = '/users?per_page=1000'
  await Promise.all(
    Array.from({ length: 100 }, () =>
      http.post('/users').send(newUserBody({ name: 'x'.repeat(255) })),
    ),
  )
  const honest = sendRaw(port, request('GET', '/livez'))
  await honest.answers(1)
  const floods = Array.from({ length: 100 }, () => {
    const exchange = sendRaw(port, request('GET', path).repeat(2000))
    exchange.socket.pause()
    return exchange
  })
  await Promise.race(floods.map(({ ended }) => ended))
  honest.socket.write(request('GET', '/users/1'))
  expect(await honest.answers(2)).toMatchObject([{ status: 200 }, { status: 200 }])
  for (const { socket } of floods) socket.destroy()
  honest.socket.destroy()
})
