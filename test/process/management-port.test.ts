import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { describe, expect, onTestFinished, test } from 'vitest'
import { beginPost } from '../support/begin-post.ts'
import { findFreePort } from '../support/free-port.ts'
import { TOKEN } from '../support/management-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import {
  linesOf,
  run,
  type SpawnedService,
  spawnMain,
  spawnService,
} from '../support/spawn-service.ts'
import { until, untilPasses } from '../support/until.ts'

const LISTENS = /"url":"([^"]+)"[^\n]*"msg":"management port listens"/

/** The URL of the management port, by the log. */
function managementUrl(service: SpawnedService): string {
  return LISTENS.exec(service.stdout())?.[1] ?? ''
}

/** A server that is not this one. */
async function holdPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

test('without MANAGEMENT_PORT nothing else listens', async () => {
  const service = await spawnService({
    cwd: temporaryFolder(),
    env: { MANAGEMENT_HOST: '127.0.0.1', MANAGEMENT_TOKEN: TOKEN },
  })
  expect(service.stdout()).not.toContain('management')
})

test.each(['trace', 'info', 'error', 'fatal'])(
  'MANAGEMENT_PORT=0 picks a port, which the log names at %s',
  async LOG_LEVEL => {
    const env = { MANAGEMENT_PORT: '0', LOG_LEVEL }
    const service = await spawnService({ cwd: temporaryFolder(), env })
    await until(() => service.stdout().includes('"management port listens"}\n'))
    const lines = linesOf(service.stdout())
    const names = lines.map(({ msg }) => msg).filter(msg => /listen/.test(String(msg)))
    // Programs look for the first line with an address to find the public port.
    expect(names).toEqual(['listening', 'management port listens'])
    const { url, host, port } = lines.find(({ msg }) => msg === 'management port listens') ?? {}
    expect({ url, host }).toEqual({ url: `http://127.0.0.1:${port}`, host: '127.0.0.1' })
    expect((await fetch(`${url}/livez`)).status).toBe(200)
    expect(port).not.toBe(service.port)
  },
)

test.each([
  ['info', ['listening', 'management port listens']],
  ['warn', []],
  ['silent', []],
])('a port of the settings is logged at %s like the public one', async (LOG_LEVEL, messages) => {
  const [port, managementPort] = [await findFreePort(), await findFreePort()]
  const env = { PORT: `${port}`, MANAGEMENT_PORT: `${managementPort}`, LOG_LEVEL }
  const { process: child, stdout } = spawnMain({ cwd: temporaryFolder(), env })
  for (const each of [port, managementPort]) {
    await untilPasses(() => fetch(`http://127.0.0.1:${each}/livez`))
  }
  await until(
    () => stdout().split('"management port listens"').length - 1 === (messages.length && 1),
  )
  const logged = linesOf(stdout()).map(({ msg }) => msg)
  expect(logged.filter(msg => String(msg).includes('listen'))).toEqual(messages)
  child.kill('SIGKILL')
})

