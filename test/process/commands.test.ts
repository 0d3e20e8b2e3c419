import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createUserRecords } from '../../src/library.ts'
import { filesOf, makeDatabaseIn } from '../support/databases.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openPipe } from '../support/pipe.ts'
import { codeBlocks, readProject } from '../support/project.ts'
import { MAIN, run, spawnMain } from '../support/spawn-service.ts'
import { countIn, manyRows, ndjson } from '../support/transfer.ts'
import { until } from '../support/until.ts'

/** Of the folder docs/operations, in the order in which an operator needs them. */
const PAGES = ['backups.md', 'upgrades.md', 'keys.md']

const isLinux = process.platform === 'linux'

function folderOf(users: number): string {
  const cwd = temporaryFolder()
  makeDatabaseIn(cwd, { users })
  return cwd
}

test.skipIf(!isLinux).each([[['export']], [['export', '--help']]])(
  '%j on a full disk says so in one line',
  async args => {
    const stdoutTo = openSync('/dev/full', 'w')
    const stderr = 'standard output cannot be written (ENOSPC: no space left on device)\n'
    const { exited } = spawnMain({ cwd: folderOf(3), args, stdoutTo })
    expect(await exited).toMatchObject({ code: 1, stderr })
  },
)

test('export to a slow reader loses nothing', async () => {
  // The pipe is full of the first page, and the last page fits into the buffer of the stream.
  const cwd = folderOf(1050)
  const pipe = openPipe()
  const { process: child } = spawnMain({ cwd, args: ['export'], stdoutTo: pipe.writeEnd })
  let text = ''
  while (child.exitCode === null) {
    text += pipe.readNow(4096)
    await sleep(2)
  }
  text += pipe.readNow()
  const lines = text.split('\n').length - 1
  expect({ lines, code: child.exitCode }).toEqual({ lines: 1050, code: 0 })
})

test('export ends on a signal if its reader has stopped reading, and quietly if that is gone', async () => {
  const cwd = folderOf(20_000)
  const stdio = ['ignore', 'pipe', 'pipe'] as const
  const child = spawn(process.execPath, [MAIN, 'export'], { cwd, stdio: [...stdio] })
  await once(child.stdout as NonNullable<typeof child.stdout>, 'readable')
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([143, null])
  const other = spawnMain({ cwd, args: ['export'] })
  other.process.stdout?.once('data', () => other.process.stdout?.destroy())
  expect(await other.exited).toMatchObject({ code: 141, stderr: '' })
})

test('import ends at once by a signal while it waits for standard input, and goes on without a reader of its errors', async () => {
  const cwd = temporaryFolder()
  const child = spawnMain({ cwd, args: ['import', '-'], keepsInputOpen: true })
  child.process.stderr?.destroy()
  // It is read in chunks of 1 MiB. These are more than one.
  child.process.stdin?.write(ndjson([{}, ...manyRows(25_000)]))
  await until(() => countIn(cwd) >= 20_000)
  expect((await child.end('SIGTERM')).code).toBe(143)
})

test('docs/operations shows commands that work, in their order', async () => {
  const cwd = folderOf(10)
  mkdirSync(join(cwd, 'bin'))
  const command = join(cwd, 'bin', 'user-records-service')
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 })
  const steps = PAGES.flatMap(page => codeBlocks(readProject(`docs/operations/${page}`), 'sh'))
  const env = { PATH: `${join(cwd, 'bin')}:${process.env.PATH}`, HOME: process.env.HOME }
  let printed = ''
  for (const script of steps) {
    printed += (await promisify(execFile)('sh', ['-ec', script], { cwd, env })).stdout
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

test('compact and restore are refused while one process has the database open twice, until it closes both', async () => {
  const cwd = folderOf(3)
  expect(await run({ cwd, args: ['backup', 'saved.db'] })).toMatchObject({ code: 0 })
  const settings = { DATABASE_URL: join(cwd, 'data', 'users.db') }
  const first = await createUserRecords(settings)
  const second = await createUserRecords(settings)
  const commands = [['compact'], ['restore', 'saved.db']]
  try {
    for (const args of commands) {
      const { code, stderr } = await run({ cwd, args })
      expect([args, code, stderr]).toEqual([args, 1, expect.stringContaining('has it open')])
    }
    await second.close()
    for (const args of commands) expect(await run({ cwd, args })).toMatchObject({ code: 1 })
  } finally {
    await second.close()
    await first.close()
  }
  for (const args of commands) expect(await run({ cwd, args })).toMatchObject({ code: 0 })
})
