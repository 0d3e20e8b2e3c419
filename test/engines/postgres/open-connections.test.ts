import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import type { Share } from '../../../src/storage/postgres/postgres-connections.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import {
  connectTo,
  holdOpen,
  openStorage,
  untilWaiting,
} from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  locationOf,
  newPostgresDatabase,
  queryPostgres,
} from '../../support/postgres-databases.ts'
import { canStartClusters } from '../../support/programs.ts'
import { readProject } from '../../support/project.ts'
import { until } from '../../support/until.ts'

const UNAVAILABLE = { code: 'storage_unavailable' }

test('a process opens as many connections as docs/postgresql.md says, and no more', async () => {
  const [, most = ''] =
    /A process opens up to (\d+) connections/.exec(readProject('docs/postgresql.md')) ?? []
  const { http, databaseUrl } = await openTestApp({
    users: [{ user: { name: 'Ann', email: 'ann@example.com' } }],
  })
  const holder = await holdOpen(databaseUrl, 'UPDATE users SET name = name')
  const paths = ['/users/1', '/users?sort=name', '/users?page=2000', '/users?count=true&name=ann']
  const held = http.put('/users/1').send({ user: { name: 'Held' } })
  const answers = Array.from({ length: 80 }, (_, index) => http.get(paths[index % 4] ?? ''))
  await Promise.all([held.expect(503), ...answers.map(answer => answer.expect(200))])
  const { rows } = await holder.query<{ connections: number }>(
    `SELECT count(*) AS connections FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'user-records-service'`,
  )
  expect(rows[0]?.connections).toBeGreaterThan(3)
  expect(rows[0]?.connections).toBeLessThanOrEqual(Number(most))
})

test('settings of the URL that would break statements are replaced', async () => {
  const options = '-c array_nulls=off -c bytea_output=escape -c jit=on'
  const url = `${await newPostgresDatabase()}?options=${encodeURIComponent(options)}`
  const current = ['array_nulls', 'bytea_output', 'jit'].map(name => `current_setting('${name}')`)
  const rows = await connectTo(url).query(`SELECT ${current}`)
  expect(rows).toEqual([['on', 'hex', 'off']])
})

test.skipIf(!canStartClusters)(
  'long work on a frozen server ends with short work that gets no answer',
  async () => {
    const cluster = await createPostgresCluster()
    const connections = openConnections({ location: locationOf(cluster.url()) })
    // What waits for the server ends with it.
    onTestFinished(async () => {
      await Promise.all([cluster.remove(), connections.close()])
    })
    const read = (text: string, share: Share = 'short') => connections.query(text, [], share)
    await Promise.all([read('SELECT pg_sleep(0.5)'), read('SELECT pg_sleep(0.5)')])
    const ended = expect(read('SELECT pg_sleep(1000)', 'long')).rejects.toMatchObject(UNAVAILABLE)
    const running = `SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'`
    await until(async () => (await queryPostgres(cluster.url(), running)).length > 0)
    cluster.freeze()
    await expect(read('SELECT 1')).rejects.toMatchObject(UNAVAILABLE)
    // Less than a statement of long work may take.
    const longAfter = sleep(10_000, 'goes on', { ref: false })
    expect(await Promise.race([ended, longAfter])).not.toBe('goes on')
  },
)

test('long work goes on beside short work that got its connection too late for an answer', async () => {
  const url = await newPostgresDatabase()
  await queryPostgres(url, 'CREATE TABLE held ()')
  const connections = connectTo(url)
  const read = (text: string, share: Share = 'short') => connections.query(text, [], share)
  await holdOpen(url, 'LOCK TABLE held IN ACCESS EXCLUSIVE MODE')
  const slept = read('SELECT pg_sleep(2)', 'long')
  // More than there are connections: those that wait for one have little time left when they get it.
  const refused = Array.from({ length: 6 }, () =>
    expect(read('SELECT FROM held')).rejects.toMatchObject(UNAVAILABLE),
  )
  await Promise.all(refused)
  expect(await slept).toHaveLength(1)
})

test('a lock on the table of users holds up no poll of bans and API keys, however many reads wait for it', async () => {
  const url = await copyPostgresTemplate()
  const { users, bans, apiKeys } = await openStorage(url)
  const holder = await holdOpen(url, 'LOCK TABLE users IN ACCESS EXCLUSIVE MODE')
  // Again if the machine was too busy to see them wait, or to ask before they had ended.
  await until(async () => {
    let ended = 0
    const reads = [users.find(1), users.findByEmail('ann@example.com'), users.findDigests([1])]
    const held = reads.map(async read => {
      await expect(read).rejects.toMatchObject(UNAVAILABLE)
      ended++
    })
    await Promise.race([untilWaiting(url, 2), Promise.all(held)])
    await Promise.all([bans.recent(), apiKeys.revision(), apiKeys.list(), users.revision()])
    const areHeld = ended === 0
    await Promise.all(held)
    return areHeld
  })
  await holder.query('COMMIT')
})
