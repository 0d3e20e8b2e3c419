import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { runCommand, stderrOf } from '../support/run-command.ts'

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

  test.each([
    ['help', ''],
    ['help serve', 'serve'],
    ['help limits', 'limits'],
    ['limits help test', 'limits test'],
    ['bans help add', 'bans add'],
  ])('%s prints the usage of %j as --help and -h do', async (line, command) => {
    const cwd = temporaryFolder()
    const words = command.split(' ').filter(word => word !== '')
    const helped = await runCommand({ cwd, args: line.split(' ') })
    expect(helped).toMatchObject({ code: 0, stderr: '' })
    expect(helped.stdout).toMatch(new RegExp(`^Usage: user-records-service ${command}`))
    for (const option of ['--help', '-h']) {
      expect(await runCommand({ cwd, args: [...words, option] })).toEqual(helped)
    }
    expect(readdirSync(cwd)).toEqual([])
  })

  test.each([
    ['start', "unknown command 'start'"],
    ['sevre', "unknown command 'sevre' (Did you mean serve?)"],
    ['imort users.csv', "unknown command 'imort' (Did you mean import?)"],
    ['postgres://a:s3cret@h/d', "unknown command 'postgres://***@h/d'"],
    ['-p 80', "unknown option '-p'"],
    ['--status=yes migrate', "unknown option '--status=yes'"],
    ['--verison', "unknown option '--verison' (Did you mean --version?)"],
    ['serve serve', "too many arguments for 'serve'. Expected 0 arguments but got 1"],
    ['serve --port', "option '--port <NUMBER>' argument missing"],
    ['migrate down twice', "too many arguments for 'migrate'. Expected 0 arguments but got 2"],
    ['migrate --stauts', "unknown option '--stauts' (Did you mean --status?)"],
    ['bans lits', "unknown command 'lits' (Did you mean list?)"],
    ['bans list --all', "unknown option '--all'"],
    ['bans add login', "missing required argument 'KEY'"],
    ['keys revoke', "missing required argument 'NAME'"],
    ['keys revoke a b', "too many arguments for 'revoke'. Expected 1 argument but got 2"],
    ['limits check', "missing required argument 'FILE'"],
    ['version x', "too many arguments for 'version'. Expected 0 arguments but got 1"],
  ])('%s ends with exit code 2 and one line', async (line, why) => {
    const cwd = temporaryFolder()
    const stderr = `${why}; see --help\n`
    expect(await runCommand({ cwd, args: line.split(' ') })).toEqual({
      ...{ code: 2, stdout: '', stderr },
    })
    expect(readdirSync(cwd)).toEqual([])
  })

  test.each([
    ...['import postgres://a:s3cret@h/d', 'import postgres://a:s3cret@h/d.csv'],
    ...['export postgres://a:s3cret@h/d', 'limits check postgres://a:s3cret@h/d'],
    ...['limits check postgres://a:s3cret@h/d.json', '--x=postgres://a:s3cret@h/d'],
  ])('%s fails with a line that shows no password', async line => {
    const { code, stderr } = await runCommand({ cwd: temporaryFolder(), args: line.split(' ') })
    expect(code).toBeGreaterThan(0)
    expect(stderr).toContain('***')
    expect(stderr).not.toContain('s3cret')
  })

  test('each command gives signals back at its end, also one that failed', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'users.ndjson'), '{"name":"Ann","email":"ann@example.com"}\n')
    const listeners = () => ['SIGINT', 'SIGTERM'].map(name => process.listenerCount(name))
    const before = listeners()
    for (const [line, code] of [
      ['export', 1],
      ['import users.ndjson', 0],
      ['import nowhere.ndjson', 1],
      ['import users.ndjson --rejects no/rejects', 1],
      ['export', 0],
      ['migrate', 0],
      ['check', 0],
      ['backup copy.db', 0],
      ['backup no/copy.db', 1],
      ['restore copy.db', 0],
      ['compact', 0],
      ['copy --from copy.db --to to.db', 0],
      ['copy --from copy.db --to to.db', 1],
    ] as const) {
      const finished = await runCommand({ cwd, args: line.split(' ') })
      expect([line, finished.code, ...listeners()]).toEqual([line, code, ...before])
    }
  })

  test.each([
    ['bans', 'bans'],
    ['keys', 'keys'],
    ['limits', 'limits'],
    ['help start', ''],
  ])('%s ends with exit code 2 and the commands that there are', async (line, command) => {
    const cwd = temporaryFolder()
    const stderr = await stderrOf(runCommand({ cwd, args: line.split(' ') }), 2)
    expect(stderr).toMatch(new RegExp(`^Usage: user-records-service ${command}`))
    expect(stderr).toMatch(/^Commands:$/m)
  })
})
