import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'

const PACKAGE = new URL('../../package.json', import.meta.url)

describe('the command line', () => {
  test('--help lists the commands, the place of the settings, and the exit codes', async () => {
    const { stdout } = await runCommand({ cwd: temporaryFolder(), args: ['--help'] })
    for (const word of ['serve', 'migrate', '.env.example', 'Exit codes']) {
      expect(stdout).toContain(word)
    }
    const codes = [...stdout.matchAll(/^ {2}(\d+) +\S/gm)].map(([, code]) => Number(code))
    expect(codes).toEqual([0, 1, 2, 3, 130, 141, 143])
  })

  test.each(['--version', 'serve -v', 'version'])(
    '%s prints the version of the package',
    async line => {
      const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8'))
      const finished = await runCommand({ cwd: temporaryFolder(), args: line.split(' ') })
      expect(finished).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    },
  )

  test.each(['', 'serve', 'limits', 'limits test', 'bans add', 'help'])(
    'help %s prints the same usage as --help and -h',
    async command => {
      const cwd = temporaryFolder()
      const words = command.split(' ').filter(word => word !== '')
      const helped = await runCommand({ cwd, args: ['help', ...words] })
      expect(helped).toMatchObject({ code: 0, stderr: '' })
      expect(helped.stdout).toMatch(new RegExp(`^Usage: user-records-service ${command}`))
      for (const option of ['--help', '-h']) {
        expect(await runCommand({ cwd, args: [...words, option] })).toEqual(helped)
      }
      expect(readdirSync(cwd)).toEqual([])
    },
  )

  test.each([
    ['start', 'unknown command "start"', ''],
    ['sevre', 'unknown command "sevre" (Did you mean serve?)', ''],
    ['imort users.csv', 'unknown command "imort" (Did you mean import?)', ''],
    ['-p 80', "unknown option '-p'", 'serve'],
    ['--status=yes migrate', "unknown option '--status=yes'", 'serve'],
    ['--verison', "unknown option '--verison' (Did you mean --version?)", 'serve'],
    ['serve serve', 'unexpected argument "serve"', 'serve'],
    ['serve --port', "option '--port <NUMBER>' argument missing", 'serve'],
    ['migrate down twice', 'unexpected argument "down"', 'migrate'],
    ['migrate --stauts', "unknown option '--stauts' (Did you mean --status?)", 'migrate'],
    ['bans', 'bans needs a command: list, lift, add', 'bans'],
    ['bans lits', 'unknown command "lits" (Did you mean list?)', 'bans'],
    ['bans list --all', "unknown option '--all'", 'bans list'],
    ['bans add login', "missing required argument 'KEY'", 'bans add'],
    ['keys', 'keys needs a command: create, list, revoke', 'keys'],
    ['keys revoke', "missing required argument 'NAME'", 'keys revoke'],
    ['keys revoke a b', 'unexpected argument "b"', 'keys revoke'],
    ['limits', 'limits needs a command: check, test', 'limits'],
    ['limits check', "missing required argument 'FILE'", 'limits check'],
    ['help start', 'unknown command "start"', ''],
    ['help limits tset', 'unknown command "tset" (Did you mean test?)', 'limits'],
    ['version x', 'unexpected argument "x"', 'version'],
  ])(
    '%s ends with exit code 2 and one line that names the right help',
    async (line, why, about) => {
      const cwd = temporaryFolder()
      const help = `user-records-service ${about} --help`.replace('  ', ' ')
      expect(await runCommand({ cwd, args: line.split(' ') })).toEqual({
        ...{ code: 2, stdout: '', stderr: `${why}; see ${help}\n` },
      })
      expect(readdirSync(cwd)).toEqual([])
    },
  )
})
