import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { inForm } from '../../support/faults.ts'
import { ask } from '../../support/json-requests.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { spawnService } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'
import { serveClients } from './served-cluster.ts'

/** A primary that waits for its standby in each commit. */
async function createPair() {
  const primary = await createPostgresCluster()
  onTestFinished(primary.remove)
  return { primary, standby: await primary.createStandby() }
}

test.each(['kill', 'freeze'] as const)(
  'when the primary is lost by %s and its synchronous standby promoted, writes go there and no acknowledged one is lost',
  async lose => {
    for (let failover = 0; failover < inForm({ short: 1, long: 5 }); failover++) {
      const { primary, standby } = await createPair()
      const hosts = [primary, standby].map(({ port }) => `127.0.0.1:${port}`)
      const service = await serveClients(`postgres://postgres@${hosts}/postgres`)
      const { clients, statusOf, expectNothingLost } = service
      await primary[lose]()
      await until(async () => (await statusOf('/readyz')) === 503)
      // The standby answers reads.
      await until(async () => (await statusOf('/users?sort=name')) === 200)
      await standby.promote()
      await clients.untilEachHasWritten()
      expect(await statusOf('/readyz')).toBe(200)
      await expectNothingLost(`failover after ${lose}`)
      service.process.kill('SIGKILL')
      await primary.remove()
    }
  },
)

test('a write that no synchronous standby confirms gets 503 outcome_unknown, and is there once one does', async () => {
  const { primary, standby } = await createPair()
  const env = { DATABASE_URL: primary.url(), LOG_LEVEL: 'fatal' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const newUser = newUserBody()
  const create = () => ask(service, 'POST /users', newUser, { 'Idempotency-Key': 'once' })
  await standby.kill()
  expect(await create()).toMatchObject({ status: 503, body: { reason: 'outcome_unknown' } })
  expect((await ask(service, 'GET /users')).body).toEqual([])
  await standby.start()
  await until(async () => (await create()).status === 201)
  expect((await create()).headers.get('idempotency-replayed')).toBe('true')
  expect((await ask(service, 'GET /users')).body).toHaveLength(1)
})
