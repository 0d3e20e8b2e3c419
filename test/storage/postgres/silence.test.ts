import { expect, onTestFinished, test } from 'vitest'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { canStartClusters } from '../../support/postgres-settings.ts'
import { until } from '../../support/until.ts'

const RUNNING = `SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'`

async function openLong() {
  const cluster = await createPostgresCluster()
  const connections = openConnections({ location: locationOf(cluster.url()) })
  // What waits for the server ends with it.
  onTestFinished(async () => {
    await Promise.all([cluster.remove(), connections.close()])
  })
  const sleep = (seconds: number) =>
    connections.read(session => session.query({ text: `SELECT pg_sleep(${seconds}), 'done'` }), {
      isLong: true,
    })
  return { cluster, sleep }
}

test.skipIf(!canStartClusters)(
  'a long statement ends when its server is frozen, without waiting for its own time limit',
  async () => {
    const { cluster, sleep } = await openLong()
    const ended = expect(sleep(1000)).rejects.toMatchObject({ code: 'storage_unavailable' })
    await until(async () => (await queryPostgres(cluster.url(), RUNNING)).length > 0)
    cluster.freeze()
    await ended
  },
)

test.skipIf(!canStartClusters)(
  'a long statement that is silent for a while goes on, because its server answers others',
  async () => {
    const { sleep } = await openLong()
    expect(await sleep(2)).toEqual([[expect.anything(), 'done']])
  },
)
