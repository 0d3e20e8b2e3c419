import { expect, onTestFinished, test } from 'vitest'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import { queryPostgres, withPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { canStartClusters } from '../../support/postgres-settings.ts'
import { until } from '../../support/until.ts'

const unavailable = { code: 'storage_unavailable' }

const RUNNING = `SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'`

test.skipIf(!canStartClusters)(
  'long work on a frozen server ends with short work that gets no answer',
  async () => {
    const cluster = await createPostgresCluster()
    const connections = openConnections({ location: locationOf(cluster.url()) })
    // What waits for the server ends with it.
    onTestFinished(async () => {
      await Promise.all([cluster.remove(), connections.close()])
    })
    const read = (text: string, isLong = false) =>
      connections.read(session => session.query({ text }), { isLong })
    await read('SELECT 1')
    const ended = expect(read('SELECT pg_sleep(1000)', true)).rejects.toMatchObject(unavailable)
    await until(async () => (await queryPostgres(cluster.url(), RUNNING)).length > 0)
    cluster.freeze()
    await expect(read('SELECT 1')).rejects.toMatchObject(unavailable)
    await ended
  },
)

test('long work goes on beside short work that got its connection too late for an answer', async () => {
  const url = await newPostgresDatabase()
  await queryPostgres(url, 'CREATE TABLE held ()')
  const connections = openConnections({ location: locationOf(url) })
  onTestFinished(connections.close)
  const read = (text: string, isLong = false) =>
    connections.read(session => session.query({ text }), { isLong })
  await withPostgres(url, async holder => {
    await holder.query('BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE')
    const slept = read('SELECT pg_sleep(4)', true)
    // More than there are connections: those that wait for one have little time left when they get it.
    const refused = Array.from({ length: 6 }, () => read('SELECT FROM held'))
    for (const one of refused) await expect(one).rejects.toMatchObject(unavailable)
    expect(await slept).toHaveLength(1)
  })
})
