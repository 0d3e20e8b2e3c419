import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { canMakeCertificates, makeCertificates } from '../../support/certificates.ts'
import { createUser } from '../../support/create-user.ts'
import { importUsers } from '../../support/import-users.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { openStorage } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, queryPostgres } from '../../support/postgres-databases.ts'
import { canStartClusters, findPostgresBinaries } from '../../support/programs.ts'
import { PROJECT, readProject } from '../../support/project.ts'
import { MAIN } from '../../support/spawn-service.ts'

const PASSWORD = `it's a "secret"`

const FIRST_ID = 3_000_000_000_001

const canRun = canStartClusters && canMakeCertificates
if (!canRun) console.log('docs/postgresql.md is not run: PostgreSQL or openssl is not installed')

/** A server for which the page is true: it takes nothing but TLS and passwords, except of its superuser. */
async function startServer() {
  const certificates = makeCertificates()
  onTestFinished(certificates.remove)
  for (const name of ['ca', 'server']) certificates.makeKey(name)
  certificates.makeAuthority('ca')
  const named = { by: 'ca', key: 'server', commonName: 'db', altNames: 'DNS:localhost' }
  certificates.makeCertificate('server', named)
  const cluster = await createPostgresCluster({
    configuration: ['ssl = on', "listen_addresses = 'localhost'"],
    authentication: [
      'hostssl all user_records,user_records_owner localhost scram-sha-256',
      'host all user_records,user_records_owner all reject',
    ],
    files: {
      'server.crt': certificates.text('server.pem'),
      'server.key': certificates.text('server.key'),
    },
  })
  onTestFinished(cluster.remove)
  return { cluster, rootCertificate: certificates.path('ca.pem') }
}

/** The page as it reads for a server of the tests. */
async function openGuide() {
  const { cluster, rootCertificate } = await startServer()
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, 'bin'))
  const command = join(cwd, 'bin', 'user-records-service')
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 })
  const env = {
    PATH: `${join(cwd, 'bin')}:${findPostgresBinaries()}:${process.env.PATH}`,
    HOME: cwd,
    PGHOST: cluster.socketFolder,
    PGPORT: String(cluster.port),
    PGUSER: 'postgres',
  }
  const text = readProject('docs/postgresql.md')
    .replaceAll(/db\.example\.com(:5432)?/g, `localhost:${cluster.port}`)
    .replaceAll('/etc/user-records/ca.pem', rootCertificate)
    .replaceAll('%2Fetc%2Fuser-records%2Fca.pem', encodeURIComponent(rootCertificate))
  const sh = async (script = ''): Promise<string> => {
    const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd, env })
    return stdout
  }
  return { cwd, sh, text }
}

/** The blocks of a section: those to run are marked `sh`, the others show something. */
function blocksOf(text: string, section: string, kind = 'sh'): string[] {
  const [, rest = ''] = text.split(`\n## ${section}\n`)
  const [body = ''] = rest.split('\n## ', 1)
  return Array.from(body.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```/gm), ([, found, block = '']) =>
    found === kind ? block : '',
  ).filter(block => block !== '')
}

/** The settings of a block. */
function settingsOf(block = ''): Record<string, string> {
  return Object.fromEntries(
    Array.from(block.matchAll(/^(\w+)=(.*)$/gm), ([, name = '', value = '']) => [name, value]),
  )
}

test.skipIf(!canRun)(
  'docs/postgresql.md sets up a database, moves a service there from SQLite, backs it up, restores and watches it',
  async () => {
    const { cwd, sh, text } = await openGuide()
    const before = await openTestApp({ env: { DATABASE_URL: join(cwd, 'data/users.db') } })
    const body = newUserBody()
    const key = { 'Idempotency-Key': 'once' }
    const created = await ask(before, 'POST /users', body, key)
    for (let nth = 0; nth < 2; nth++) await ask(before, 'POST /users', newUserBody())
    await ask(before, 'DELETE /users/3')
    const page = await ask(before, 'GET /users?per_page=1')
    const [, next = ''] = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '') ?? []
    await before.stop()

    const setUp = blocksOf(text, 'Set up')
    for (const script of setUp) await sh(script)
    const steps = blocksOf(text, 'Move from SQLite')
    expect(steps).toHaveLength(1)
    expect(await sh(steps[0])).toMatch(/: 2 users, .* verified, in /)

    const [settings = {}] = blocksOf(text, 'Set up', '').map(settingsOf)
    const after = await openTestApp({ env: settings })
    expect((await ask(after, `GET ${next}`)).body).toMatchObject([{ id: 2 }])
    const again = await ask(after, 'POST /users', body, key)
    expect([again.status, again.body]).toEqual([201, created.body])
    expect((await ask(after, 'POST /users', newUserBody())).body).toMatchObject({ id: 4 })

    const [dump = '', create, restore] = blocksOf(text, 'Backup')
    const printed = sh(`${setUp[1]?.split('\n')[0]}; user-records-service backup users.dump`)
    await expect(printed).rejects.toMatchObject({
      stderr: expect.stringContaining(dump.trim().split('\n').at(-1) ?? ''),
    })
    await sh(dump)
    await sh(create)
    expect(await sh(restore)).toMatch(/: sound$/m)
    const DATABASE_URL = settings.DATABASE_URL?.replace('/user_records?', '/restored?')
    const restored = await openTestApp({ env: { ...settings, DATABASE_URL } })
    expect((await ask(restored, 'GET /users/4')).status).toBe(200)
    expect((await ask(restored, 'POST /users', newUserBody())).body).toMatchObject({ id: 5 })

    const [watch] = blocksOf(text, 'Monitoring')
    expect(await sh(watch)).toMatch(/^ idle\s+\|\s+[1-9]/m)
  },
)

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

    const compose = readProject('compose.yaml')
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

test('a cell as docs/scaling.md describes it gives out ids of its range, until an import has higher ones', async () => {
  const url = await copyPostgresTemplate()
  const [, statement = ''] =
    /```sql\n(ALTER SEQUENCE .*)\n```/.exec(readProject('docs/scaling.md')) ?? []
  expect(statement).toContain(String(FIRST_ID))
  await queryPostgres(url, statement)
  const { users, imports } = await openStorage(url)
  const create = async (name: string) =>
    (await createUser(users, { name, email: `${name}@example.com`, passwordDigest: null })).id
  const importWith = (id: number) =>
    importUsers(imports, [{ name: 'Moved', email: `${id}@example.com`, id }])
  expect(await create('ann')).toBe(FIRST_ID)
  await importWith(1_000_000_000_001)
  const next = await create('bea')
  expect(next).toBeGreaterThan(FIRST_ID)
  expect(Math.floor(next / 1e12)).toBe(3)
  await importWith(4_000_000_000_001)
  expect(Math.floor((await create('cid')) / 1e12)).toBe(4)
})