describe('the start ends with exit code 1 and one line', () => {
  test('that names MANAGEMENT_PORT if it is in use', async () => {
    const port = await holdPort()
    const env = { PORT: '0', MANAGEMENT_PORT: `${port}` }
    const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(
      new RegExp(
        `^MANAGEMENT_PORT was "${port}", but it is in use on 127\\.0\\.0\\.1; it may be a whole number .*\n$`,
      ),
    )
  })

  test('that names MANAGEMENT_HOST if it is no address of this machine', async () => {
    const env = { PORT: '0', MANAGEMENT_PORT: '0', MANAGEMENT_HOST: '192.0.2.1' }
    const { code, stdout, stderr } = await run({
      cwd: temporaryFolder(),
      env: { ...env, MANAGEMENT_TOKEN: TOKEN },
    })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(
      /^MANAGEMENT_HOST was "192\.0\.2\.1", but it cannot be listened on \(EADDRNOTAVAIL\); it may be .*\n$/,
    )
  })

  test('that names PORT if that one is in use, and the management port is closed again', async () => {
    const port = await holdPort()
    const env = { PORT: `${port}`, MANAGEMENT_PORT: '0', LOG_LEVEL: 'trace' }
    const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^PORT was "\d+", but it is in use on 127\.0\.0\.1; .*\n$/)
  })

  test('that names both ports if they are the same', async () => {
    const port = `${await findFreePort()}`
    const env = { PORT: port, MANAGEMENT_PORT: port }
    const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(
      /^PORT was "\d+", but it is in use on 127\.0\.0\.1, and MANAGEMENT_PORT is the same; .*\n$/,
    )
  })

  const elsewhere = Object.values(networkInterfaces())
    .flat()
    .find(known => known?.internal === false && known.family === 'IPv4')?.address
  test.each(['0.0.0.0', '::', ...(elsewhere === undefined ? [] : [elsewhere])])(
    'without a token on %s',
    async host => {
      const env = { PORT: '0', MANAGEMENT_PORT: '0', MANAGEMENT_HOST: host }
      const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toBe(
        `MANAGEMENT_HOST was "${host}", but MANAGEMENT_TOKEN, which it needs beyond loopback, is not set; it may be an IP address or a host name to listen on\n`,
      )
    },
  )

  test('for a token of fewer than 16 characters, which it does not show, on loopback too', async () => {
    const token = 'fifteen-letters'
    for (const host of ['127.0.0.1', '0.0.0.0']) {
      const { code, stdout, stderr } = await run({
        cwd: temporaryFolder(),
        env: { PORT: '0', MANAGEMENT_PORT: '0', MANAGEMENT_HOST: host, MANAGEMENT_TOKEN: token },
      })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(
        /^MANAGEMENT_TOKEN was "\*\*\*"; it may be 16 to 1000 characters .*\n$/,
      )
    }
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

test.each(['0.0.0.0', 'localhost'])('with a token it listens on %s', async host => {
  const service = await spawnService({
    cwd: temporaryFolder(),
    env: { MANAGEMENT_PORT: '0', MANAGEMENT_HOST: host, MANAGEMENT_TOKEN: TOKEN },
  })
  const { port } = new URL(managementUrl(service))
  const get = (headers: Record<string, string>) =>
    fetch(`http://localhost:${port}/nowhere`, { headers })
  expect((await get({})).status).toBe(401)
  expect((await get({ Authorization: `Bearer ${TOKEN}` })).status).toBe(404)
  expect(service.stdout()).not.toContain(TOKEN)
})

test('localhost needs no token', async () => {
  const env = { MANAGEMENT_PORT: '0', MANAGEMENT_HOST: 'localhost' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  expect(managementUrl(service)).toMatch(/^http:\/\/(127\.0\.0\.1|\[::1\]):\d+$/)
})

test('it answers until the last request of a client is answered, and says that it is not ready', async () => {
  const service = await spawnService({
    cwd: temporaryFolder(),
    env: { MANAGEMENT_PORT: '0', SHUTDOWN_TIMEOUT: '1 minute' },
  })
  const url = managementUrl(service)
  const post = await beginPost(service.port)
  service.process.kill('SIGTERM')
  await until(async () => (await fetch(`${url}/readyz`)).status === 503)
  const verbose = await fetch(`${url}/readyz?verbose=true`)
  expect(verbose.headers.get('retry-after')).toBe('1')
  expect(await verbose.json()).toEqual({
    status: 'unavailable',
    checks: {
      service: { status: 'unavailable' },
      storage: { status: 'ok' },
    },
  })
  expect((await fetch(`${url}/livez`)).status).toBe(200)
  post.finish()
  const { code, stdout } = await service.exited
  expect(code).toBe(0)
  expect(linesOf(stdout).at(-1)?.msg).toBe('stopped')
  await expect(fetch(`${url}/livez`)).rejects.toThrow()
})

test('files are reserved for its connections', async () => {
  const cwd = temporaryFolder()
  const wanted = async (env: Record<string, string>) => {
    const { stdout } = await spawnService({ cwd, env, openFiles: 1000 })
    const line = linesOf(stdout()).find(({ maxConnections }) => maxConnections !== undefined)
    return line?.maxConnections
  }
  expect(await wanted({})).toBe(1000 - 64)
  expect(await wanted({ MANAGEMENT_PORT: '0' })).toBe(1000 - 64 - 64)
})
