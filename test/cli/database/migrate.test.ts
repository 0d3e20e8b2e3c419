import { existsSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { modeOf } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

const FOLDER = fileURLToPath(new URL('../../../migrations/sqlite', import.meta.url))

const NAMES = readdirSync(FOLDER)
  .sort()
  .map(file => basename(file, '.sql'))

const TIME = String.raw`\d{4}-\d\d-\d\dT[\d:.]{12}Z`

function migrateIn(cwd: string) {
  return (...args: string[]) => runCommand({ cwd, args: ['migrate', ...args] })
}

test('migrate --status lists what is pending and creates nothing; migrate applies it once', async () => {
  const cwd = temporaryFolder()
  const migrate = migrateIn(cwd)
  const asJson = async () => JSON.parse((await migrate('--status', '--json')).stdout)
  expect(await asJson()).toEqual(NAMES.map(name => ({ name, applied_at: null })))
  const stdout = NAMES.map(name => `${name}  pending\n`).join('')
  expect(await migrate('--status')).toEqual({ code: 0, stdout, stderr: '' })
  expect(readdirSync(cwd)).toEqual([])
  const first = await migrate()
  expect(first).toMatchObject({ code: 0, stderr: '' })
  const lines = NAMES.map(name => expect.stringMatching(`^${name}  applied ${TIME}$`))
  expect(first.stdout.trimEnd().split('\n')).toEqual(lines)
  const path = join(cwd, 'data', 'users.db')
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

test('migrate refuses --reindex together with --status', async () => {
  const { code, stderr } = await migrateIn(temporaryFolder())('--status', '--reindex')
  expect(code).toBe(2)
  expect(stderr).toContain('--reindex')
})
