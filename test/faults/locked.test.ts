import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { inForm, quantile, report } from '../support/faults.ts'
import { ask, timeUntil } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const ROUNDS = inForm({ short: 1, long: 10 })

const READS_AT_ONCE = 4

/** A pause between reads, so that they measure the service and not the speed of this process. */
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

/** Milliseconds of each read. A few connections read one after another until `isOver`. */
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

const LOCKS = inForm({ short: ['IMMEDIATE'], long: ['IMMEDIATE', 'EXCLUSIVE'] })

test.each(LOCKS)(
  'while another process locks the database (%s), reads are served and writes get 503; afterwards writes succeed',
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

test('a write that waits for a lock succeeds once the lock is gone', async () => {
  const { service, locker } = await startWithLocker()
  const createUnderLock = async () => {
    locker.exec('BEGIN IMMEDIATE')
    const created = ask(service, 'POST /users', newUserBody())
    // The service has then tried the write, because it handles requests in the order of their arrival.
    for (let asked = 0; asked < 5; asked++) await ask(service, 'GET /users')
    locker.exec('COMMIT')
    return (await created).status
  }
  // A write may wait too long on a busy machine and get 503. A write that never waits would get 503 every time.
  expect(await until(async () => [await createUnderLock()].find(status => status !== 503))).toBe(
    201,
  )
})
