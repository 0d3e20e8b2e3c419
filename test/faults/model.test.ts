import { expect, onTestFinished, test } from 'vitest'
import { createRandom, inForm, report, SEED } from '../support/faults.ts'
import { createKeepAliveClient } from '../support/keep-alive-client.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { openPipelining } from './crowd.ts'
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
      openPipelining(port, `/users/${1 + (serial % 2)}`),
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
