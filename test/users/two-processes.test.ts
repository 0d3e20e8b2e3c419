import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createKeepAliveClient, type KeepAliveClient } from '../support/keep-alive-client.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { createPipeliningNeighbour } from '../support/pipelining-neighbour.ts'
import type { RawAnswer } from '../support/raw-http.ts'
import { spawnService } from '../support/spawn-service.ts'

const ROUNDS = 40

/** Enough to keep the event loop busy for some milliseconds per turn. */
const NEIGHBOURS = 30

/** A change of the password reads the user before it writes. */
const NO_PASSWORD = JSON.stringify({ user: { password: null } })

interface Clients {
  readonly here: KeepAliveClient
  /** The clients in turn that are, or may be, those of another process than `here`. */
  there(): KeepAliveClient
}

/** A client for each of two services on one file. Pipelining clients keep the second service busy. */
async function openTwoServices(): Promise<Clients> {
  const cwd = temporaryFolder()
  const options = { cwd, keepsLog: false }
  const services = [await spawnService(options), await spawnService(options)] as const
  const [here, there] = services.map(({ port }) => createKeepAliveClient(port))
  return connected([here, there] as KeepAliveClient[], services[1].port)
}

/** Clients of one service with several workers. Nobody knows which worker has which of them. */
async function openWorkers(): Promise<Clients> {
  const options = { cwd: temporaryFolder(), env: { WORKERS: '3' }, keepsLog: false }
  const { port } = await spawnService(options)
  return connected(
    Array.from({ length: 9 }, () => createKeepAliveClient(port)),
    port,
  )
}

function connected(clients: readonly KeepAliveClient[], busyPort: number): Clients {
  const neighbours = Array.from({ length: NEIGHBOURS }, () => createPipeliningNeighbour(busyPort))
  onTestFinished(() => {
    for (const client of [...clients, ...neighbours]) client.close()
  })
  const [here, ...others] = clients as [KeepAliveClient, ...KeepAliveClient[]]
  let turn = 0
  return { here, there: () => others[turn++ % others.length] as KeepAliveClient }
}

/** The number of responses by status, so that a failure shows how often it failed. */
function tally(answers: readonly (RawAnswer | undefined)[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const answer of answers) {
    const status = String(answer?.status)
    counts[status] = (counts[status] ?? 0) + 1
  }
  return counts
}

test.each([
  { what: 'two services', open: openTwoServices },
  { what: 'several workers', open: openWorkers },
])(
  'the next request to any of $what sees what another process acknowledged, also among pipelining clients',
  async ({ open }) => {
    const { here, there } = await open()
    const read = []
    const changed = []
    const repeated = []
    for (let round = 0; round < ROUNDS; round++) {
      const headers = { 'Idempotency-Key': `key-${round}` }
      const create = {
        method: 'POST',
        path: '/users',
        headers,
        body: JSON.stringify(newUserBody()),
      }
      const created = await here.ask(create)
      const path = created?.headers.location ?? ''
      read.push(await there().ask({ method: 'GET', path }))

      const body = JSON.stringify({ user: { name: `Changed ${round}` } })
      const renamed = await here.ask({ method: 'PUT', path, body })
      const ifMatch = { 'If-Match': renamed?.headers.etag ?? '' }
      changed.push(await there().ask({ method: 'PUT', path, headers: ifMatch, body: NO_PASSWORD }))

      const key = { 'Idempotency-Key': `other-${round}` }
      const other = { ...create, headers: key, body: JSON.stringify(newUserBody()) }
      await here.ask(other)
      repeated.push(await there().ask(other))
    }
    expect(tally(read)).toEqual({ 200: ROUNDS })
    expect(tally(changed)).toEqual({ 200: ROUNDS })
    expect(tally(repeated)).toEqual({ 201: ROUNDS })
  },
)
