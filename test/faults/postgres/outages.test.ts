import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { inForm } from '../../support/faults.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import type { PostgresCluster } from '../../support/postgres-cluster.ts'
import { run } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'
import { serveClients, useCluster } from './served-cluster.ts'

const ROUNDS = inForm({ short: 1, long: 10 })

const cluster = useCluster()

let databases = 0

/** An empty database on the server of this file. */
async function newDatabase(): Promise<string> {
  const name = `outage_${++databases}`
  await queryPostgres(cluster().url(), `CREATE DATABASE ${name}`)
  return cluster().url(name)
}

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
    const databaseUrl = await newDatabase()
    const service = await serveClients(databaseUrl)
    const { clients, statusOf, expectNothingLost } = service
    for (let round = 0; round < ROUNDS; round++) {
      await clients.untilEachHasWritten()
      await begin(cluster())
      await until(async () => (await statusOf('/readyz')) === 503)
      expect(await statusOf('/livez')).toBe(200)
      const created = 'created_after=2000-01-01T00:00:00Z'
      for (const path of ['/users', '/users/1', `/users?count=true&${created}`]) {
        const { status, headers, body } = await ask(service, `GET ${path}`)
        expect([status, headers.get('retry-after')]).toEqual([503, '1'])
        expect(body).toMatchObject({ reason: 'storage_unavailable' })
      }
      await end(cluster())
      await until(async () => (await statusOf('/readyz')) === 200)
    }
    await expectNothingLost(`PostgreSQL ${what}`)
    const env = { DATABASE_URL: databaseUrl }
    expect(await run({ cwd: temporaryFolder(), env, args: ['check'] })).toMatchObject({ code: 0 })
  },
)

test('a restart of PostgreSQL, and ended connections, are survived without a restart of the service', async () => {
  const { clients, expectNothingLost } = await serveClients(await newDatabase())
  for (let round = 0; round < ROUNDS; round++) {
    await clients.untilEachHasWritten()
    await cluster().restart()
    await clients.untilEachHasWritten()
    await queryPostgres(
      cluster().url(),
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
    )
  }
  await expectNothingLost('PostgreSQL restarted')
})

test('while PostgreSQL takes no writes, /readyz is 503 and reads are answered, also if nobody writes', async () => {
  const env = { DATABASE_URL: await newDatabase() }
  const { http } = await openTestApp({ env, users: [newUserBody()] })
  const untilReady = (status: number) =>
    until(async () => (await http.get('/readyz')).status === status)
  const configure = async (change: string) => {
    await queryPostgres(cluster().url(), `ALTER SYSTEM ${change}`)
    await queryPostgres(cluster().url(), 'SELECT pg_reload_conf()')
  }
  onTestFinished(() => configure('RESET default_transaction_read_only'))
  await untilReady(200)
  await configure('SET default_transaction_read_only = on')
  await untilReady(503)
  await http.get('/users').expect(200)
  await http.get('/users/1').expect(200)
  await http.get('/livez').expect(200)
  await configure('RESET default_transaction_read_only')
  await untilReady(200)
})
