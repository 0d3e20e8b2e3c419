import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../faults/databases.ts'
import { emailsIn, execute, filesOf } from '../support/databases.ts'
import { fillDatabase } from '../support/fill-users.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openPipe } from '../support/pipe.ts'
import { runCommand } from '../support/run-command.ts'
import { MAIN, run, spawnMain } from '../support/spawn-service.ts'
import { countIn } from '../support/transfer.ts'
import { until } from '../support/until.ts'

const GUIDE = fileURLToPath(new URL('../../docs/operations.md', import.meta.url))

const MANY = 20_000

const isLinux = process.platform === 'linux'

/** A folder with a database of many users and bans. */
async function folderOfMany(): Promise<string> {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, MANY)
  const ban = `'login', i || '@example.com', ${Date.now() + 3_600_000}`
  execute(
    join(cwd, 'data', 'users.db'),
    `WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < ${MANY})
     INSERT INTO bans (rule, client_key, ends_at) SELECT ${ban} FROM serial`,
  )
  return cwd
}

test.each([
  [['version'], 0],
  [['import', '-'], 3],
  [['check'], 0],
  [['migrate', '--json'], 0],
  [['keys', 'list', '--all'], 2],
  [['export', 'no/users.csv'], 1],
])('%j prints the same as in the process of a test, with exit code %i', async (args, code) => {
  const cwd = temporaryFolder()
  await run({ cwd, args: ['migrate'] })
  const input = '{}\n'
  const timeless = (text: string) => text.replace(/\d+ rows\/s|\d+ s,/g, 'TIME')
  const spawned = await run({ cwd, args, input })
  const called = await runCommand({ cwd, args, input })
  expect(spawned.code).toBe(code)
  expect({ ...spawned, stdout: timeless(spawned.stdout) }).toEqual({
    ...called,
    stdout: timeless(called.stdout),
  })
})

test.skipIf(!isLinux).each([[['export']], [['export', '--format', 'csv']], [['export', '--help']]])(
  '%j on a full disk says so in one line',
  async args => {
    const cwd = temporaryFolder()
    await fillDatabase(cwd, 3)
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd,
      stdio: ['ignore', full, 'pipe'],
    })
    closeSync(full)
    let stderr = ''
    child.stderr?.on('data', chunk => {
      stderr += chunk
    })
    const [code] = await once(child, 'close')
    const line = 'standard output cannot be written (ENOSPC: no space left on device)\n'
    expect({ code, stderr }).toEqual({ code: 1, stderr: line })
  },
)

test('export to a slow reader loses nothing', async () => {
  const cwd = temporaryFolder()
  // The pipe is full of the first page, and the last page fits into the buffer of the stream.
  await fillDatabase(cwd, 1050)
  const pipe = openPipe()
  const stdio = ['ignore', pipe.writeEnd, 'inherit'] as const
  const child = spawn(process.execPath, [MAIN, 'export'], { cwd, stdio: [...stdio] })
  closeSync(pipe.writeEnd)
  let text = ''
  while (child.exitCode === null) {
    text += pipe.readNow(4096)
    await sleep(2)
  }
  text += pipe.readNow()
  const lines = text.split('\n').length - 1
  expect({ lines, code: child.exitCode }).toEqual({ lines: 1050, code: 0 })
})

test('export to a reader that has stopped reading ends on a signal', async () => {
  const cwd = await folderOfMany()
  const stdio = ['ignore', 'pipe', 'pipe'] as const
  const child = spawn(process.execPath, [MAIN, 'export'], { cwd, stdio: [...stdio] })
  await once(child.stdout as NonNullable<typeof child.stdout>, 'readable')
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([143, null])
})

test.each([[['export']], [['bans', 'list']]])(
  '%j to a reader that is gone ends quietly',
  async args => {
    const child = spawnMain({ cwd: await folderOfMany(), args })
    child.process.stdout?.once('data', () => child.process.stdout?.destroy())
    expect(await child.exited).toMatchObject({ code: 141, stderr: '' })
  },
)

