import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { serveClients } from './served-cluster.ts'

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
