import { expect, onTestFinished, test } from 'vitest'
import { createRandom, inForm, report } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster, type PostgresCluster } from '../../support/postgres-cluster.ts'
import { run, spawnService } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'
import { startSteadfastClients } from './steadfast-clients.ts'

const CLIENTS = 16

const ROUNDS = inForm({ short: 1, long: 10 })

interface Outage {
  readonly what: string
  readonly begin: (cluster: PostgresCluster) => unknown
  readonly end: (cluster: PostgresCluster) => unknown
}

test.each<Outage>([
  { what: 'stopped fast', begin: ({ stop }) => stop('fast'), end: ({ start }) => start() },
  { what: 'stopped at once', begin: ({ stop }) => stop('immediate'), end: ({ start }) => start() },
  { what: 'killed', begin: ({ kill }) => kill(), end: ({ start }) => start() },
  { what: 'frozen', begin: ({ freeze }) => freeze(), end: ({ thaw }) => thaw() },
])(
  'while PostgreSQL is $what, requests get 503; afterwards no acknowledged write is lost',
  async ({ what, begin, end }) => {
    const { cluster, service, databaseUrl } = await openService()
    const clients = startSteadfastClients({
      port: service.port,
      clients: CLIENTS,
      random: createRandom(),
    })
    const ready = async () => (await fetch(`${service.url}/readyz`)).status
    for (let round = 0; round < ROUNDS; round++) {
      await clients.untilEachHasWritten()
      await begin(cluster)
      await until(async () => (await ready()) === 503)
      expect((await fetch(`${service.url}/livez`)).status).toBe(200)
      for (const path of [
        '/users',
        '/users/1',
        '/users?count=true&created_after=2000-01-01T00:00:00Z',
      ]) {
        const answer = await fetch(service.url + path)
        expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
        expect(await answer.json()).toMatchObject({ reason: 'storage_unavailable' })
      }
      await end(cluster)
      await until(async () => (await ready()) === 200)
    }
    await clients.untilEachHasWritten()
    await clients.stop()
    expect(clients.problems).toEqual([])
    expect(await clients.compare(service.port)).toEqual([])
    expect(service.process.exitCode).toBeNull()
    const env = { DATABASE_URL: databaseUrl }
    expect(await run({ cwd: temporaryFolder(), env, args: ['check'] })).toMatchObject({ code: 0 })
    report(`PostgreSQL ${what}`, clients.answers)
  },
)

test('a restart of PostgreSQL, and ended connections, are survived without a restart of the service', async () => {
  const { cluster, service } = await openService()
  const clients = startSteadfastClients({
    port: service.port,
    clients: CLIENTS,
    random: createRandom(),
  })
  for (let round = 0; round < ROUNDS; round++) {
    await clients.untilEachHasWritten()
    await cluster.restart()
    await clients.untilEachHasWritten()
    await queryPostgres(
      cluster.url(),
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
    )
  }
  await clients.untilEachHasWritten()
  await clients.stop()
  expect(clients.problems).toEqual([])
  expect(await clients.compare(service.port)).toEqual([])
  report('PostgreSQL restarted', clients.answers)
})

test('while PostgreSQL takes no writes, /readyz is 503 and reads are answered, also if nobody writes', async () => {
  const { service, databaseUrl } = await openService()
  const statusOf = async (path: string) => (await fetch(service.url + path)).status
  const configure = async (change: string) => {
    await queryPostgres(databaseUrl, `ALTER SYSTEM ${change}`)
    await queryPostgres(databaseUrl, 'SELECT pg_reload_conf()')
  }
  expect(await statusOf('/readyz')).toBe(200)
  await configure('SET default_transaction_read_only = on')
  await until(async () => (await statusOf('/readyz')) === 503)
  expect(await statusOf('/users')).toBe(200)
  expect(await statusOf('/users/1')).toBe(404)
  expect(await statusOf('/livez')).toBe(200)
  await configure('RESET default_transaction_read_only')
  await until(async () => (await statusOf('/readyz')) === 200)
})

async function openService() {
  const cluster = await createPostgresCluster()
  onTestFinished(cluster.remove)
  const databaseUrl = cluster.url()
  const service = await spawnService({
    cwd: temporaryFolder(),
    env: { DATABASE_URL: databaseUrl, LOG_LEVEL: 'fatal' },
  })
  return { cluster, service, databaseUrl }
}