test('import whose standard error nobody reads continues to its end', async () => {
  const cwd = temporaryFolder()
  const child = spawnMain({ cwd, args: ['import', '-'], keepsInputOpen: true })
  child.process.stderr?.destroy()
  child.process.stdin?.write('{}\n{"name":"Ann","email":"ann@example.com"}\n')
  // By now it has met the closed pipe.
  await until(() => countIn(cwd) === 1)
  child.process.stdin?.end('{}\n{"name":"Bea","email":"bea@example.com"}\n')
  expect(await child.exited).toMatchObject({
    code: 3,
    stdout: expect.stringMatching(/^4 rows, 2 created, 2 rejected; /),
  })
})

test('import ends at once by a signal while it waits for standard input', async () => {
  const cwd = temporaryFolder()
  const child = spawnMain({ cwd, args: ['import', '-'], keepsInputOpen: true })
  child.process.stdin?.write('{"name":"Ann","email":"ann@example.com"}\n')
  await until(() => countIn(cwd) === 1)
  child.process.kill('SIGTERM')
  expect((await child.exited).code).toBe(143)
})

/** Another program that has locked a database of three users, which is not in WAL mode. */
function lockedPlace() {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  makeDatabase(path, { users: 3 })
  const locker = new Database(path)
  onTestFinished(() => {
    locker.close()
  })
  locker.exec('BEGIN EXCLUSIVE')
  return { cwd, path, locker }
}

/** Resolves once the process has opened the file; at once where no system call shows it. */
async function untilOpen(pid: number | undefined, path: string): Promise<void> {
  if (!isLinux) return
  const targetOf = (fd: string) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`)
    } catch {
      return undefined
    }
  }
  await until(() => readdirSync(`/proc/${pid}/fd`).map(targetOf).includes(path), 1)
}

test('backup waits for a short lock of another process', async () => {
  const { cwd, path, locker } = lockedPlace()
  const child = spawnMain({ cwd, args: ['backup', 'copy.db'] })
  await untilOpen(child.process.pid, path)
  locker.exec('COMMIT')
  expect((await child.exited).code).toBe(0)
  expect(emailsIn(join(cwd, 'copy.db'))).toHaveLength(3)
})

test('check ends at once by a signal, also while SQLite waits for a lock', async () => {
  const { cwd, path } = lockedPlace()
  const child = spawnMain({ cwd, args: ['check'] })
  await untilOpen(child.process.pid, path)
  child.process.kill('SIGTERM')
  expect(await child.exited).toEqual({ code: null, stdout: '', stderr: '' })
  expect(child.process.signalCode).toBe('SIGTERM')
})

test('docs/operations.md shows commands that work, in their order', async () => {
  const cwd = temporaryFolder()
  makeDatabase(join(cwd, 'data', 'users.db'), { users: 10 })
  mkdirSync(join(cwd, 'backups'))
  mkdirSync(join(cwd, 'bin'))
  const command = join(cwd, 'bin', 'user-records-service')
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 })
  const steps = [...readFileSync(GUIDE, 'utf8').matchAll(/^```sh\n([\s\S]*?)^```/gm)]
  const env = { PATH: `${join(cwd, 'bin')}:${process.env.PATH}`, HOME: process.env.HOME }
  let printed = ''
  for (const [, script = ''] of steps) {
    const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd, env })
    printed += stdout
  }
  expect(steps).toHaveLength(9)
  expect(printed.match(/: sound$/gm)).toHaveLength(2)
  expect(printed.match(/^urk_\w+$/gm)).toHaveLength(2)
  expect(printed).toMatch(/^revoked: web-2026$/m)
  expect(printed).toMatch(/ MB before, \S+ MB now$/m)
  expect(filesOf(join(cwd, 'data', 'users.db'))).toHaveLength(2)
  for (const folder of ['backups', 'copies', 'elsewhere']) {
    expect(filesOf(join(cwd, folder, 'users.db'))).toEqual(['users.db'])
  }
})
