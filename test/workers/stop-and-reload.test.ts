import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { load } from '../support/load.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnTeam, type Team } from '../support/spawn-team.ts'
import { selectRows } from '../support/sql.ts'
import { until } from '../support/until.ts'

const WORKERS = 2

const NO_HURRY = { SHUTDOWN_TIMEOUT: '10 minutes' }

const AGENT = 'unwanted'

function blocking(agent: string): string {
  return JSON.stringify({ blocklist: [{ name: 'agent', userAgent: agent }] })
}

async function openWith({ file, text }: { readonly file: string; readonly text: string }) {
  const cwd = temporaryFolder()
  const path = join(cwd, file)
  writeFileSync(path, text)
  const team = await spawnTeam(WORKERS, { cwd, env: { LIMITS_FILE: file } })
  return { team, path }
}

/** What each worker answers to the unwanted agent. */
async function statusesOf(team: Team) {
  const statuses = []
  for (let worker = 1; worker <= WORKERS; worker++) {
    const [client] = await team.connectTo(worker, 1)
    const headers = { 'User-Agent': AGENT }
    statuses.push((await client?.ask({ method: 'GET', path: '/users', headers }))?.status)
    client?.close()
  }
  return statuses
}

test('SIGHUP puts new rules in force in all workers', async () => {
  const { team, path } = await openWith({ file: 'limits.json', text: blocking('another') })
  expect(await statusesOf(team)).toEqual([200, 200])
  writeFileSync(path, blocking(AGENT))
  team.process.kill('SIGHUP')
  expect(await team.untilLogged('limits reloaded')).toMatchObject([{ worker: 0 }])
  expect(await statusesOf(team)).toEqual([403, 403])
})

test.each([
  ['a file that is no JSON', 'limits.json', '{'],
  [
    'a module that one worker alone cannot use',
    'limits.mjs',
    `import { existsSync, rmSync } from 'node:fs'
    import { basename } from 'node:path'
    const isWorker = basename(process.argv[1]) === 'worker.js'
    if (isWorker && existsSync('fails-once')) {
      rmSync('fails-once')
      throw new Error('not here')
    }
    export default ${blocking('another')}`,
  ],
])('SIGHUP with %s changes no worker', async (_, file, text) => {
  const good = file.endsWith('.mjs') ? `export default ${blocking(AGENT)}` : blocking(AGENT)
  const { team, path } = await openWith({ file, text: good })
  expect(await statusesOf(team)).toEqual([403, 403])
  writeFileSync(join(path, '..', 'fails-once'), '')
  writeFileSync(path, text)
  team.process.kill('SIGHUP')
  const [line] = await team.untilLogged('limits file is invalid, keeping the previous rules')
  expect(line).toMatchObject({ level: 'error', worker: 0 })
  expect(await statusesOf(team)).toEqual([403, 403])
})

test('a worker that replaces another has the rules in force, not those of a wrong file', async () => {
  const { team, path } = await openWith({ file: 'limits.json', text: blocking('another') })
  writeFileSync(path, blocking(AGENT))
  team.process.kill('SIGHUP')
  await team.untilLogged('limits reloaded')
  writeFileSync(path, '{')
  process.kill(team.workerIds()[1] as number, 'SIGKILL')
  await team.untilLogged('worker serves', WORKERS + 1)
  expect(await statusesOf(team)).toEqual([403, 403])
})

test.each(['SIGTERM', 'SIGINT'] as const)('%s under load answers all that was sent, and exits with 0', async signal => {
  const cwd = temporaryFolder()
  const team = await spawnTeam(WORKERS, { cwd, env: NO_HURRY })
  const loading = load({ port: team.port, connections: 16, seconds: 600, workload: 'create' })
  const path = join(cwd, 'data', 'users.db')
  const count = async () => Number((await selectRows(path, 'SELECT count(*) AS n FROM users'))[0]?.n)
  await until(async () => (await count()) > 200)
  team.process.kill(signal)
  expect(await team.exited).toMatchObject({ code: 0, stderr: '' })
  const { statuses } = await loading
  expect(await count()).toBe(statuses[201])
  expect(team.lines().at(-1)).toMatchObject({ worker: 0, msg: 'stopped' })
})

test('SIGTERM lets a request in flight in each worker end, with 201 and exit code 0', async () => {
  const team = await spawnTeam(WORKERS, { cwd: temporaryFolder(), env: NO_HURRY })
  const posts = []
  for (let worker = 1; worker <= WORKERS; worker++) {
    const [client] = await team.connectTo(worker, 1)
    if (client === undefined) throw new Error('no connection')
    const body = JSON.stringify(newUserBody())
    const begun = await client.begin({ method: 'POST', path: '/users', body })
    posts.push(begun)
  }
  team.process.kill('SIGTERM')
  await team.untilLogged('stopping')
  for (const post of posts) expect(await post.finish()).toMatchObject({ status: 201 })
  expect(await team.exited).toMatchObject({ code: 0, stderr: '' })
})

test('a stop whose time runs out in one worker exits with 1', async () => {
  const env = { SHUTDOWN_TIMEOUT: '1ms' }
  const team = await spawnTeam(WORKERS, { cwd: temporaryFolder(), env })
  const [client] = await team.connectTo(2, 1)
  const begun = client?.begin({ method: 'POST', path: '/users', body: '{}' })
  await begun
  team.process.kill('SIGTERM')
  expect((await team.exited).code).toBe(1)
})
