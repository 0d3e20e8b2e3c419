import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { beginPost } from '../support/begin-post.ts'
import { newUserBody } from '../support/builders.ts'
import { findFreePort } from '../support/free-port.ts'
import type { KeepAliveClient } from '../support/keep-alive-client.ts'
import { type ManagedTeam, type Sample, spawnManagedTeam, sumOf } from '../support/managed-team.ts'
import { TOKEN } from '../support/management-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { residentMb } from '../support/process-memory.ts'
import { run } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const LISTED = { method: 'GET', route: '/users', status: '200' }

const CREATED = { method: 'POST', route: '/users', status: '201' }

function requestsIn(samples: readonly Sample[], labels: Sample['labels'] = LISTED): number {
  return sumOf(samples, 'http_request_duration_seconds_count', labels) ?? 0
}

/** The metrics once `count` lists are counted. A client may have its answer a little before. */
function untilListed(team: ManagedTeam, count: number): Promise<readonly Sample[]> {
  return until(async () => {
    const samples = await team.samples()
    return requestsIn(samples) >= count && samples
  })
}

async function list(client: KeepAliveClient | undefined, times = 1): Promise<void> {
  for (let time = 0; time < times; time++) {
    const answer = await client?.ask({ method: 'GET', path: '/users' })
    expect(answer?.status).toBe(200)
  }
}

test('the counts of all workers are added up, exactly', async () => {
  const team = await spawnManagedTeam({ cwd: temporaryFolder() })
  const clients = [...(await team.connectTo(1, 16)), ...(await team.connectTo(2, 16))]
  await Promise.all(clients.map(client => list(client, 5)))
  const body = () => JSON.stringify(newUserBody())
  const creating = clients.map(client =>
    client.ask({ method: 'POST', path: '/users', body: body() }),
  )
  for (const answer of await Promise.all(creating)) expect(answer?.status).toBe(201)
  const samples = await until(async () => {
    const found = await team.samples()
    return requestsIn(found, CREATED) >= 32 && found
  })
  expect(requestsIn(samples)).toBe(160)
  expect(requestsIn(samples, CREATED)).toBe(32)
  expect(sumOf(samples, 'storage_commit_writes_sum')).toBe(32)
  expect(sumOf(samples, 'http_connections')).toBe(32)
  expect(sumOf(samples, 'http_requests_in_flight')).toBe(0)
  expect(sumOf(samples, 'queue_length')).toBe(0)
  expect(sumOf(samples, 'user_records_workers')).toBe(2)
  expect(sumOf(samples, 'storage_up')).toBe(1)
})

test('what a worker has counted stays when it is stopped in good order, at once', async () => {
  const team = await spawnManagedTeam({ cwd: temporaryFolder() })
  const [client] = await team.connectTo(2, 1)
  await list(client, 50)
  process.kill(team.workerIds()[1] as number, 'SIGTERM')
  await team.untilLogged('worker serves', 3)
  expect(requestsIn(await untilListed(team, 50))).toBe(50)
})

test('no count decreases when a worker is killed, and its replacement adds to it', async () => {
  const team = await spawnManagedTeam({ cwd: temporaryFolder() })
  const [[one], [two]] = [await team.connectTo(1, 1), await team.connectTo(2, 1)]
  await list(one, 20)
  await list(two, 30)
  let known = countersIn(await untilListed(team, 50))
  process.kill(team.workerIds()[1] as number, 'SIGKILL')
  await until(async () => {
    const counters = countersIn(await team.samples())
    for (const [name, value] of known)
      expect(counters.get(name), name).toBeGreaterThanOrEqual(value)
    known = counters
    return team.lines().filter(({ msg }) => msg === 'worker serves').length === 3
  })
  const [three] = await team.connectTo(2, 1)
  await list(three, 5)
  expect(requestsIn(await untilListed(team, 55))).toBe(55)
})

/** What must never decrease, by its name and labels. */
function countersIn(samples: readonly Sample[]): Map<string, number> {
  return new Map(
    samples
      .filter(({ name }) => /_(total|count|sum|bucket)$/.test(name))
      // These two are numbers of what there is now.
      .filter(({ name }) => !/^nodejs_(active|heap)/.test(name))
      .map(({ name, labels, value }) => [JSON.stringify([name, labels]), value]),
  )
}

test('a worker that is stopped does not hold up the metrics, which have its last counts', async () => {
  const team = await spawnManagedTeam({ cwd: temporaryFolder() })
  const [[one], [two]] = [await team.connectTo(1, 1), await team.connectTo(2, 1)]
  await list(one, 3)
  await list(two, 4)
  await untilListed(team, 7)
  await team.alone(1, async () => {
    await list(one, 2)
    expect(requestsIn(await untilListed(team, 9))).toBe(9)
    expect((await team.ask('/readyz')).status).toBe(200)
  })
  await list(two, 1)
  expect(requestsIn(await untilListed(team, 10))).toBe(10)
})

