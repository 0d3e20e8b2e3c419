import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { modeOf } from '../support/databases.ts'
import { findFreePort } from '../support/free-port.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { readProject } from '../support/project.ts'
import { linesOf, type SpawnedService, spawnMain, spawnService } from '../support/spawn-service.ts'
import { until, untilPasses } from '../support/until.ts'

test('--port and --host override the environment and .env, also without the word serve', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, '.env'), 'HOST=192.0.2.2\n')
  const env = { PORT: '1', HOST: '192.0.2.1' }
  for (const command of [['serve'], []]) {
    const args = [...command, '--port', '0', '--host=127.0.0.1']
    const service = await spawnService({ cwd, env, args })
    expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
  }
})

test('without settings the service keeps its data in ./data/users.db, which only its own user can read', async () => {
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd })
  expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  expect(readdirSync(cwd)).toEqual(['data'])
  expect(modeOf(join(cwd, 'data'))).toBe(0o700)
  const files = readdirSync(join(cwd, 'data'))
  expect(files).toContain('users.db')
  expect(files.map(file => modeOf(join(cwd, 'data', file)))).toEqual(files.map(() => 0o600))
})

test.each([
  [{ HOST: '0.0.0.0' }, 'listening beyond loopback without authentication'],
  [
    { HOST: '0.0.0.0', API_KEYS: 'required' },
    'API_KEYS is required, but there is no key: make one with keys create',
  ],
  [
    { DATABASE_URL: ':memory:', API_KEYS: 'required' },
    'API_KEYS is required, but there is no key: a database in memory can have none',
  ],
])('with %o warns: %s', async (env, warning) => {
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd, env })
  expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
  if ('DATABASE_URL' in env) expect(readdirSync(cwd)).toEqual([])
  expect((await warningsOf(service)).map(({ msg }) => msg)).toEqual([warning])
})

test('the log begins with version, database and number of rules, and has a JSON line for each request', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), '{"track":[{"path":"a"}],"safelist":[{"ip":"::1"}]}')
  const env = { LIMITS_FILE: 'limits.json', DATABASE_URL: 'the users.db' }
  const service = await spawnService({ cwd, env })
  for (const id of ['first', 'second']) {
    await fetch(`${service.url}/users`, { headers: { 'X-Request-Id': id } })
  }
  await until(() => service.stdout().includes('"second"'))
  const { version } = JSON.parse(readProject('package.json'))
  const time = expect.any(String)
  const msg = 'starting'
  expect(await logAfterStop(service)).toEqual([
    { level: 'info', time, msg, version, database: 'the users.db', rules: 2 },
    expect.objectContaining({ level: 'warn', msg: 'limits may not work as intended' }),
    expect.objectContaining({ msg: 'listening', docs: `${service.url}/docs` }),
    expect.objectContaining({ requestId: 'first' }),
    expect.objectContaining({ requestId: 'second' }),
    expect.objectContaining({ msg: 'stopping' }),
    expect.objectContaining({ msg: 'stopped' }),
  ])
})

test('the service warns of names that are not settings, and shows no value', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, '.env'), 'PROT=hush-hush\nLOG_LEVEL=info\n')
  const env = { DATABASE_URI: 'hush-hush', HOSTNAME: 'hush-hush', PORTABLE: '1' }
  const service = await spawnService({ cwd, env })
  const msg = 'unknown setting'
  expect(await warningsOf(service)).toMatchObject([
    { msg, variable: 'PROT', source: '.env' },
    { msg, variable: 'DATABASE_URI', source: 'environment', didYouMean: 'DATABASE_URL' },
  ])
  expect(service.stdout()).not.toContain('hush-hush')
})

test('MAX_CONNECTIONS is lowered to the limit of open files, so that idle connections lock no client out', async () => {
  const service = await spawnService({ cwd: temporaryFolder(), openFiles: 256 })
  const sockets = Array.from({ length: 400 }, () => connect(service.port, '127.0.0.1'))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  await Promise.all(
    sockets.map(socket => once(socket.on('error', () => {}).resume(), 'connect').catch(() => {})),
  )
  for (let newcomer = 0; newcomer < 5; newcomer++) {
    const response = await fetch(`${service.url}/users`, { headers: { Connection: 'close' } })
    expect(response.status).toBe(200)
  }
  const msg = 'MAX_CONNECTIONS lowered to fit the open files limit'
  const numbers = { openFiles: 256, maxConnections: 192, wanted: 10_000 }
  expect(await warningsOf(service)).toMatchObject([{ msg, ...numbers }])
})

test.each([
  [{ MAX_CONNECTIONS: '192' }, []],
  // Files are reserved for the connections of the other port.
  [{ MAX_CONNECTIONS: '192', MANAGEMENT_PORT: '0' }, [{ maxConnections: 128 }]],
])('with 256 open files, %o is warned of as %j', async (env, warnings) => {
  const service = await spawnService({ cwd: temporaryFolder(), openFiles: 256, env })
  expect(await warningsOf(service)).toMatchObject(warnings)
})

const isAboutListening = ({ msg }: Record<string, unknown>) => /listen/.test(String(msg))

test.each(['trace', 'fatal'])(
  'ports that the service picks are in the log at %s',
  async LOG_LEVEL => {
    const env = { MANAGEMENT_PORT: '0', LOG_LEVEL }
    const { url, stdout } = await spawnService({ cwd: temporaryFolder(), env })
    const [first, second] = await until(() => {
      const lines = linesOf(stdout()).filter(isAboutListening)
      return lines.length === 2 && lines
    })
    // Programs look for the first line with an address to find the public port.
    const host = '127.0.0.1'
    const { port } = new URL(url)
    expect(first).toMatchObject({ level: 'info', msg: 'listening', host, port: Number(port), url })
    const address = `http://127.0.0.1:${second?.port}`
    expect(second).toMatchObject({ msg: 'management port listens', host, url: address })
    expect((await fetch(`${address}/livez`)).status).toBe(200)
  },
)

test.each([
  ['info', ['listening', 'management port listens']],
  ['warn', []],
  ['silent', []],
])('ports of the settings are in the log at %s as %j', async (LOG_LEVEL, messages) => {
  const [port, managementPort] = [await findFreePort(), await findFreePort()]
  const env = { PORT: `${port}`, MANAGEMENT_PORT: `${managementPort}`, LOG_LEVEL }
  const { process: child, exited } = spawnMain({ cwd: temporaryFolder(), env })
  for (const each of [port, managementPort]) {
    await untilPasses(() => fetch(`http://127.0.0.1:${each}/livez`))
  }
  child.kill('SIGTERM')
  const { code, stdout, stderr } = await exited
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  if (LOG_LEVEL === 'silent') expect(stdout).toBe('')
  const found = linesOf(stdout).filter(isAboutListening)
  expect(found.map(({ msg }) => msg)).toEqual(messages)
})

async function warningsOf(service: SpawnedService): Promise<Record<string, unknown>[]> {
  return (await logAfterStop(service)).filter(({ level }) => level === 'warn')
}

async function logAfterStop(service: SpawnedService): Promise<Record<string, unknown>[]> {
  return linesOf((await service.end('SIGTERM')).stdout)
}
