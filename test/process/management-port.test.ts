import { expect, test } from 'vitest'
import { findFreePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { linesOf, spawnMain, spawnService } from '../support/spawn-service.ts'
import { until, untilPasses } from '../support/until.ts'

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
