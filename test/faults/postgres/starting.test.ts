import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { queryPostgres, withPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { run, spawnMain, spawnService } from '../../support/spawn-service.ts'

async function newCluster(options: Parameters<typeof createPostgresCluster>[0] = {}) {
  const cluster = await createPostgresCluster(options)
  onTestFinished(cluster.remove)
  return cluster
}

test('a start waits for a server that comes later', async () => {
  const cluster = await newCluster()
  await cluster.stop()
  const env = { DATABASE_URL: cluster.url() }
  const service = spawnService({ cwd: temporaryFolder(), env })
  await cluster.start()
  expect((await fetch(`${(await service).url}/readyz`)).status).toBe(200)
})

test.each(['stopped', 'frozen'] as const)(
  'a start ends with exit code 1 and one line if the server stays %s',
  async state => {
    const cluster = await newCluster()
    if (state === 'frozen') cluster.freeze()
    else await cluster.stop()
    const DATABASE_URL = cluster.url().replace('postgres@', 'postgres:s3cret@')
    const { code, stdout, stderr } = await spawnMain({
      cwd: temporaryFolder(),
      env: { DATABASE_URL, PORT: '0' },
    }).exited
    expect([code, stdout + stderr]).toEqual([1, expect.not.stringContaining('s3cret')])
    const lines = stderr.trimEnd().split('\n')
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain('DATABASE_URL was "postgres://***@127.0.0.1')
    if (state === 'frozen') cluster.thaw()
  },
)

test('a signal ends a start that waits for a server, with exit code 0', async () => {
  const silent = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => {
    silent.close()
  })
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const { process, exited } = spawnMain({
    cwd: temporaryFolder(),
    env: { DATABASE_URL: `postgres://ann@127.0.0.1:${port}/users`, PORT: '0' },
  })
  await once(silent, 'connection')
  process.kill('SIGTERM')
  const { code, stdout, stderr } = await exited
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('"msg":"stopped before it was ready"')
})

test('what waiting cannot mend ends a start with exit code 1 and a line that says why', async () => {
  const cluster = await newCluster({
    authentication: ['host all ann 127.0.0.1/32 scram-sha-256', 'host all bob 127.0.0.1/32 reject'],
  })
  await queryPostgres(cluster.url(), `CREATE ROLE ann LOGIN PASSWORD 'right'`)
  await queryPostgres(cluster.url(), 'CREATE ROLE bob LOGIN')
  await queryPostgres(cluster.url(), 'CREATE ROLE eve')
  const url = (user: string, rest = 'postgres') =>
    `postgres://${user}@127.0.0.1:${cluster.port}/${rest}`
  const cases = [
    { DATABASE_URL: url('ann:wrong'), why: 'refuses this user or password (28P01)' },
    { DATABASE_URL: url('ann'), why: 'asks for a password' },
    { DATABASE_URL: url('bob'), why: 'its pg_hba.conf refuses it (28000)' },
    { DATABASE_URL: url('nobody'), why: 'no such user' },
    { DATABASE_URL: url('eve'), why: '(28000)' },
    { DATABASE_URL: url('postgres', 'postgres?options=-c%20nope%3D1'), why: '(42704)' },
    { DATABASE_URL: url('postgres', 'nowhere'), why: 'no such database: create it (3D000)' },
    { DATABASE_URL: url('postgres', 'postgres?sslmode=require'), why: 'SSL' },
    { DATABASE_URL: url('ann:right'), why: 'this role may not change it' },
  ]
  for (const { why, ...env } of cases) {
    const { code, stderr } = await run({ cwd: temporaryFolder(), env: { ...env, PORT: '0' } })
    expect([code, stderr]).toEqual([1, expect.stringContaining(why)])
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  }
  await run({ cwd: temporaryFolder(), env: { DATABASE_URL: cluster.url() }, args: ['migrate'] })
  const env = { DATABASE_URL: url('ann:right'), PORT: '0' }
  const { code, stderr } = await run({ cwd: temporaryFolder(), env })
  expect([code, stderr]).toEqual([1, expect.stringContaining('GRANT the rights that are missing')])
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
})

test.each(['bans', 'api_keys'])(
  'a start ends with exit code 1 and one line if it cannot read the table %s',
  async table => {
    const DATABASE_URL = await copyPostgresTemplate()
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify({ blocklist: [{ path: '/no' }] }))
    const settings = { LIMITS_FILE: 'limits.json', API_KEYS: 'required', PORT: '0' }
    const { code, stderr } = await withPostgres(DATABASE_URL, async holder => {
      await holder.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`)
      return spawnMain({ cwd, env: { ...settings, DATABASE_URL } }).exited
    })
    expect([code, stderr]).toEqual([1, expect.stringContaining('DATABASE_URL was "postgres://')])
    expect(stderr.trimEnd().split('\n')).toEqual([expect.stringContaining('(55P03)')])
  },
)

test('a first start ends with exit code 1 and one line while no synchronous standby confirms anything', async () => {
  const cluster = await newCluster()
  await queryPostgres(cluster.url(), `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
  await queryPostgres(cluster.url(), 'SELECT pg_reload_conf()')
  const env = { DATABASE_URL: cluster.url(), PORT: '0' }
  const { code, stderr } = await run({ cwd: temporaryFolder(), env })
  expect([code, stderr]).toEqual([1, expect.stringContaining('DATABASE_URL was "postgres://')])
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
})
