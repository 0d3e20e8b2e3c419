import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { execute } from '../support/databases.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'

interface Refusal {
  readonly why: string
  readonly env?: Readonly<Record<string, string>>
  readonly prepare?: (cwd: string) => unknown
  /** The beginning of each line, before the allowed values. */
  readonly lines: readonly string[]
}

test.each<Refusal>([
  { why: 'a wrong PORT', env: { PORT: 'http' }, lines: ['PORT was "http"; it may be a whole'] },
  {
    why: 'two wrong values',
    env: { PORT: '70000', LOG_LEVEL: 'loud' },
    lines: ['PORT was "70000"; it may be a whole', 'LOG_LEVEL was "loud"; it may be one of fatal'],
  },
  {
    why: 'a wrong value in .env',
    prepare: cwd => writeFileSync(join(cwd, '.env'), 'CACHE_STORE=redis\n'),
    lines: ['CACHE_STORE was "redis", but REDIS_URL, which it needs, is not set; it may be one of'],
  },
  {
    why: 'a .env that is a folder',
    prepare: cwd => mkdirSync(join(cwd, '.env')),
    lines: ['.env cannot be read (EISDIR); it must be'],
  },
  {
    why: 'a .env with a line that is not a setting',
    env: { PORT: 'http' },
    prepare: cwd => writeFileSync(join(cwd, '.env'), '\uFEFFDATABASE_URL=a.db\nhush\nPORT=1\n'),
    lines: [
      '.env, line 2: it must be NAME=value, a comment (#) or blank',
      'PORT was "http"; it may be a whole',
    ],
  },
  {
    why: 'a database URL with parameters',
    env: { DATABASE_URL: 'file:u.db?mode=ro' },
    lines: ['DATABASE_URL was "file:u.db?mode=ro", but a file: URL has no parameters here'],
  },
  {
    why: 'limits with two mistakes',
    env: { LIMITS_FILE: './limits.json' },
    prepare: cwd =>
      writeFileSync(join(cwd, 'limits.json'), '{"throttles": [], "track": [{ "limit": 3 }]}'),
    lines: [
      'LIMITS_FILE was "./limits.json": line 1: unknown key "throttles", did you mean "throttle"?',
      'LIMITS_FILE was "./limits.json": line 1: track[0]: period is missing: it must be given with limit',
    ],
  },
  {
    why: 'a folder that cannot be made',
    env: { DATABASE_URL: 'file:/proc/nowhere/users.db' },
    lines: ['DATABASE_URL was "file:/proc/nowhere/users.db", but it cannot be opened ('],
  },
  {
    why: 'an address with a password',
    env: { DATABASE_URL: 'mysql://ann:s3cret@db.example/users' },
    lines: ['DATABASE_URL was "mysql://***@db.example/users"; it may be file:PATH'],
  },
  {
    why: 'proxies of every address',
    env: { TRUST_PROXY: '0.0.0.0/0' },
    lines: ['TRUST_PROXY was "0.0.0.0/0"; it may be the number of proxies'],
  },
  {
    why: 'a HOST that is not of this machine',
    env: { HOST: '192.0.2.1', PORT: '0' },
    lines: [
      'HOST was "192.0.2.1", but it cannot be listened on (EADDRNOTAVAIL); it may be an IP address',
    ],
  },
  {
    why: 'a text file as database',
    env: { DATABASE_URL: 'notes.txt' },
    prepare: cwd => writeFileSync(join(cwd, 'notes.txt'), 'to do: nothing\n'),
    lines: ['DATABASE_URL was "notes.txt", but it is not a SQLite database; it may be file:PATH'],
  },
  {
    why: 'a text file as database, given by a URL',
    env: { DATABASE_URL: 'file:./notes.txt' },
    prepare: cwd => writeFileSync(join(cwd, 'notes.txt'), 'to do: nothing\n'),
    lines: [
      'DATABASE_URL was "file:./notes.txt", but it is not a SQLite database; it may be file:PATH',
    ],
  },
  {
    why: 'a folder as database',
    env: { DATABASE_URL: './folder' },
    prepare: cwd => mkdirSync(join(cwd, 'folder')),
    lines: ['DATABASE_URL was "./folder", but it cannot be opened (EISDIR); it may be file:PATH'],
  },
  {
    why: 'a database of a newer schema',
    env: { DATABASE_URL: 'users.db' },
    prepare: async cwd => {
      await runCommand({ cwd, args: ['migrate'], env: { DATABASE_URL: 'users.db' } })
      execute(
        join(cwd, 'users.db'),
        `INSERT INTO schema_migrations VALUES (99, '0099_new', 'hash', 'time')`,
      )
    },
    lines: ['DATABASE_URL was "users.db", but its schema version 99 is from a newer release'],
  },
])('serve does not start with $why, and does not change the files', async refusal => {
  const { env = {}, prepare, lines } = refusal
  const cwd = temporaryFolder()
  await prepare?.(cwd)
  const before = filesOf(cwd)
  const listeners = countSignalListeners()
  const { code, stdout, stderr } = await runCommand({ cwd, env })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(countSignalListeners()).toEqual(listeners)
  expect(stderr.split('\n')).toEqual([...lines.map(line => expect.stringContaining(line)), ''])
  for (const line of stderr.trimEnd().split('\n'))
    expect(line).toMatch(/^\S+ (was|cannot|line).* (may be|must be|did you mean)/)
  expect(filesOf(cwd)).toMatchObject(before)
})

