import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { findPostgresBinaries } from '../../support/postgres-binaries.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { canStartClusters } from '../../support/postgres-settings.ts'

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url))

const PASSWORD = `it's a "secret"`

test.skipIf(!canStartClusters)(
  'deploy/postgres/create-database.sh needs a password, and makes a database in which the role of compose.yaml serves',
  async () => {
    // As the image of PostgreSQL starts it: its superuser has the password, which all who come by TCP need.
    const cluster = await createPostgresCluster({
      authentication: ['host all all 127.0.0.1/32 scram-sha-256'],
    })
    onTestFinished(cluster.remove)
    const env = {
      PATH: `${findPostgresBinaries()}:${process.env.PATH}`,
      PGHOST: cluster.socketFolder,
      PGPORT: String(cluster.port),
      POSTGRES_PASSWORD: PASSWORD,
    }
    const run = (program: string, ...args: string[]) => promisify(execFile)(program, args, { env })
    const setPassword = `ALTER ROLE postgres PASSWORD '${PASSWORD.replaceAll("'", "''")}'`
    await run('psql', '--username=postgres', '--dbname=postgres', `--command=${setPassword}`)

    const script = join(PROJECT, 'deploy/postgres/create-database.sh')
    const withoutPassword = run('env', '--unset=POSTGRES_PASSWORD', 'sh', script)
    await expect(withoutPassword).rejects.toMatchObject({ code: expect.any(Number) })
    await run('sh', script)

    const compose = readFileSync(join(PROJECT, 'compose.yaml'), 'utf8')
    const [, shown = ''] = /USER_RECORDS_DATABASE=(\S+)/.exec(compose) ?? []
    const DATABASE_URL = shown.replace('@postgres/', `@127.0.0.1:${cluster.port}/`)
    const service = await openTestApp({ env: { DATABASE_URL, PGPASSWORD: PASSWORD } })
    expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)

    const [, check = ''] = /test: (\[.*pg_isready.*\])/.exec(compose) ?? []
    const [kind, program = '', ...args] = JSON.parse(check) as string[]
    expect(kind).toBe('CMD')
    expect((await run(program, ...args)).stdout).toContain('accepting connections')

    const superuser = new URL(cluster.url())
    superuser.password = encodeURIComponent(PASSWORD)
    await expect(queryPostgres(superuser.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' })
  },
)
