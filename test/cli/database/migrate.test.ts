import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { modeOf } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

const MIGRATION_NAMES = readdirSync(
  fileURLToPath(new URL('../../../migrations/sqlite', import.meta.url)),
)
  .sort()
  .map(file => basename(file, '.sql'))

describe('migrate', () => {
  test('--status lists what is pending and creates nothing', async () => {
    const cwd = temporaryFolder()
    const finished = await runCommand({ cwd, args: ['migrate', '--status'] })
    expect(finished).toEqual({
      code: 0,
      stdout: MIGRATION_NAMES.map(name => `${name}  pending\n`).join(''),
      stderr: '',
    })
    expect(readdirSync(cwd)).toEqual([])
  })

  test.each([[[]], [['--status']], [['--json']]])(
    '%j fails for a database in memory',
    async flags => {
      const env = { DATABASE_URL: ':memory:' }
      const args = ['migrate', ...flags]
      const { code, stdout, stderr } = await runCommand({ cwd: temporaryFolder(), args, env })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory .+\n$/)
    },
  )

  test('applies what is pending, once, and --status says when', async () => {
    const cwd = temporaryFolder()
    const first = await runCommand({ cwd, args: ['migrate'] })
    expect(first).toMatchObject({ code: 0, stderr: '' })
    const lines = first.stdout.trimEnd().split('\n')
    expect(lines).toEqual(
      MIGRATION_NAMES.map(name =>
        expect.stringMatching(`^${name}  applied \\d{4}-\\d\\d-\\d\\dT[\\d:.]{12}Z$`),
      ),
    )
    expect(modeOf(join(cwd, 'data', 'users.db'))).toBe(0o600)
    expect(await runCommand({ cwd, args: ['migrate', '--status'] })).toEqual(first)
    expect(await runCommand({ cwd, args: ['migrate'] })).toEqual(first)
  })

  test('--json prints the same for programs, with and without --status', async () => {
    const cwd = temporaryFolder()
    const printed = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCommand({
        cwd,
        args: ['migrate', '--json', ...args],
      })
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return JSON.parse(stdout)
    }
    const named = (appliedAt: unknown) =>
      MIGRATION_NAMES.map(name => ({ name, applied_at: appliedAt }))
    expect(await printed('--status')).toEqual(named(null))
    const applied = await printed()
    expect(applied).toEqual(named(expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/)))
    expect(await printed('--status')).toEqual(applied)
  })

  test.each([{ args: ['migrate'] }, { args: ['migrate', '--status'] }])(
    '$args rejects a file that is not a database, and does not change it',
    async ({ args }) => {
      const cwd = temporaryFolder()
      const path = join(cwd, 'notes.txt')
      writeFileSync(path, 'to do: nothing\n')
      const finished = await runCommand({ cwd, args, env: { DATABASE_URL: 'notes.txt' } })
      expect(finished).toEqual({
        code: 1,
        stdout: '',
        stderr: 'DATABASE_URL was "notes.txt": it is not a SQLite database\n',
      })
      expect(readFileSync(path, 'utf8')).toBe('to do: nothing\n')
    },
  )

  test('rejects wrong settings like serve', async () => {
    const cwd = temporaryFolder()
    const finished = await runCommand({ cwd, args: ['migrate'], env: { PORT: 'http' } })
    expect(finished).toMatchObject({ code: 1, stdout: '' })
    expect(finished.stderr).toMatch(/^PORT was "http"; it may be .*\n$/)
    expect(existsSync(join(cwd, 'data'))).toBe(false)
  })
})
