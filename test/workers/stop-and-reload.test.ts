import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { beginPost } from '../support/begin-post.ts'
import { newUserBody } from '../support/builders.ts'
import type { KeepAliveClient } from '../support/keep-alive-client.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { childrenOf } from '../support/process-tree.ts'
import { spawnTeam, type Team } from '../support/spawn-team.ts'
import { selectRows } from '../support/sql.ts'
import { until } from '../support/until.ts'

const WORKERS = 2

const NO_HURRY = { SHUTDOWN_TIMEOUT: '10 minutes' }

const AGENT = 'unwanted'

function blocking(agent: string): string {
  return JSON.stringify({ blocklist: [{ name: 'agent', userAgent: agent }] })
}

function moduleBlocking(agent: string): string {
  return `export default ${blocking(agent)}`
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

test.each([
  ['a wrong file', 'limits.json', blocking, '{'],
  ['a module that is wrong', 'limits.mjs', moduleBlocking, 'export default {'],
  ['a module with other rules', 'limits.mjs', moduleBlocking, moduleBlocking('another')],
])(
  'a worker that replaces another has the rules in force, not those of %s',
  async (_, file, rules, later) => {
    const { team, path } = await openWith({ file, text: rules('another') })
    writeFileSync(path, rules(AGENT))
    team.process.kill('SIGHUP')
    await team.untilLogged('limits reloaded')
    writeFileSync(path, later)
    process.kill(team.workerIds()[1] as number, 'SIGKILL')
    await team.untilLogged('worker serves', WORKERS + 1)
    expect(await statusesOf(team)).toEqual([403, 403])
  },
)

/** Rules that block the unwanted agent. A worker that reads them waits while there is a file `hold`. */
const SLOW_RULES = `import { existsSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout } from 'node:timers/promises'
const isWorker = basename(process.argv[1]) === 'worker.js'
if (isWorker && existsSync('hold')) writeFileSync('reached', '')
while (isWorker && existsSync('hold')) await setTimeout(10)
export default ${blocking(AGENT)}`

test('SIGHUP while a worker is being replaced puts new rules in force in it too', async () => {
  const { team, path } = await openWith({ file: 'limits.mjs', text: SLOW_RULES })
  const hold = join(path, '..', 'hold')
  writeFileSync(hold, '')
  process.kill(team.workerIds()[0] as number, 'SIGKILL')
  await until(() => existsSync(join(path, '..', 'reached')))
  writeFileSync(path, `export default ${blocking('another')}`)
  team.process.kill('SIGHUP')
  // Time for the other worker, and for what is asked of the replacement.
  await setTimeout(1000)
  rmSync(hold)
  await team.untilLogged('limits reloaded')
  await team.untilLogged('worker serves', WORKERS + 1)
  expect(await statusesOf(team)).toEqual([200, 200])
})

test('SIGHUP works after a worker died while it waited for new rules', async () => {
  const { team, path } = await openWith({ file: 'limits.mjs', text: SLOW_RULES })
  const hold = join(path, '..', 'hold')
  writeFileSync(hold, '')
  team.process.kill('SIGHUP')
  await until(() => existsSync(join(path, '..', 'reached')))
  const [first = 0, second = 0] = team.workerIds()
  process.kill(first, 'SIGKILL')
  const replacement = await until(() =>
    childrenOf(team.process.pid as number).find(id => ![first, second].includes(id)),
  )
  // It has no other effect yet that one could wait for.
  await setTimeout(1000)
  process.kill(replacement, 'SIGKILL')
  await team.untilLogged('worker died, starting another', 2)
  rmSync(hold)
  await team.untilLogged('worker serves', WORKERS + 1)
  await team.untilLogged('limits reloaded')
  writeFileSync(path, `export default ${blocking('another')}`)
  team.process.kill('SIGHUP')
  await team.untilLogged('limits reloaded', 2)
  expect(await statusesOf(team)).toEqual([200, 200])
})

/** Creates users one after another until an answer says that there is no further one. Returns how many. */
async function createMany(client: KeepAliveClient): Promise<number> {
  for (let created = 0; ; created++) {
    const body = JSON.stringify(newUserBody())
    const answer = await client.ask({ method: 'POST', path: '/users', body })
    if (answer?.status !== 201) return created
    if (answer.headers.connection === 'close') return created + 1
  }
}

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s under load loses no answer of a create, and exits with 0',
  async signal => {
    const cwd = temporaryFolder()
    const databaseUrl = join(cwd, 'users.db')
    const env = { ...NO_HURRY, DATABASE_URL: databaseUrl }
    const team = await spawnTeam(WORKERS, { cwd, env })
    const clients = [...(await team.connectTo(1, 8)), ...(await team.connectTo(2, 8))]
    const creating = clients.map(createMany)
    const stored = async () =>
      Number((await selectRows(databaseUrl, 'SELECT count(*) AS n FROM users'))[0]?.n)
    await until(async () => (await stored()) > 200)
    team.process.kill(signal)
    expect(await team.exited).toMatchObject({ code: 0, stderr: '' })
    const created = await Promise.all(creating)
    expect(await stored()).toBe(created.reduce((sum, count) => sum + count, 0))
    expect(team.lines().at(-1)).toMatchObject({ worker: 0, msg: 'stopped' })
  },
)

test('SIGTERM lets a request in flight in each worker end, with 201 and exit code 0', async () => {
  const team = await spawnTeam(WORKERS, { cwd: temporaryFolder(), env: NO_HURRY })
  const posts = []
  for (let worker = 1; worker <= WORKERS; worker++) {
    posts.push(await team.alone(worker, () => beginPost(team.port)))
  }
  team.process.kill('SIGTERM')
  await team.untilLogged('stopping')
  for (const post of posts) post.finish()
  for (const { ended } of posts) expect((await ended)[1]).toMatchObject({ status: 201 })
  expect(await team.exited).toMatchObject({ code: 0, stderr: '' })
})

test('a stop whose time runs out in one worker exits with 1', async () => {
  const env = { SHUTDOWN_TIMEOUT: '1ms' }
  const team = await spawnTeam(WORKERS, { cwd: temporaryFolder(), env })
  await team.alone(2, () => beginPost(team.port))
  team.process.kill('SIGTERM')
  expect((await team.exited).code).toBe(1)
})
