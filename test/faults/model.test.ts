import { onTestFinished, test } from 'vitest'
import { createRandom, inForm, report, SEED } from '../support/faults.ts'
import { createKeepAliveClient } from '../support/keep-alive-client.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { createPipeliningNeighbour } from '../support/pipelining-neighbour.ts'
import { spawnService } from '../support/spawn-service.ts'
import { createDice } from './step.ts'
import { createUserModel } from './user-model.ts'
import { nextStep } from './user-steps.ts'

const STEPS = inForm({ short: 500, long: Number.POSITIVE_INFINITY })

const DURATION_MS = inForm({ short: Number.POSITIVE_INFINITY, long: 20 * 60_000 })

const CLIENTS = 2

/** Requests of other clients: enough to keep each process busy for some milliseconds per turn. */
const NEIGHBOUR_PATHS = ['/users/1', '/users/2']

const NEIGHBOURS = 12

/** Two processes on one file, each with test clients and with clients that pipeline. */
async function openProcesses() {
  const options = { cwd: temporaryFolder(), keepsLog: false }
  const services = [await spawnService(options), await spawnService(options)]
  const ports = services.map(({ port }) => port)
  const clients = ports.flatMap(port =>
    Array.from({ length: CLIENTS }, () => createKeepAliveClient(port)),
  )
  const neighbours = ports.flatMap(port =>
    Array.from({ length: NEIGHBOURS }, (_, serial) => {
      const path = NEIGHBOUR_PATHS[serial % NEIGHBOUR_PATHS.length] as string
      return createPipeliningNeighbour(port, { path })
    }),
  )
  onTestFinished(() => {
    for (const client of [...clients, ...neighbours]) client.close()
  })
  return clients
}

test(
  'two processes on one file, among pipelining clients, answer every step like a plain model',
  async () => {
    const clients = await openProcesses()
    const dice = createDice(createRandom())
    const model = createUserModel()
    const statuses: Record<string, number> = {}
    const endsAt = performance.now() + DURATION_MS
    let steps = 0
    for (; steps < STEPS && performance.now() < endsAt; steps++) {
      const { asked, check } = nextStep(dice, model)
      const client = dice.below(clients.length)
      const answer = await clients[client]?.ask(asked)
      const where = `step ${steps} of seed ${SEED}, by client ${client}: ${JSON.stringify(asked)}`
      if (answer === undefined) throw new Error(`no answer: ${where}`)
      try {
        check(answer)
      } catch (cause) {
        throw new Error(`${where}\n${(cause as Error).message}`, { cause })
      }
      const kind = `${asked.method} ${answer.status}`
      statuses[kind] = (statuses[kind] ?? 0) + 1
    }
    report('model of two processes', { steps, statuses })
  },
  inForm({ short: 180_000, long: 1_800_000 }),
)