test.each([
  { args: [], env: 'PORT', named: 'PORT' },
  { args: ['serve', '--port'], named: '--port' },
])('serve does not start on a port in use, and names it as it was given: $named', async given => {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const args = given.args.length === 0 ? [] : [...given.args, `${port}`]
  const env = given.env === undefined ? {} : { [given.env]: `${port}` }
  const { code, stdout, stderr } = await runCommand({ cwd: temporaryFolder(), args, env })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(
    new RegExp(
      `^${given.named} was "${port}", but it is in use on 127\\.0\\.0\\.1; it may be .*\n$`,
    ),
  )
})

describe('serve --port and --host', () => {
  test('are rejected like PORT and HOST, under the names of the options, together with other settings', async () => {
    const args = ['serve', '--port', '70000', '--host', 'a b']
    const env = { LOG_LEVEL: 'loud', PORT: 'http' }
    const { code, stdout, stderr } = await runCommand({ cwd: temporaryFolder(), args, env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr.split('\n')).toEqual([
      '--host was "a b"; it may be an IP address or a host name to listen on',
      '--port was "70000"; it may be a whole number from 0 to 65535, where 0 picks a free port',
      expect.stringMatching(/^LOG_LEVEL was "loud"; /),
      '',
    ])
  })

  test.each([
    { args: ['--port', ''], line: '--port was ""; it may be a whole number' },
    { args: ['--port=-1'], line: '--port was "-1"; it may be a whole number' },
    { args: ['--port', '1e3'], line: '--port was "1e3"; it may be a whole number' },
    { args: ['--host', ''], line: '--host was ""; it may be an IP address' },
    {
      args: ['--host', '192.0.2.1'],
      line: '--host was "192.0.2.1", but it cannot be listened on (EADDRNOTAVAIL); it may be',
    },
  ])('$args ends with exit code 1 and one line', async ({ args, line }) => {
    const env = { PORT: '0' }
    const { code, stdout, stderr } = await runCommand({ cwd: temporaryFolder(), args, env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr.slice(0, line.length)).toBe(line)
  })

  test.each([{ args: ['--port'] }, { args: ['serve', '--host'] }])(
    '$args without a value is a wrong command line',
    async ({ args }) => {
      const { code, stderr } = await runCommand({ cwd: temporaryFolder(), args })
      expect(code).toBe(2)
      expect(stderr).toMatch(/ argument missing; see user-records-service serve --help\n$/)
    },
  )
})

test('every command reports names in .env that are not settings, also if it fails', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, '.env'), 'DATABASE_ULR=file:other.db\n')
  const warning = 'DATABASE_ULR in .env is not a setting; did you mean DATABASE_URL?'
  for (const args of [['migrate'], ['export'], ['check'], ['bans', 'list'], ['backup', 'b.db']]) {
    const { code, stderr } = await runCommand({ cwd, args })
    expect({ args, code, lines: stderr.split('\n') }).toMatchObject({
      code: 0,
      lines: expect.arrayContaining([warning]),
    })
  }
  const failed = await runCommand({ cwd, args: ['serve'], env: { LIMITS_FILE: 'nowhere.json' } })
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining(`\n${warning}\n`) })
})

/** The content of each file, by its path. */
function filesOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
  return Object.fromEntries(files.map(path => [path, readFileSync(path, 'hex')]))
}

function countSignalListeners(): number[] {
  return ['SIGTERM', 'SIGINT', 'SIGHUP'].map(name => process.listenerCount(name))
}
