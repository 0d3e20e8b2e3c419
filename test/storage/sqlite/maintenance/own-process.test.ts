import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../../support/open-test-app.ts'
import { spawnMain } from '../../../support/spawn-service.ts'
import { until } from '../../../support/until.ts'

const isLinux = process.platform === 'linux'
if (!isLinux)
  console.log(
    'test/storage/sqlite/maintenance/own-process.test.ts is skipped: it needs /proc of Linux',
  )

/** A command whose child process waits forever for the first byte of its database, which is a pipe. */
async function startBlocked(command: string) {
  const cwd = temporaryFolder()
  execFileSync('mkfifo', [join(cwd, 'pipe')])
  const main = spawnMain({ cwd, args: [command], env: { DATABASE_URL: 'pipe' } })
  const pid = main.process.pid
  const children = () => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  await until(() => children() !== '', 5)
  const status = `/proc/${Number(children())}/status`
  const isRunning = () => existsSync(status) && !/^State:\tZ/m.test(readFileSync(status, 'utf8'))
  return { main, isRunning }
}

test.runIf(isLinux).each(['check', 'compact'])(
  'a killed %s leaves no process running',
  async command => {
    const { main, isRunning } = await startBlocked(command)
    main.process.kill('SIGKILL')
    await main.exited
    await until(() => !isRunning(), 5)
  },
)

test.runIf(isLinux).each([
  ['check', 'SIGINT', 130],
  ['compact', 'SIGTERM', 143],
] as const)(
  '%s ended by %s exits with %d, and leaves no process',
  async (command, signal, code) => {
    const { main, isRunning } = await startBlocked(command)
    main.process.kill(signal)
    expect(await main.exited).toEqual({ code, stdout: '', stderr: '' })
    await until(() => !isRunning(), 5)
  },
)
