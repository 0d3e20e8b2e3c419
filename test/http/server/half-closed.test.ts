import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { holdWrites } from '../../support/sql.ts'

function request(method: string, path: string, body?: object): string {
  const json = body === undefined ? '' : JSON.stringify(body)
  const entity = body && `Content-Type: application/json\r\nContent-Length: ${json.length}\r\n`
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${entity ?? ''}\r\n${json}`
}

const SLOW_CREATE = request('POST', '/users', newUserBody({ password: 'correct horse' }))

/** Sends, ends this side, and resolves to all answers until the server closes the connection. */
async function askAndEnd(port: number, bytes: string) {
  const exchange = sendRaw(port, bytes)
  exchange.socket.end()
  return exchange.ended
}

test.each([
  ['POST', SLOW_CREATE, 201],
  ['PUT', request('PUT', '/users/1', newUserBody({ password: 'battery staple' })), 200],
  ['DELETE', request('DELETE', '/users/1'), 204],
  ['GET', request('GET', '/users/1'), 200],
  ['a POST that is refused', request('POST', '/users', {}), 422],
])(
  '%s of a client that ends its side is answered, and its connection closed',
  async (_, bytes, status) => {
    const { port, http } = await openTestApp()
    await http.post('/users').send(newUserBody()).expect(201)
    const answers = await askAndEnd(port, bytes)
    expect(answers.map(answer => answer.status)).toEqual([status])
  },
)

test('all requests of a client that ends its side are answered in order, even more than fit into one read', async () => {
  const { port, http } = await openTestApp()
  const reads = request('GET', '/users/1').repeat(3000)
  const answers = await askAndEnd(port, SLOW_CREATE + reads + request('DELETE', '/users/1'))
  expect(answers.map(({ status }) => status)).toEqual([201, ...Array(3000).fill(200), 204])
  await http.get('/users/1').expect(404)
})

test('a request that is cut off by the end is refused, after earlier ones are answered', async () => {
  const { port, http } = await openTestApp()
  const answers = await askAndEnd(port, SLOW_CREATE + SLOW_CREATE.slice(0, -5))
  expect(answers.map(({ status }) => status)).toEqual([201, 400])
  expect((await http.get('/users')).body).toHaveLength(1)
})

test('a malformed request to upgrade is refused when the client ends its side', async () => {
  const { port } = await openTestApp()
  const head = 'POST /users HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
  const upgrade = 'Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n'
  const answers = await askAndEnd(port, `${head}${upgrade}nonsense\r\n`)
  expect(answers.map(({ status }) => status)).toEqual([400])
})

test('a stop waits for the answer to a client that has ended its side', async () => {
  const { port, databaseUrl, stop } = await openTestApp()
  const held = await holdWrites(databaseUrl)
  const answered = askAndEnd(port, request('POST', '/users', newUserBody()))
  // The stop does not know a connection that the service has not accepted yet.
  await sleep(100)
  const stopped = stop()
  await sleep(100)
  await held.release()
  expect(await answered).toHaveLength(1)
  expect(await stopped).toBe(true)
})
