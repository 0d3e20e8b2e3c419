import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { modeOf } from '../support/databases.ts'
import { createUser } from '../support/fill-users.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN, type SpawnedService, spawnService } from '../support/spawn-service.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

/** A pause between attempts, because nothing reports when a process begins to listen on a port. */
const POLL_MS = 20

describe('serve', () => {
  test('--port and --host override the environment and .env, also without the word serve', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, '.env'), 'HOST=192.0.2.2\n')
    const { port } = await holdPort()
    const env = { PORT: `${port}`, HOST: '192.0.2.1' }
    for (const command of [['serve'], []]) {
      const args = [...command, '--port', '0', '--host=127.0.0.1']
      const service = await spawnService({ cwd, env, args })
      expect(service.port).not.toBe(port)
      expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
    }
  })

  test('logs a JSON line for each request', async () => {
    const service = await spawnService({ cwd: temporaryFolder(), args: ['serve'] })
    const ids = ['first', 'second', 'third']
    for (const id of ids) {
      await fetch(`${service.url}/users`, { headers: { 'X-Request-Id': id } })
    }
    const lines = await logAfterStop(service)
    expect(lines.flatMap(({ requestId }) => requestId ?? [])).toEqual(ids)
  })

  test('without settings keeps its data in ./data/users.db, which only its own user can read', async () => {
    const cwd = temporaryFolder()
    const { url } = await spawnService({ cwd })
    expect((await createUser(url)).status).toBe(201)
    expect(readdirSync(cwd)).toEqual(['data'])
    expect(modeOf(join(cwd, 'data'))).toBe(0o700)
    const files = readdirSync(join(cwd, 'data'))
    expect(files).toContain('users.db')
    expect(files.map(file => modeOf(join(cwd, 'data', file)))).toEqual(files.map(() => 0o600))
  })

  test('reads .env in the working directory, and the environment overrides it', async () => {
    const cwd = temporaryFolder()
    const lines = ['DATABASE_URL=from-dotenv.db', 'PORT=1', 'LOG_LEVEL=debug', 'BODY_LIMIT=20b']
    writeFileSync(join(cwd, '.env'), lines.join('\n'))
    const { url } = await spawnService({ cwd, env: { PORT: '0', LOG_LEVEL: '' } })
    expect(readdirSync(cwd)).toContain('from-dotenv.db')
    expect((await createUser(url)).status).toBe(413)
  })

  test('with DATABASE_URL=:memory: creates no file', async () => {
    const cwd = temporaryFolder()
    const { url } = await spawnService({ cwd, env: { DATABASE_URL: ':memory:' } })
    expect((await createUser(url)).status).toBe(201)
    expect(readdirSync(cwd)).toEqual([])
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
    const service = await spawnService({ cwd: temporaryFolder(), env })
    expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings.map(({ msg }) => msg)).toEqual([warning])
  })

  test('begins its log with its version, its database and the number of its rules', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'limits.json'), '{"track":[{"path":"a"}],"safelist":[{"ip":"::1"}]}')
    const env = { LIMITS_FILE: 'limits.json', DATABASE_URL: 'token=hush-hush.db' }
    const [first, warning, second] = await logAfterStop(await spawnService({ cwd, env }))
    const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    expect(first).toEqual({
      level: 'info',
      time: expect.any(String),
      msg: 'starting',
      version,
      database: 'token=***',
      rules: 2,
    })
    expect(warning).toMatchObject({ level: 'warn', msg: 'limits may not work as intended' })
    expect(second).toMatchObject({ msg: 'listening', docs: expect.stringMatching(/\d\/docs$/) })
  })

  test('warns of names that are not settings or no longer, and shows no value', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, '.env'), 'PROT=hush-hush\nLOG_LEVEL=info\nWORKERS=2\n')
    const env = { DATABASE_URI: 'hush-hush', HOSTNAME: 'hush-hush', PORTABLE: '1' }
    const service = await spawnService({ cwd, env })
    const lines = await logAfterStop(service)
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({ msg: 'unknown setting', variable: 'PROT', source: '.env' }),
      expect.objectContaining({
        variable: 'WORKERS',
        msg: expect.stringMatching(/^WORKERS is no longer a setting: .* run the service several/),
      }),
      expect.objectContaining({
        msg: 'unknown setting',
        variable: 'DATABASE_URI',
        source: 'environment',
        didYouMean: 'DATABASE_URL',
      }),
    ])
    expect(service.stdout()).not.toContain('hush-hush')
  })

  test.each(['fatal', 'error', 'warn', 'info', 'debug', 'trace'])(
    'with PORT=0 and LOG_LEVEL=%s prints its port',
    async level => {
      const env = { LOG_LEVEL: level }
      const service = await spawnService({ cwd: temporaryFolder(), env })
      expect((await fetch(`${service.url}/livez`)).status).toBe(200)
      const lines = await logAfterStop(service)
      expect(lines.filter(({ msg }) => msg === 'listening')).toEqual([
        expect.objectContaining({
          ...{ level: 'info', host: '127.0.0.1', port: service.port, url: service.url },
        }),
      ])
      expect(service.url).toBe(`http://127.0.0.1:${service.port}`)
      expect(lines.filter(({ level }) => level === 'warn')).toEqual([])
      if (['fatal', 'error', 'warn'].includes(level)) expect(lines).toHaveLength(1)
    },
  )

  test('lowers MAX_CONNECTIONS to the limit of open files, so that idle connections lock no client out', async () => {
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
    expect((await createUser(service.url)).status).toBe(201)
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings).toEqual([
      expect.objectContaining({
        msg: 'MAX_CONNECTIONS lowered to fit the open files limit',
        openFiles: 256,
        maxConnections: 192,
        wanted: 10_000,
      }),
    ])
  })

  test('keeps MAX_CONNECTIONS if the limit of open files allows it', async () => {
    const options = { cwd: temporaryFolder(), openFiles: 256, env: { MAX_CONNECTIONS: '192' } }
    const lines = await logAfterStop(await spawnService(options))
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([])
  })

  test('with LOG_LEVEL=silent prints nothing', async () => {
    // A port that is free now may be taken by another process until the service listens.
    while (!(await isSilentOn(await freePort())));
  })
})

async function freePort(): Promise<number> {
  const { port, release } = await holdPort()
  await release()
  return port
}

/** False if another process has the port. */
async function isSilentOn(port: number): Promise<boolean> {
  const child = spawn(process.execPath, [MAIN], {
    cwd: temporaryFolder(),
    env: { PATH: process.env.PATH, PORT: `${port}`, LOG_LEVEL: 'silent' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const printed: unknown[] = []
  child.stdout.on('data', chunk => printed.push(chunk))
  child.stderr.on('data', chunk => printed.push(chunk))
  const closed = once(child, 'close')
  while (child.exitCode === null && !(await answers(`http://127.0.0.1:${port}/users`))) {
    await sleep(POLL_MS)
  }
  child.kill('SIGTERM')
  const [code] = await closed
  if (printed.join('').includes('it is in use')) return false
  expect({ code, printed }).toEqual({ code: 0, printed: [] })
  return true
}

/** A port that is taken until the test is over, or until it is released. */
async function holdPort(): Promise<{ port: number; release: () => Promise<unknown> }> {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, release: () => once(server.close(), 'close') }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    response => response.ok,
    () => false,
  )
}

/** Each line of the log, up to its end. */
async function logAfterStop(service: SpawnedService): Promise<Record<string, unknown>[]> {
  service.process.kill('SIGTERM')
  const { stdout } = await service.exited
  return stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}
