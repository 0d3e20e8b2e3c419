import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createRandom, inForm, report, SEED } from '../support/faults.ts'
import { createKeepAliveClient } from '../support/keep-alive-client.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { createUserModel } from './user-model.ts'
import { createDice, nextStep } from './user-steps.ts'

const STEPS = inForm({ short: 800, long: 130_000 })

/** Requests of other clients: enough to keep each process busy for some milliseconds per turn. */
const NEIGHBOURS = 12

test(`two processes on one database, among pipelining clients, answer ${STEPS} steps like a plain model`, async () => {
  const options = { cwd: temporaryFolder(), keepsLog: false }
  const services = [await spawnService(options), await spawnService(options)]
  const clients = services.flatMap(({ port }) => [0, 1].map(() => createKeepAliveClient(port)))
  const neighbours = services.flatMap(({ port }) =>
    Array.from({ length: NEIGHBOURS }, (_, serial) =>
      createPipeliningNeighbour(port, `/users/${1 + (serial % 2)}`),
    ),
  )
  onTestFinished(() => {
    for (const client of clients) client.close()
    for (const neighbour of neighbours) neighbour.destroy()
  })
  const dice = createDice(createRandom())
  const model = createUserModel()
  const statuses: Record<string, number> = {}
  for (let step = 0; step < STEPS; step++) {
    const { asked, check } = nextStep(dice, model)
    const client = dice.below(clients.length)
    const answer = await clients[client]?.ask(asked)
    const where = `step ${step} of seed ${SEED}, by client ${client}: ${JSON.stringify(asked)}`
    if (answer === undefined) throw new Error(`no answer: ${where}`)
    try {
      check(answer)
    } catch (cause) {
      throw new Error(`${where}\n${(cause as Error).message}`, { cause })
    }
    const kind = `${asked.method} ${answer.status}`
    statuses[kind] = (statuses[kind] ?? 0) + 1
  }
  const all = [
    'POST 200',
    'POST 201',
    'POST 422',
    'POST 410',
    'PUT 200',
    'PUT 412',
    'DELETE 204',
    'GET 304',
  ]
  expect(Object.keys(statuses)).toEqual(expect.arrayContaining(all))
  report('model of two processes', statuses)
})

const STATUS_LINE = 'HTTP/1.1 '

/** A client that always has three unanswered requests on one connection, whatever the responses are. */
function createPipeliningNeighbour(port: number, path: string): Socket {
  const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('error', () => {})
  let received = ''
  socket.on('data', chunk => {
    // Keeps what may be the beginning of a status line: responses are counted by their status lines.
    received = received.slice(1 - STATUS_LINE.length) + chunk.toString('latin1')
    const answers = received.split(STATUS_LINE).length - 1
    if (answers > 0) socket.write(request.repeat(answers))
  })
  socket.write(request.repeat(3))
  return socket
}