/** Rules that a worker reads once there is no file `hold`. */
const SLOW_RULES = `import { existsSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout } from 'node:timers/promises'
const isWorker = basename(process.argv[1]) === 'worker.js'
if (isWorker && existsSync('hold')) writeFileSync('reached', '')
while (isWorker && existsSync('hold')) await setTimeout(10)
export default {}`

test('the service is ready while one worker serves, and is not while none does', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.mjs'), SLOW_RULES)
  const team = await spawnManagedTeam({ cwd, env: { LIMITS_FILE: 'limits.mjs' } })
  const readiness = async () => {
    const answer = await team.ask('/readyz?verbose=true')
    return [answer.status, await answer.json()]
  }
  const ok = { status: 'ok' }
  const unavailable = { status: 'unavailable' }
  const checks = { service: ok, storage: ok, limits: ok }
  expect(await readiness()).toEqual([200, { status: 'ok', checks }])
  const hold = join(cwd, 'hold')
  writeFileSync(hold, '')
  const [first = 0, second = 0] = team.workerIds()
  process.kill(first, 'SIGKILL')
  await team.untilLogged('worker died, starting another')
  expect((await readiness())[0]).toBe(200)
  process.kill(second, 'SIGKILL')
  await team.untilLogged('worker died, starting another', 2)
  expect(await readiness()).toEqual([
    503,
    { status: 'unavailable', checks: { service: unavailable } },
  ])
  expect((await team.ask('/livez')).status).toBe(200)
  expect((await team.ask('/metrics')).status).toBe(200)
  await until(() => existsSync(join(cwd, 'reached')))
  rmSync(hold)
  await until(async () => (await readiness())[0] === 200)
})

test('the port answers while the workers start, and the service is not ready', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.mjs'), SLOW_RULES)
  writeFileSync(join(cwd, 'hold'), '')
  const port = await findFreePort()
  const env = { LIMITS_FILE: 'limits.mjs', MANAGEMENT_PORT: String(port) }
  const starting = spawnManagedTeam({ cwd, env })
  const statusOf = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined)
    return answer?.status
  }
  await until(async () => (await statusOf('/readyz')) === 503)
  expect([await statusOf('/livez'), await statusOf('/metrics')]).toEqual([200, 200])
  rmSync(join(cwd, 'hold'))
  await starting
  expect(await statusOf('/readyz')).toBe(200)
})

test('serve exits with 1 when the management port is in use, and starts no worker', async () => {
  const cwd = temporaryFolder()
  const { port } = await spawnManagedTeam({ cwd })
  const env = { WORKERS: '2', PORT: '0', MANAGEMENT_PORT: String(port) }
  const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env, args: ['serve'] })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr.trim().split('\n')).toEqual([
    expect.stringContaining(`MANAGEMENT_PORT was "${port}"`),
  ])
})

test('while the service stops, the port answers and says that it is not ready', async () => {
  const env = { SHUTDOWN_TIMEOUT: '10 minutes' }
  const team = await spawnManagedTeam({ cwd: temporaryFolder(), env })
  const post = await team.alone(2, () => beginPost(team.port))
  team.process.kill('SIGTERM')
  await team.untilLogged('stopping')
  const ready = await team.ask('/readyz')
  expect([ready.status, (await team.ask('/livez')).status]).toEqual([503, 200])
  await until(async () => sumOf(await team.samples(), 'user_records_workers') === 1)
  post.finish()
  expect((await post.ended)[1]).toMatchObject({ status: 201 })
  expect(await team.exited).toMatchObject({ code: 0, stderr: '' })
  expect(team.lines().at(-1)).toMatchObject({ worker: 0, msg: 'stopped' })
})

test('process metrics are those of all processes', async () => {
  const team = await spawnManagedTeam({ cwd: temporaryFolder() })
  const samples = await team.samples()
  const ids = [team.process.pid, ...team.workerIds()]
  const largestMb = Math.max(...ids.map(id => residentMb(id)))
  expect(sumOf(samples, 'process_resident_memory_bytes')).toBeGreaterThan(largestMb * 1.5e6)
  const started = team.lines().find(({ msg }) => msg === 'starting')
  const startedAt = Date.parse(String(started?.time)) / 1000
  // Rounded to a second.
  expect(sumOf(samples, 'process_start_time_seconds')).toBeLessThanOrEqual(startedAt + 1)
  expect(sumOf(samples, 'nodejs_version_info')).toBe(1)
})

test('the port of several workers needs its token, and refuses foreign hosts and origins', async () => {
  const env = { MANAGEMENT_TOKEN: TOKEN }
  const team = await spawnManagedTeam({
    cwd: temporaryFolder(),
    env: { ...env, ALLOWED_HOSTS: '' },
  })
  const headers = { Authorization: `Bearer ${TOKEN}` }
  expect((await team.ask('/metrics')).status).toBe(401)
  expect((await team.ask('/metrics', { headers })).status).toBe(200)
  const foreign = { headers: { ...headers, Origin: 'http://evil.example' } }
  expect((await team.ask('/metrics', foreign)).status).toBe(403)
  expect((await team.ask('/readyz')).status).toBe(200)
  expect((await fetch(`${team.url}/metrics`)).status).toBe(404)
})
