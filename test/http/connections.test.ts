import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { type RawExchange, sendRaw } from '../support/raw-http.ts'

const MAX_CONNECTIONS = 5

const GET = 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'

function openFull() {
  return openTestApp({ env: { MAX_CONNECTIONS: String(MAX_CONNECTIONS) } })
}

/** Connections, made one after another, that were answered and are kept. */
async function idleConnections(port: number, count: number): Promise<RawExchange[]> {
  const exchanges: RawExchange[] = []
  for (let made = 0; made < count; made++) {
    const exchange = sendRaw(port, GET)
    await exchange.answers(1)
    exchanges.push(exchange)
  }
  return exchanges
}

/** A create whose body is still to come; resolves once the service has its head. */
async function beginPost(port: number) {
  const body = JSON.stringify(newUserBody())
  const exchange = sendRaw(
    port,
    `POST /users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  await exchange.answers(1)
  return { ...exchange, finish: () => exchange.socket.write(body) }
}

test('a connection over MAX_CONNECTIONS takes the place of the oldest that is idle', async () => {
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

test('a connection over MAX_CONNECTIONS is closed where none is idle, and those there are served', async () => {
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
