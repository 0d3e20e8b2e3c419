import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { listen } from '../../support/listen.ts'
import { openTestApp, problemsOfStart, temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { holdOpen, tasksOn } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { shareServer } from '../../support/shared-app.ts'
import { spawnMain } from '../../support/spawn-service.ts'

const cluster = shareServer(() =>
  createPostgresCluster({
    authentication: ['host all ann 127.0.0.1/32 scram-sha-256', 'host all bob 127.0.0.1/32 reject'],
  }),
)

/** A URL of a database on the server of this file. */
const urlOf = (user: string, database = 'postgres') =>
  `postgres://${user}@127.0.0.1:${cluster.port}/${database}`

test('a start waits for a server that comes later', async () => {
  await cluster.stop()
  const app = openTestApp({ env: { DATABASE_URL: urlOf('postgres') } })
  await cluster.start()
  await (await app).http.get('/readyz').expect(200)
})

test('a start ends with one line if no server comes, or none that answers', async () => {
  // One that accepts connections and never answers, as a frozen one.
  const port = await listen(createServer())
  const all = [1, port].map(each =>
    problemsOfStart({ env: { DATABASE_URL: `postgres://ann:s3cret@127.0.0.1:${each}/users` } }),
  )
  const shown = expect.stringMatching(/^(?!.*s3cret)DATABASE_URL was "postgres:\/\/\*\*\*@127/)
  expect(await Promise.all(all)).toEqual([[shown], [shown]])
})

test('a signal ends a start that waits for a server, with exit code 0', async () => {
  const server = createServer()
  const port = await listen(server)
  const { process, exited } = spawnMain({
    cwd: temporaryFolder(),
    env: { DATABASE_URL: `postgres://ann@127.0.0.1:${port}/users`, PORT: '0' },
  })
  await once(server, 'connection')
  process.kill('SIGTERM')
  const { code, stdout, stderr } = await exited
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('"msg":"stopped before it was ready"')
})

test('what waiting cannot mend ends a start with a line that says why', async () => {
  const roles = `CREATE ROLE ann LOGIN PASSWORD 'right'; CREATE ROLE bob LOGIN; CREATE ROLE eve`
  await queryPostgres(cluster.url(), roles)
  await queryPostgres(cluster.url(), 'CREATE DATABASE mended')
  const expectProblem = async (DATABASE_URL: string, why: string) =>
    expect(await problemsOfStart({ env: { DATABASE_URL } })).toEqual([expect.stringContaining(why)])
  for (const [url, why] of [
    [urlOf('ann:wrong'), 'refuses this user or password (28P01)'],
    [urlOf('ann'), 'asks for a password'],
    [
      urlOf('bob'),
      'its pg_hba.conf refuses it; if the server takes only TLS, add sslmode=require to the URL (28000)',
    ],
    [urlOf('nobody'), 'no such user'],
    [urlOf('eve'), '(28000)'],
    [urlOf('postgres', 'postgres?options=-c%20nope%3D1'), '(42704)'],
    [urlOf('postgres', 'nowhere'), 'no database "nowhere": create it (3D000)'],
    [urlOf('postgres', 'no;password=x'), 'no database of this name: create it (3D000)'],
    [urlOf('postgres', 'postgres?sslmode=require'), 'SSL'],
    [urlOf('ann:right', 'mended'), 'this role may not change it'],
  ] as const) {
    await expectProblem(url, why)
  }
  await tasksOn(cluster.url('mended')).migrate()
  await expectProblem(urlOf('ann:right', 'mended'), 'GRANT the rights that are missing')
})

test('a server that refuses the settings of a session ends a start with exit code 1 and a line', async () => {
  await queryPostgres(cluster.url(), 'CREATE ROLE zoe LOGIN')
  await queryPostgres(cluster.url(), 'CREATE DATABASE strict')
  const revoke = 'REVOKE EXECUTE ON FUNCTION set_config(text, text, boolean) FROM PUBLIC'
  await queryPostgres(cluster.url('strict'), revoke)
  const env = { DATABASE_URL: urlOf('zoe', 'strict'), PORT: '0' }
  const { code, stderr } = await spawnMain({ cwd: temporaryFolder(), env }).exited
  expect(code).toBe(1)
  expect(stderr).toMatch(/DATABASE_URL was .*GRANT the rights that are missing \(42501\)/)
})

test('a pooler that takes only TLS ends a start at once with a line that names sslmode=require', async () => {
  const fields = 'SFATAL\0C08P01\0MSSL required\0\0'
  const head = Buffer.from([69, 0, 0, 0, fields.length + 4])
  const server = createServer(socket => socket.end(Buffer.concat([head, Buffer.from(fields)])))
  const port = await listen(server)
  const env = { DATABASE_URL: `postgres://ann@127.0.0.1:${port}/users` }
  const why = 'the server takes only TLS: add sslmode=require to the URL (08P01)'
  expect(await problemsOfStart({ env })).toEqual([expect.stringContaining(why)])
})

test('a start ends with one line if it cannot read a table', async () => {
  const DATABASE_URL = await copyPostgresTemplate()
  await holdOpen(DATABASE_URL, 'LOCK TABLE bans IN ACCESS EXCLUSIVE MODE')
  const limits = { blocklist: [{ path: '/no' }] }
  expect(await problemsOfStart({ env: { DATABASE_URL }, limits })).toEqual([
    expect.stringMatching(/^DATABASE_URL was "postgres:\/\/.*\(55P03\)/),
  ])
})
