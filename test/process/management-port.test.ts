import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { beginPost } from '../support/begin-post.ts'
import { findFreePort } from '../support/free-port.ts'
import { BEARER, TOKEN } from '../support/management-requests.ts'
import { findManagementUrl, temporaryFolder } from '../support/open-test-app.ts'
import {
  linesOf,
  run,
  type SpawnedService,
  spawnMain,
  spawnService,
} from '../support/spawn-service.ts'
import { until, untilPasses } from '../support/until.ts'

/** The URL of the management port, by the log. */
function managementUrl(service: SpawnedService): Promise<string> {
  return until(() => {
    const complete = service.stdout().replace(/[^\n]*$/, '')
    return findManagementUrl(linesOf(complete))
  })
}

/** The port of a server that is not this one. */
async function holdPort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return `${(server.address() as AddressInfo).port}`
}

test.each(['trace', 'fatal'])(
  'MANAGEMENT_PORT=0 picks a port, which the log names at %s',
  async LOG_LEVEL => {
    const env = { MANAGEMENT_PORT: '0', LOG_LEVEL }
    const service = await spawnService({ cwd: temporaryFolder(), env })
    const found = await managementUrl(service)
    const lines = linesOf(service.stdout()).filter(({ msg }) => /listen/.test(String(msg)))
    // Programs look for the first line with an address to find the public port.
    expect(lines.map(({ msg }) => msg)).toEqual(['listening', 'management port listens'])
    const { url, host, port } = lines[1] ?? {}
    expect({ url, host }).toEqual({ url: `http://127.0.0.1:${port}`, host: '127.0.0.1' })
    expect((await fetch(`${found}/livez`)).status).toBe(200)
    expect(port).not.toBe(service.port)
  },
)

test.each([
  ['info', ['listening', 'management port listens']],
  ['warn', []],
])('a port of the settings is logged at %s like the public one', async (LOG_LEVEL, messages) => {
  const [port, managementPort] = [await findFreePort(), await findFreePort()]
  const env = { PORT: `${port}`, MANAGEMENT_PORT: `${managementPort}`, LOG_LEVEL }
  const { process: child, stdout, exited } = spawnMain({ cwd: temporaryFolder(), env })
  for (const each of [port, managementPort]) {
    await untilPasses(() => fetch(`http://127.0.0.1:${each}/livez`))
  }
  child.kill('SIGTERM')
  await exited
  const logged = linesOf(stdout()).map(({ msg }) => msg)
  expect(logged.filter(msg => String(msg).includes('listen'))).toEqual(messages)
})

describe('the start ends with exit code 1 and one line', () => {
  const IN_USE = 'but it is in use on 127\\.0\\.0\\.1'
  const NO_TOKEN = 'but MANAGEMENT_TOKEN, which it needs beyond loopback, is not set'

  test.each<[string, (held: string, free: string) => Record<string, string>, string]>([
    [
      'that names MANAGEMENT_PORT if it is in use',
      held => ({ MANAGEMENT_PORT: held }),
      `MANAGEMENT_PORT was "\\d+", ${IN_USE}; it may be a whole number .*`,
    ],
    [
      'that names MANAGEMENT_HOST if it is no address of this machine',
      () => ({ MANAGEMENT_HOST: '192.0.2.1', MANAGEMENT_TOKEN: TOKEN }),
      'MANAGEMENT_HOST was "192\\.0\\.2\\.1", but it cannot be listened on \\(EADDRNOTAVAIL\\); it may be .*',
    ],
    [
      'that names PORT if that one is in use, and the management port is closed again',
      held => ({ PORT: held, LOG_LEVEL: 'trace' }),
      `PORT was "\\d+", ${IN_USE}; .*`,
    ],
    [
      'that names both ports if they are the same',
      (_held, free) => ({ PORT: free, MANAGEMENT_PORT: free }),
      `PORT was "\\d+", ${IN_USE}, and MANAGEMENT_PORT is the same; .*`,
    ],
    [
      'without a token beyond loopback',
      () => ({ MANAGEMENT_HOST: '::' }),
      `MANAGEMENT_HOST was "::", ${NO_TOKEN}; it may be an IP address or a host name to listen on`,
    ],
    [
      'for a short token, which it does not show, on loopback too',
      () => ({ MANAGEMENT_TOKEN: 'fifteen-letters' }),
      'MANAGEMENT_TOKEN was "\\*\\*\\*"; it may be 16 to 1000 characters .*',
    ],
  ])('%s', async (_what, settings, line) => {
    const changes = settings(await holdPort(), `${await findFreePort()}`)
    const env = { PORT: '0', MANAGEMENT_PORT: '0', ...changes }
    const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^${line}\n$`))
  })
})

test('a missing token beyond loopback is listed with other wrong settings, before a database is made', async () => {
  const cwd = temporaryFolder()
  const env = { PORT: 'none', MANAGEMENT_PORT: '0', MANAGEMENT_HOST: '0.0.0.0' }
  const { code, stderr } = await run({ cwd, env })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^PORT was "none"; .*\nMANAGEMENT_HOST was "0\.0\.0\.0", but .*\n$/)
  expect(readdirSync(cwd)).toEqual([])
})

test('it answers until the last request of a client is answered, and says that it is not ready', async () => {
  const service = await spawnService({
    cwd: temporaryFolder(),
    env: { MANAGEMENT_PORT: '0', SHUTDOWN_TIMEOUT: '1 minute' },
  })
  const url = await managementUrl(service)
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')
  await until(async () => (await fetch(`${url}/readyz`)).status === 503)
  expect((await fetch(`${url}/livez`)).status).toBe(200)
  post.finish()
  const { code, stdout } = await service.exited
  expect(code).toBe(0)
  expect(linesOf(stdout).at(-1)?.msg).toBe('stopped')
  await expect(fetch(`${url}/livez`)).rejects.toThrow()
})

test('files are reserved for its connections', async () => {
  const env = { MANAGEMENT_PORT: '0' }
  const { stdout } = await spawnService({ cwd: temporaryFolder(), env, openFiles: 1000 })
  const line = linesOf(stdout()).find(({ maxConnections }) => maxConnections !== undefined)
  expect(line?.maxConnections).toBe(1000 - 64 - 64)
})

test('twenty reloads at once, some by SIGHUP, end with the newest file in force', async () => {
  const cwd = temporaryFolder()
  const limitsPath = join(cwd, 'limits.json')
  const write = (name: string) =>
    writeFileSync(limitsPath, JSON.stringify({ throttle: [{ name, limit: 1, period: 60 }] }))
  write('first')
  const env = { MANAGEMENT_PORT: '0', MANAGEMENT_TOKEN: TOKEN, LIMITS_FILE: limitsPath }
  const service = await spawnService({ cwd, env })
  const url = await managementUrl(service)
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, number) => {
      write(`of ${number}`)
      if (number % 5 === 0) service.process.kill('SIGHUP')
      return fetch(`${url}/limits/reload`, { method: 'POST', headers: BEARER })
    }),
  )
  expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
  const rules = (await (await fetch(`${url}/limits`, { headers: BEARER })).json()) as object[]
  expect(rules).toEqual([expect.objectContaining({ rule: 'of 19' })])
  expect(service.stdout()).not.toContain(TOKEN)
})
