import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { createFailingDisk, type FailingDisk } from '../../support/failing-disk.ts'
import { inForm } from '../../support/faults.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster, type PostgresCluster } from '../../support/postgres-cluster.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { canFailDisks } from '../../support/programs.ts'
import { shareServer } from '../../support/shared-app.ts'
import { run } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'
import { serveClients } from './served-cluster.ts'

const ROUNDS = inForm({ short: 1, long: 10 })

describe('a server', () => {
  const cluster = shareServer(createPostgresCluster)

  let databases = 0

  async function newDatabase(): Promise<string> {
    const name = `outage_${++databases}`
    await queryPostgres(cluster.url(), `CREATE DATABASE ${name}`)
    return cluster.url(name)
  }

  test.each<[what: string, begin: (cluster: PostgresCluster) => unknown]>([
    ['stopped fast', ({ stop }) => stop('fast')],
    ['stopped at once', ({ stop }) => stop('immediate')],
    ['killed', ({ kill }) => kill()],
    ['frozen', ({ freeze }) => freeze()],
  ])(
    'that is %s: requests get 503, and afterwards no acknowledged write is lost',
    async (what, begin) => {
      const databaseUrl = await newDatabase()
      const service = await serveClients(databaseUrl)
      const { clients, statusOf, expectNothingLost } = service
      for (let round = 0; round < ROUNDS; round++) {
        await clients.untilEachHasWritten()
        await begin(cluster)
        await until(async () => (await statusOf('/readyz')) === 503)
        expect(await statusOf('/livez')).toBe(200)
        for (const query of ['', '/1', '?count=true&created_after=2000-01-01T00:00:00Z']) {
          const { status, headers, body } = await ask(service, `GET /users${query}`)
          expect([status, headers.get('retry-after')]).toEqual([503, '1'])
          expect(body).toMatchObject({ reason: 'storage_unavailable' })
        }
        if (what === 'frozen') cluster.thaw()
        else await cluster.start()
        await until(async () => (await statusOf('/readyz')) === 200)
      }
      await expectNothingLost(`PostgreSQL ${what}`)
      const env = { DATABASE_URL: databaseUrl }
      expect(await run({ cwd: temporaryFolder(), env, args: ['check'] })).toMatchObject({ code: 0 })
    },
  )

  test('whose synchronous standby is gone: writes get 503, and so does /readyz until it takes them again', async () => {
    const { http } = await openTestApp({ env: { DATABASE_URL: await newDatabase() } })
    const set = async (setting: string) => {
      await queryPostgres(cluster.url(), `ALTER SYSTEM ${setting}`)
      await queryPostgres(cluster.url(), 'SELECT pg_reload_conf()')
    }
    await set(`SET synchronous_standby_names = 'gone'`)
    await until(async () => (await http.post('/users').send(newUserBody())).status === 503)
    await until(async () => (await http.get('/readyz')).status === 503)
    await http.get('/users').expect(200)
    await set('RESET synchronous_standby_names')
    await until(async () => (await http.get('/readyz')).status === 200)
    await http.post('/users').send(newUserBody()).expect(201)
  })

  test('that restarts, or ends connections, needs no restart of the service', async () => {
    const { clients, expectNothingLost } = await serveClients(await newDatabase())
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
    await expectNothingLost('PostgreSQL restarted')
  })

  test('that takes no writes: /readyz is 503 and reads are answered, also if nobody writes', async () => {
    const env = { DATABASE_URL: await newDatabase() }
    const { http } = await openTestApp({ env, users: [newUserBody()] })
    const untilReady = (status: number) =>
      until(async () => (await http.get('/readyz')).status === status)
    const configure = async (change: string) => {
      await queryPostgres(cluster.url(), `ALTER SYSTEM ${change}`)
      await queryPostgres(cluster.url(), 'SELECT pg_reload_conf()')
    }
    onTestFinished(() => configure('RESET default_transaction_read_only'))
    await untilReady(200)
    await configure('SET default_transaction_read_only = on')
    await untilReady(503)
    for (const path of ['/users', '/users/1', '/livez']) await http.get(path).expect(200)
    await configure('RESET default_transaction_read_only')
    await untilReady(200)
  })
})

test.skipIf(!canFailDisks)(
  'while the disk of PostgreSQL is full, writes that need space get 503 and reads are answered',
  async () => {
    let disk: FailingDisk | undefined
    const cluster = await createPostgresCluster({
      environmentOf: data => {
        disk = createFailingDisk(join(data, 'base'))
        return disk.env
      },
    })
    onTestFinished(cluster.remove)
    const { clients, statusOf, expectNothingLost } = await serveClients(cluster.url())
    disk?.fail({ writes: 'ENOSPC' })
    await until(() => (clients.answers['POST 503 storage_unavailable'] ?? 0) > 50)
    expect(await statusOf('/users')).toBe(200)
    disk?.work()
    await expectNothingLost('disk of PostgreSQL full')
  },
)

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
