import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'

const PACKAGE = new URL('../../package.json', import.meta.url)

describe('the command line', () => {
  test.each([['--help'], ['-h'], ['help'], ['serve', '--help'], ['migrate', '-h']])(
    '%s %s prints the usage',
    async (...args) => {
      const cwd = temporaryFolder()
      const { code, stdout, stderr } = await runCommand({ cwd, args })
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(stdout).toMatch(/^Usage: user-records-service /)
      for (const word of ['--help', '--version']) expect(stdout).toContain(word)
      expect(readdirSync(cwd)).toEqual([])
    },
  )

  test('--help lists the commands, the place of the settings, and the exit codes', async () => {
    const { stdout } = await runCommand({ cwd: temporaryFolder(), args: ['--help'] })
    for (const word of ['serve', 'migrate', '.env.example', 'Exit codes']) {
      expect(stdout).toContain(word)
    }
    const codes = [...stdout.matchAll(/^ {2}(\d+) +\S/gm)].map(([, code]) => Number(code))
    expect(codes).toEqual([0, 1, 2, 3, 130, 141, 143])
  })

  test.each([
    { args: ['--version'] },
    { args: ['-v'] },
    { args: ['serve', '--version'] },
    { args: ['migrate', '-v'] },
    { args: ['version'] },
  ])('$args prints the version of the package', async ({ args }) => {
    const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8'))
    const finished = await runCommand({ cwd: temporaryFolder(), args })
    expect(finished).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  test.each([
    { command: 'serve' },
    { command: 'limits' },
    { command: 'limits test' },
    { command: 'bans add' },
    { command: 'help' },
  ])('help $command prints the same as $command --help', async ({ command }) => {
    const words = command.split(' ')
    const helped = await runCommand({ cwd: temporaryFolder(), args: ['help', ...words] })
    expect(helped.stdout).toMatch(new RegExp(`^Usage: user-records-service ${command} `))
    expect(helped).toEqual(await runCommand({ cwd: temporaryFolder(), args: [...words, '--help'] }))
  })

  test.each([
    { args: ['start'], line: 'unknown command "start"' },
    { args: [''], line: 'unknown command ""' },
    { args: ['sevre'], line: 'unknown command "sevre" (Did you mean serve?)' },
    { args: ['imort', 'users.csv'], line: 'unknown command "imort" (Did you mean import?)' },
    { args: ['-p', '80'], line: "unknown option '-p'", about: 'serve' },
    { args: ['--status=yes', 'migrate'], line: "unknown option '--status=yes'", about: 'serve' },
    {
      args: ['--verison'],
      line: "unknown option '--verison' (Did you mean --version?)",
      about: 'serve',
    },
    { args: ['serve', 'now'], line: 'unexpected argument "now"', about: 'serve' },
    { args: ['serve', 'serve'], line: 'unexpected argument "serve"', about: 'serve' },
    { args: ['serve', '--status'], line: "unknown option '--status'", about: 'serve' },
    { args: ['migrate', 'down', 'twice'], line: 'unexpected argument "down"', about: 'migrate' },
    {
      args: ['migrate', '--stauts'],
      line: "unknown option '--stauts' (Did you mean --status?)",
      about: 'migrate',
    },
    { args: ['bans'], line: 'bans needs a command: list, lift, add', about: 'bans' },
    {
      args: ['bans', 'lits'],
      line: 'unknown command "lits" (Did you mean list?)',
      about: 'bans',
    },
    { args: ['bans', 'list', 'x'], line: 'unexpected argument "x"', about: 'bans list' },
    { args: ['bans', 'list', '--all'], line: "unknown option '--all'", about: 'bans list' },
    { args: ['bans', 'add', 'login'], line: "missing required argument 'KEY'", about: 'bans add' },
    { args: ['keys'], line: 'keys needs a command: create, list, revoke', about: 'keys' },
    { args: ['keys', 'revoke'], line: "missing required argument 'NAME'", about: 'keys revoke' },
    {
      args: ['keys', 'revoke', 'a', 'b'],
      line: 'unexpected argument "b"',
      about: 'keys revoke',
    },
    { args: ['limits'], line: 'limits needs a command: check, test', about: 'limits' },
    { args: ['limits', 'check'], line: "missing required argument 'FILE'", about: 'limits check' },
    { args: ['limits', 'test'], line: "missing required argument 'FILE'", about: 'limits test' },
    {
      args: ['limits', 'check', 'a.json', 'b.json'],
      line: 'unexpected argument "b.json"',
      about: 'limits check',
    },
    { args: ['bans', 'add'], line: "missing required argument 'RULE'", about: 'bans add' },
    { args: ['help', 'start'], line: 'unknown command "start"' },
    {
      args: ['help', 'limits', 'tset'],
      line: 'unknown command "tset" (Did you mean test?)',
      about: 'limits',
    },
    { args: ['version', 'x'], line: 'unexpected argument "x"', about: 'version' },
  ])(
    '$args ends with exit code 2 and one line that names the right help',
    async ({ args, line, about }) => {
      const cwd = temporaryFolder()
      const help = ['user-records-service', about ?? [], '--help'].flat().join(' ')
      expect(await runCommand({ cwd, args })).toEqual({
        code: 2,
        stdout: '',
        stderr: `${line}; see ${help}\n`,
      })
      expect(readdirSync(cwd)).toEqual([])
    },
  )
})
