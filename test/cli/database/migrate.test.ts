import { existsSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { openPlace } from '../../support/command-place.ts'
import { modeOf } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

const FOLDER = fileURLToPath(new URL('../../../migrations/sqlite', import.meta.url))

const NAMES = readdirSync(FOLDER)
  .sort()
  .map(file => basename(file, '.sql'))

const TIME = String.raw`\d{4}-\d\d-\d\dT[\d:.]{12}Z`

test('migrate --status lists what is pending and creates nothing; migrate applies it once', async () => {
  const { cwd, path, run } = openPlace()
  const migrate = (...args: string[]) => run('migrate', ...args)
  const asJson = async () => JSON.parse((await migrate('--status', '--json')).stdout)
  expect(await asJson()).toEqual(NAMES.map(name => ({ name, applied_at: null })))
  const stdout = NAMES.map(name => `${name}  pending\n`).join('')
  expect(await migrate('--status')).toEqual({ code: 0, stdout, stderr: '' })
  expect(readdirSync(cwd)).toEqual([])
  const first = await migrate()
  expect(first).toMatchObject({ code: 0, stderr: '' })
  const lines = NAMES.map(name => expect.stringMatching(`^${name}  applied ${TIME}$`))
  expect(first.stdout.trimEnd().split('\n')).toEqual(lines)
  expect(modeOf(path)).toBe(0o600)
  expect(await migrate()).toEqual(first)
  const applied = NAMES.map(name => ({ name, applied_at: expect.stringMatching(`^${TIME}$`) }))
  expect(await asJson()).toEqual(applied)
  expect(JSON.parse((await migrate('--json')).stdout)).toEqual(await asJson())
  // Also while the database is in use.
  const other = new Database(path)
  other.exec('BEGIN IMMEDIATE')
  expect(await migrate('--status')).toEqual(first)
  other.close()
})

test('migrate rejects wrong settings like serve', async () => {
  const cwd = temporaryFolder()
  const finished = await runCommand({ cwd, args: ['migrate'], env: { PORT: 'http' } })
  expect(finished).toMatchObject({ code: 1, stdout: '' })
  expect(finished.stderr).toMatch(/^PORT was "http"; it may be .*\n$/)
  expect(existsSync(join(cwd, 'data'))).toBe(false)
})

test.each(['--reindex', '--new-feed'])(
  'migrate refuses %s together with --status',
  async option => {
    const { code, stderr } = await openPlace().run('migrate', '--status', option)
    expect(code).toBe(2)
    expect(stderr).toContain(option)
  },
)
