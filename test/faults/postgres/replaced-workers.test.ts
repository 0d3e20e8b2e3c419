import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { KeepAliveClient } from '../../support/keep-alive-client.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { withPostgres } from '../../support/postgres-client.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { spawnTeam } from '../../support/spawn-team.ts'

/** Longer than a start waits for the database. */
const LONG_OUTAGE_MS = 15_000

test('a worker that dies while PostgreSQL is away is replaced by one that waits for it, with the rules in force then', async () => {
  const cluster = await createPostgresCluster()
  onTestFinished(cluster.remove)
  const cwd = temporaryFolder()
  const block = (path: string) =>
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify({ blocklist: [{ path }] }))
  block('/before')
  const env = { DATABASE_URL: cluster.url(), LIMITS_FILE: 'limits.json' }
  const team = await spawnTeam(2, { cwd, env })
  await cluster.stop('immediate')
  process.kill(team.workerIds()[1] as number, 'SIGKILL')
  await team.untilLogged('worker died, starting another')
  await sleep(LONG_OUTAGE_MS)
  block('/after')
  team.process.kill('SIGHUP')
  await team.untilLogged('limits reloaded')
  expect(team.lines().filter(({ msg }) => msg === 'worker died, starting another')).toHaveLength(1)
  expect((await fetch(`${team.url}/livez`)).status).toBe(200)

  await cluster.start()
  await team.untilLogged('worker serves', 3)
  const [client] = (await team.connectTo(2, 1)) as [KeepAliveClient]
  expect(await client.ask({ method: 'GET', path: '/before' })).toMatchObject({ status: 404 })
  expect(await client.ask({ method: 'GET', path: '/after' })).toMatchObject({ status: 403 })
  expect(await client.ask({ method: 'GET', path: '/users' })).toMatchObject({ status: 200 })
})

test('a service whose last worker waits for PostgreSQL stops with exit code 0', async () => {
  const cluster = await createPostgresCluster()
  onTestFinished(cluster.remove)
  const team = await spawnTeam(2, { cwd: temporaryFolder(), env: { DATABASE_URL: cluster.url() } })
  await cluster.stop('immediate')
  for (const id of team.workerIds()) process.kill(id, 'SIGKILL')
  await team.untilLogged('database cannot be reached', 2)
  team.process.kill('SIGTERM')
  expect(await team.exited).toMatchObject({ code: 0 })
})

test.each(['bans', 'api_keys'])(
  'a worker that replaces another waits until it can read the %s',
  async table => {
    const DATABASE_URL = await newPostgresDatabase()
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify({ blocklist: [{ path: '/no' }] }))
    const env = { DATABASE_URL, LIMITS_FILE: 'limits.json', API_KEYS: 'required' }
    const team = await spawnTeam(2, { cwd, env })
    await withPostgres(DATABASE_URL, async holder => {
      await holder.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`)
      process.kill(team.workerIds()[1] as number, 'SIGKILL')
      await team.untilLogged('worker died, starting another')
      await sleep(LONG_OUTAGE_MS)
      expect(await team.untilLogged('worker died, starting another')).toHaveLength(1)
    })
    await team.untilLogged('worker serves', 3)
    const [client] = (await team.connectTo(2, 1)) as [KeepAliveClient]
    expect(await client.ask({ method: 'GET', path: '/no' })).toMatchObject({ status: 403 })
    expect(await client.ask({ method: 'GET', path: '/users' })).toMatchObject({ status: 401 })
  },
)
