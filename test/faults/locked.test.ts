import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { ask, expectUnavailable } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

async function startWithLocker() {
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd })
  const locker = new Database(join(cwd, 'data', 'users.db'), { timeout: 5000 })
  onTestFinished(() => {
    locker.close()
  })
  return { service, locker }
}

test.each(['IMMEDIATE', 'EXCLUSIVE'])(
  'while another process locks the database (%s), reads are served and writes get 503; afterwards writes succeed',
  async lock => {
    const { service, locker } = await startWithLocker()
    await ask(service, 'POST /users', newUserBody({ name: 'Old' }))
    locker.exec(`BEGIN ${lock}`)
    const refused = newUserBody({ email: 'refused@x.co' })
    let isOver = false
    const writes = Promise.all([
      ask(service, 'POST /users', refused),
      ask(service, 'PUT /users/1', { user: { name: 'New' } }),
      ask(service, 'DELETE /users/1'),
    ]).finally(() => {
      isOver = true
    })
    let reads = 0
    for (; !isOver; reads++) {
      const { status, body } = await ask(service, 'GET /users/1')
      expect([status, body.name]).toEqual([200, 'Old'])
    }
    expect(reads).toBeGreaterThan(1)
    for (const answer of await writes) expectUnavailable(answer)
    locker.exec('COMMIT')
    expect((await ask(service, 'GET /users?email=refused@x.co')).body).toEqual([])
    await until(async () => (await ask(service, 'POST /users', refused)).status === 201)
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
  // On a busy machine a write may wait too long and get 503. One that never waits would get it every time.
  const status = await until(async () => [await createUnderLock()].find(status => status !== 503))
  expect(status).toBe(201)
})
