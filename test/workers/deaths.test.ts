import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import type { KeepAliveClient } from '../support/keep-alive-client.ts'
import { load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { childrenOf, untilEnded } from '../support/process-tree.ts'
import { startRedis } from '../support/redis-server.ts'
import { canStartRedis } from '../support/redis-settings.ts'
import { run } from '../support/spawn-service.ts'
import { spawnTeam } from '../support/spawn-team.ts'
import { until } from '../support/until.ts'

const WHY_NONE = 'the worker processes end before they can serve'

function create(client: KeepAliveClient) {
  return client.ask({ method: 'POST', path: '/users', body: JSON.stringify(newUserBody()) })
}

async function storedUsers(url: string): Promise<number> {
  const answer = await fetch(`${url}/users?count=true&per_page=1`)
  return Number(answer.headers.get('x-total-count'))
}

test('a worker that is killed under load is replaced, and the others go on', async () => {
  const team = await spawnTeam(2, { cwd: temporaryFolder() })
  const [client] = (await team.connectTo(1, 1)) as [KeepAliveClient]
  const connections = 16
  const loading = load({ port: team.port, connections, requests: 4000, workload: 'create' })
  await until(async () => (await storedUsers(team.url)) > 100)
  const [, killed = 0] = team.workerIds()
  process.kill(killed, 'SIGKILL')
  expect(await create(client)).toMatchObject({ status: 201 })
  expect(await team.untilLogged('worker died, starting another')).toMatchObject([
    { level: 'warn', worker: 0, died: 2, pid: killed, code: null, signal: 'SIGKILL' },
  ])
  await team.untilLogged('worker serves', 3)
  expect(await create(client)).toMatchObject({ status: 201 })
  const [replacement] = (await team.connectTo(2, 1)) as [KeepAliveClient]
  expect(await create(replacement)).toMatchObject({ status: 201 })

  const { statuses } = await loading
  const { 201: created = 0, ...others } = statuses
  // Each connection of the worker that was killed had at most one request without an answer.
  const failed = Object.values(others).reduce((sum, count) => sum + count, 0)
  expect(failed).toBeLessThanOrEqual(connections)
  const stored = await storedUsers(team.url)
  expect(stored).toBeGreaterThanOrEqual(created + 3)
  expect(stored).toBeLessThanOrEqual(created + 3 + connections)
})

test('the workers end when the first process is killed', async () => {
  const team = await spawnTeam(3, { cwd: temporaryFolder() })
  const ids = team.workerIds()
  expect(childrenOf(team.process.pid as number).sort()).toEqual(ids.toSorted())
  team.process.kill('SIGKILL')
  await untilEnded(ids)
})

test('a worker that is killed while its writes wait leaves the others able to write', async () => {
  const team = await spawnTeam(2, { cwd: temporaryFolder() })
  const [[survivor], ...doomed] = [await team.connectTo(1, 1), ...(await team.connectTo(2, 20))]
  const writing = doomed.map(client => create(client as KeepAliveClient))
  process.kill(team.workerIds()[1] as number, 'SIGKILL')
  await Promise.all(writing)
  expect(await create(survivor as KeepAliveClient)).toMatchObject({ status: 201 })
})

/** Options of Node that kill each worker at its start once there is a file `die`. */
function dyingWorkers(cwd: string): Record<string, string> {
  const path = join(cwd, 'dying.cjs')
  const isDying = `String(process.argv[1]).endsWith('worker.js') && require('node:fs').existsSync('die')`
  writeFileSync(path, `if (${isDying}) process.kill(process.pid, 'SIGKILL')`)
  return { NODE_OPTIONS: `--require ${path}` }
}

test('serve exits with 1 when workers die five times in a row before they serve', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'die'), '')
  const env = { WORKERS: '2', PORT: '0', ...dyingWorkers(cwd) }
  const { code, stdout, stderr } = await run({ cwd, env, args: ['serve'] })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr.trim().split('\n')).toEqual([expect.stringContaining(WHY_NONE)])
})

test('a service whose workers die five times in a row before they serve stops with exit code 1', async () => {
  const cwd = temporaryFolder()
  const team = await spawnTeam(2, { cwd, env: dyingWorkers(cwd) })
  const [client] = (await team.connectTo(1, 1)) as [KeepAliveClient]
  writeFileSync(join(cwd, 'die'), '')
  process.kill(team.workerIds()[1] as number, 'SIGKILL')
  const { code } = await team.exited
  expect(code).toBe(1)
  const messages = team.lines().map(({ msg }) => msg)
  expect(
    messages.filter(msg => msg === 'worker died, starting another').length,
  ).toBeGreaterThanOrEqual(5)
  expect(messages).toContain('workers keep dying before they serve')
  client.close()
})

test.skipIf(!canStartRedis)(
  'a worker that replaces another serves, although Redis has another password by then',
  async () => {
    const redis = await startRedis()
    onTestFinished(redis.remove)
    const cwd = temporaryFolder()
    const rule = { name: 'all', limit: 1000, period: '1 hour' }
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify({ throttle: [rule] }))
    const env = { LIMITS_FILE: 'limits.json', CACHE_STORE: 'redis', REDIS_URL: redis.url }
    const team = await spawnTeam(2, { cwd, env })
    await redis.command('CONFIG', 'SET', 'requirepass', 'new')
    process.kill(team.workerIds()[0] as number, 'SIGKILL')
    await team.untilLogged('worker serves', 3)
    const [client] = (await team.connectTo(1, 1)) as [KeepAliveClient]
    const ready = await client.ask({ method: 'GET', path: '/readyz' })
    expect(ready?.body).toBe('{"status":"ok","limits":"local"}')
  },
)
