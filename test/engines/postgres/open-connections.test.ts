import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import type { Connections, Share } from '../../../src/storage/postgres/postgres-connections.ts'
import { createUser } from '../../support/create-user.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
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
import { runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'
import { startSilencingProxy } from '../../support/silencing-proxy.ts'
import { run } from '../../support/spawn-service.ts'
import { until, untilPasses } from '../../support/until.ts'
import { addWebhook, webhooks } from '../../support/webhook-receiver.ts'

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

test('a command that has read all while another connection opens prints what it has', async () => {
  const cwd = temporaryFolder()
  const databaseUrl = await newPostgresDatabase()
  const env = { DATABASE_URL: databaseUrl }
  for (const name of ['one', 'two']) {
    const args = ['webhooks', 'add', '--name', name, '--url', 'https://example.com/']
    expect(await runCommand({ cwd, env, args })).toMatchObject({ code: 0 })
  }
  const proxy = await startSilencingProxy(databaseUrl)
  proxy.openAfter(300)
  const listing = run({
    cwd,
    env: { DATABASE_URL: proxy.url },
    args: ['webhooks', 'list', '--json'],
  })
  expect(JSON.parse(await stdoutOf(listing))).toHaveLength(2)
  expect(proxy.accepted()).toBe(2)
})

test('a command whose write gets no answer says that it may have been done', async () => {
  const proxy = await startSilencingProxy(await newPostgresDatabase())
  proxy.silence('INSERT INTO api_keys')
  const args = ['keys', 'create', '--name', 'app', '--scope', 'users:read']
  const env = { DATABASE_URL: proxy.url }
  const said = await stderrOf(runCommand({ cwd: temporaryFolder(), env, args }))
  expect(said).toMatch(/^the change may have been made, so look before you repeat it: /)
})

test('a secret that was printed for a rotation that fails is told to be of no use', async () => {
  const databaseUrl = await newPostgresDatabase()
  await addWebhook(databaseUrl, 'search', 'https://example.com/')
  await holdOpen(databaseUrl, 'SELECT FROM webhooks FOR UPDATE')
  const { code, stdout, stderr } = await webhooks(databaseUrl, 'rotate', 'search')
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^whsec_/)])
  expect(stderr).toMatch(/^The secret that was printed may not sign: rotate again\.\nthe database /)
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
    const reads = [users.find(1), users.findByEmail('ann@example.com'), users.findWithDigest(1)]
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

/** Connections to a database with the table `things`, through a proxy. */
async function openThings(longStatementMs?: number) {
  const databaseUrl = await newPostgresDatabase()
  await queryPostgres(
    databaseUrl,
    'CREATE TABLE things (id integer, name text); INSERT INTO things VALUES (1)',
  )
  const proxy = await startSilencingProxy(databaseUrl)
  const connections = connectTo(proxy.url, longStatementMs ? { longStatementMs } : {})
  return { databaseUrl, proxy, connections }
}

function nameThing({ write }: Pick<Connections, 'write'>, name: string) {
  return write('UPDATE things SET name = $1', [name])
}

test('each kind of work on a silent connection ends, and the connection is replaced', async () => {
  const { proxy, connections } = await openThings(2000)
  const read = (text: string, share: 'short' | 'long') =>
    connections.query(`SELECT '${text}'`, [], share)
  // As many as there are connections of the kind.
  proxy.silence('silence', 9)
  const long = Array.from({ length: 3 }, () => read('silence', 'long'))
  const writes = Array.from({ length: 4 }, () => nameThing(connections, 'silence'))
  const transactions = Array.from({ length: 2 }, () =>
    connections.transaction(session => session.query(`UPDATE things SET name = 'silence'`), {
      share: 'short',
    }),
  )
  const outcomes = await Promise.allSettled([...long, ...transactions, ...writes])
  expect(outcomes.map(one => 'reason' in one && one.reason.code)).toEqual([
    ...Array(5).fill('storage_unavailable'),
    ...Array(4).fill('outcome_unknown'),
  ])
  expect(proxy.silenced()).toBe(9)
  // A caller is answered at its own deadline, its connection ends with its statement.
  await until(() => connections.report().connections.active === 0)
  expect(await read('long', 'long')).toEqual([['long']])
  await nameThing(connections, 'Pen')
})

test('a read on a silent connection does not end long work on another one', async () => {
  const { proxy, connections } = await openThings()
  const read = (text: string, share: 'short' | 'long') => connections.query(text, [], share)
  const slept = read('SELECT pg_sleep(3)', 'long')
  proxy.silence('silence')
  await expect(read(`SELECT 'silence'`, 'short')).rejects.toMatchObject(UNAVAILABLE)
  expect(await slept).toHaveLength(1)
})

test('a stop does not wait for the count of deletions in the feed', async () => {
  const proxy = await startSilencingProxy(await copyPostgresTemplate())
  proxy.silence('SELECT count(*) FROM user_changes')
  const app = await openTestApp({ env: { DATABASE_URL: proxy.url } })
  await until(() => proxy.silenced() === 1)
  // Less than a count may take.
  const longAfter = sleep(15_000, 'waits', { ref: false })
  expect(await Promise.race([app.stop(), longAfter])).toBe(true)
})

test('a process that vanishes in a transaction keeps its rows from nobody for long', async () => {
  const { databaseUrl, proxy, connections } = await openThings()
  proxy.silence('silence')
  const vanished = connections.transaction(
    async session => {
      await session.query('UPDATE things SET name = NULL')
      await session.query(`SELECT 'silence'`)
    },
    { share: 'long' },
  )
  vanished.catch(() => {})
  await until(() => proxy.silenced() === 1)
  await queryPostgres(databaseUrl, `UPDATE things SET name = 'Pen'`)
})

test('close ends what runs on a silent connection', async () => {
  const { proxy, connections } = await openThings(10 * 60_000)
  proxy.silence('silence')
  const read = connections.query(`SELECT 'silence'`, [], 'long')
  const ended = expect(read).rejects.toMatchObject(UNAVAILABLE)
  await until(() => proxy.silenced() === 1)
  await connections.close()
  await ended
})

test('close waits for what is answered', async () => {
  const { connections } = await openThings()
  const slept = connections.query('SELECT pg_sleep(1)')
  await connections.close()
  expect(await slept).toHaveLength(1)
  await expect(connections.query('SELECT 1')).rejects.toMatchObject({ code: 'shutting_down' })
})

test('a change that has waited for a lock does not wait as long again for a server that goes silent then', async () => {
  // Again if the machine was so busy that the waits, which are of the same length, ended in another order.
  await untilPasses(async () => {
    const databaseUrl = await copyPostgresTemplate()
    const proxy = await startSilencingProxy(databaseUrl)
    const { users } = await openStorage(proxy.url)
    const { id } = await createUser(users, { name: 'Ann', email: 'a@x.co', passwordDigest: null })
    await holdOpen(databaseUrl, 'SELECT FROM users FOR UPDATE')
    const ended: string[] = []
    const change = users.update(id, { name: 'Bea' }).catch(({ code }) => ended.push(code))
    await sleep(700)
    for (const statement of ['find_user', 'change_users']) proxy.silence(statement, 4)
    const read = users.find(id).catch(() => ended.push('read'))
    await Promise.all([change, read])
    expect(ended).toEqual(['outcome_unknown', 'read'])
  })
})
