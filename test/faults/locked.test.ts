import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { inForm, quantile, report } from '../support/faults.ts'
import { ask, timeUntil } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'

const ROUNDS = inForm({ short: 1, long: 10 })

const READS_AT_ONCE = 4

/** So that the reads measure the service and not how fast this process can ask. */
const READ_PAUSE_MS = 5

const WRITES: readonly (readonly [line: string, body?: unknown])[] = [
  ['POST /users', newUserBody({ email: 'refused@x.co' })],
  ['PUT /users/1', { user: { name: 'New' } }],
  ['DELETE /users/1'],
]

async function startWithLocker() {
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd })
  const locker = new Database(join(cwd, 'data', 'users.db'), { timeout: 5000 })
  onTestFinished(() => {
    locker.close()
  })
  return { service, locker }
}

/** Milliseconds of each read, one after another on a few connections, until `isOver`. */
async function readUntil(service: SpawnedService, isOver: () => boolean): Promise<number[]> {
  const times: number[] = []
  async function read(): Promise<void> {
    while (!isOver()) {
      const startedAt = performance.now()
      const { status, body } = await ask(service, 'GET /users/1')
      times.push(performance.now() - startedAt)
      await sleep(READ_PAUSE_MS)
      expect([status, body.name]).toEqual([200, 'Old'])
    }
  }
  await Promise.all(Array.from({ length: READS_AT_ONCE }, read))
  return times
}

async function refuseAll(service: SpawnedService): Promise<number[]> {
  return Promise.all(
    WRITES.map(async ([line, body]) => {
      const startedAt = performance.now()
      const answer = await ask(service, line, body)
      expect([line, answer.status, answer.headers.get('Retry-After')]).toEqual([line, 503, '1'])
      return performance.now() - startedAt
    }),
  )
}

test.each(inForm({ short: ['IMMEDIATE'], long: ['IMMEDIATE', 'EXCLUSIVE'] }))(
  'a database that another process locks (%s) serves reads, refuses writes, and takes them after that',
  async lock => {
    const { service, locker } = await startWithLocker()
    await ask(service, 'POST /users', newUserBody({ name: 'Old' }))
    const reads: number[] = []
    const refusals: number[] = []
    const recoveries: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      locker.exec(`BEGIN ${lock}`)
      let isOver = false
      const reading = readUntil(service, () => isOver)
      refusals.push(
        ...(await refuseAll(service).finally(() => {
          isOver = true
        })),
      )
      reads.push(...(await reading))
      locker.exec('COMMIT')
      const create = () => ask(service, 'POST /users', newUserBody())
      recoveries.push(await timeUntil(async () => (await create()).status === 201))
    }
    const { body } = await ask(service, 'GET /users?email=refused@x.co')
    expect(body).toEqual([])
    report(`a database that is locked (${lock})`, {
      reads: reads.length,
      readP50Ms: quantile(reads, 0.5),
      readP99Ms: quantile(reads, 0.99),
      slowestRefusalMs: Math.max(...refusals),
      slowestRecoveryMs: Math.max(...recoveries),
    })
  },
)

test('a write that waits for a lock goes through once it is gone', async () => {
  const { service, locker } = await startWithLocker()
  locker.exec('BEGIN IMMEDIATE')
  const created = ask(service, 'POST /users', newUserBody())
  // By then the write is tried: the service answers requests in the order in which they come.
  for (let asked = 0; asked < 5; asked++) await ask(service, 'GET /users')
  locker.exec('COMMIT')
  expect((await created).status).toBe(201)
})
