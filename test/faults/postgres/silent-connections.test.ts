import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openTestApp } from '../../support/open-test-app.ts'
import { insertUser } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { startSilencingProxy } from '../../support/silencing-proxy.ts'
import { until } from '../../support/until.ts'
import { serveClients } from './served-cluster.ts'

test('the index of words is completed after its connection went silent', async () => {
  const databaseUrl = await copyPostgresTemplate()
  const proxy = await startSilencingProxy(databaseUrl)
  const { http } = await openTestApp({ env: { DATABASE_URL: proxy.url } })
  proxy.silence('silence')
  await queryPostgres(databaseUrl, insertUser('silence@example.com'))
  await until(() => proxy.silenced() === 1)
  await http.get('/users?q=ann').expect(503)
  await until(async () => (await http.get('/users?q=ann')).status === 200, 200)
})

test('a service that is stopped for a while leaves no write that was done unknown', async () => {
  const { process, clients, expectNothingLost } = await serveClients(await copyPostgresTemplate())
  for (let round = 0; round < 3; round++) {
    await clients.untilEachHasWritten()
    process.kill('SIGSTOP')
    await sleep(2500)
    process.kill('SIGCONT')
  }
  await expectNothingLost('the service stopped')
  expect(Object.keys(clients.answers).filter(answer => answer.includes('503'))).toEqual([])
})
