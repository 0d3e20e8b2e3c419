import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
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
  const path = join(cwd, name)
  mkdirSync(join(cwd, 'sub'))
  writeFileSync(join(cwd, '.env'), `LIMITS_FILE="${name}"\n`)
  // The first load waits for a signal, which all other listeners of the process then have had.
  writeFileSync(
    path,
    `if (!globalThis.isLoaded) {
      globalThis.isLoaded = true
      const signalled = new Promise(resolve => process.once('SIGHUP', resolve))
      process.kill(process.pid, 'SIGHUP')
      await signalled
    }
    export default { blocklist: [{ name: 'first', userAgent: 'first' }] }`,
  )
  const service = await spawnService({ cwd })
  const statusOf = async (agent: string) => {
    const answer = await fetch(`${service.url}/users`, { headers: { 'User-Agent': agent } })
    await answer.arrayBuffer()
    return answer.status
  }
  const untilLogged = (msg: string, count: number) =>
    until(() => {
      const output = service.stdout()
      const lines = linesOf(output.slice(0, output.lastIndexOf('\n') + 1))
      const found = lines.filter(line => line.msg === msg)
      return found.length === count && found.at(-1)
    })

  await untilLogged('limits reloaded', 1)
  expect([await statusOf('first'), await statusOf('second')]).toEqual([403, 200])

  writeFileSync(path, `export default { blocklist: [{ name: 'second', userAgent: 'second' }] }`)
  service.process.kill('SIGHUP')
  expect(await untilLogged('limits reloaded', 2)).toMatchObject({
    level: 'info',
    ...{ came: ['blocklist "second"'], went: ['blocklist "first"'], changed: [] },
  })
  expect([await statusOf('first'), await statusOf('second')]).toEqual([200, 403])

  for (const [index, [text, mistake]] of WRONG_MODULES.entries()) {
    writeFileSync(path, text)
    service.process.kill('SIGHUP')
    const logged = await untilLogged(
      'limits file is invalid, keeping the previous rules',
      index + 1,
    )
    expect(logged).toMatchObject({ level: 'error', mistakes: [expect.stringMatching(mistake)] })
    expect(await statusOf('second')).toBe(403)
  }

  service.process.kill('SIGTERM')
  expect(await service.exited).toMatchObject({ code: 0, stderr: '' })
})
