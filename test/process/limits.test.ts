import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { managementUrlOf } from '../support/service-pair.ts'
import { linesOf, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

// Tests load modules by Vite, whose messages are others than those of Node.
const WRONG_MODULES = [
  ['throw null', /^the file cannot be read \(null\)$/],
  ['import "node:fs"\nexport default { bans: }\n', /^the file cannot be read \(.*'}'.*\)$/],
  ['import { nothing } from "node:fs"', /^the file cannot be read \(.*nothing.*\)$/],
] as const

test('the built service takes LIMITS_FILE from .env and its working directory, and reads it again on SIGHUP', async () => {
  const cwd = temporaryFolder()
  const name = 'sub/limits # 100% (new)?.mjs'
  mkdirSync(join(cwd, 'sub'))
  const write = (text: string) => writeFileSync(join(cwd, name), text)
  const blocking = (agent: string) =>
    `export default { blocklist: [{ name: '${agent}', userAgent: '${agent}' }] }`
  writeFileSync(join(cwd, '.env'), `LIMITS_FILE="${name}"\n`)
  // The first load waits for a signal, which all other listeners of the process then have had.
  write(`if (!globalThis.isLoaded) {
      globalThis.isLoaded = true
      const signalled = new Promise(resolve => process.once('SIGHUP', resolve))
      process.kill(process.pid, 'SIGHUP')
      await signalled
    }
    ${blocking('first')}`)
  const service = await spawnService({ cwd, env: { MANAGEMENT_PORT: '0' } })
  const statusesOf = (...agents: readonly string[]) =>
    Promise.all(
      agents.map(async agent => {
        const headers = { 'User-Agent': agent }
        return (await fetch(`${service.url}/users`, { headers })).status
      }),
    )
  const untilLogged = (msg: string, count: number) =>
    until(() => {
      const found = linesOf(service.stdout()).filter(line => line.msg === msg)
      return found.length === count && found.at(-1)
    })
  await untilLogged('limits reloaded', 1)
  expect(await statusesOf('first', 'second')).toEqual([403, 200])

  write(blocking('second'))
  service.process.kill('SIGHUP')
  const changes = { came: ['blocklist "second"'], went: ['blocklist "first"'], changed: [] }
  expect(await untilLogged('limits reloaded', 2)).toMatchObject({ level: 'info', ...changes })
  expect(await statusesOf('first', 'second')).toEqual([200, 403])

  const invalid = 'limits file is invalid, keeping the previous rules'
  for (const [index, [text, mistake]] of WRONG_MODULES.entries()) {
    write(text)
    service.process.kill('SIGHUP')
    const mistakes = [expect.stringMatching(mistake)]
    expect(await untilLogged(invalid, index + 1)).toMatchObject({ level: 'error', mistakes })
    expect(await statusesOf('second')).toEqual([403])
  }

  // Many at once, by both ways, end with the newest file in force.
  const reloads = Array.from({ length: 20 }, (_, number) => {
    write(blocking(`of ${number}`))
    if (number % 5 === 0) service.process.kill('SIGHUP')
    return fetch(`${managementUrlOf(service)}/limits/reload`, { method: 'POST' })
  })
  expect((await Promise.all(reloads)).map(({ status }) => status)).toEqual(Array(20).fill(200))
  expect(await statusesOf('of 0', 'of 18', 'of 19')).toEqual([200, 200, 403])
  expect(await service.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' })
})
