import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listen } from '../support/listen.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { runCommand, stderrOf } from '../support/run-command.ts'

interface Refusal {
  readonly why: string
  readonly env?: Readonly<Record<string, string>>
  /** Content of the files of its folder, or of the folder that is there instead. */
  readonly files?: Readonly<Record<string, string | undefined>>
  /** The beginning of each line, before the allowed values. */
  readonly lines: readonly string[]
}

const NOT_SQLITE = 'but it is not a SQLite database; it may be file:PATH'

test.each<Refusal>([
  {
    why: 'limits with two mistakes',
    env: { LIMITS_FILE: './limits.json' },
    files: { 'limits.json': '{"throttles": [], "track": [{ "limit": 3 }]}' },
    lines: [
      'LIMITS_FILE was "./limits.json": 2 mistakes',
      '  line 1: unknown key "throttles", did you mean "throttle"?',
      '  line 1: track[0]: period is missing: it must be given with limit',
    ],
  },
  {
    why: 'a folder that cannot be made',
    env: { DATABASE_URL: 'file:/proc/nowhere/users.db' },
    lines: ['DATABASE_URL was "file:/proc/nowhere/users.db", but it cannot be opened ('],
  },
  {
    why: 'a HOST that is not of this machine',
    env: { HOST: '192.0.2.1', PORT: '0' },
    lines: ['HOST was "192.0.2.1", but it cannot be listened on (EADDRNOTAVAIL); it may be an IP'],
  },
  {
    why: 'a text file as database, given by a URL',
    env: { DATABASE_URL: 'file:./notes.txt' },
    files: { 'notes.txt': 'to do: nothing\n' },
    lines: [`DATABASE_URL was "file:./notes.txt", ${NOT_SQLITE}`],
  },
  {
    why: 'a folder as database',
    env: { DATABASE_URL: './folder' },
    files: { folder: undefined },
    lines: ['DATABASE_URL was "./folder", but it is not a regular file; it may be file:PATH'],
  },
])('serve does not start with $why, and does not change the files', async refusal => {
  const { env = {}, files = {}, lines } = refusal
  const cwd = temporaryFolder()
  for (const [name, text] of Object.entries(files)) {
    if (text === undefined) mkdirSync(join(cwd, name))
    else writeFileSync(join(cwd, name), text)
  }
  const before = filesOf(cwd)
  const listeners = countSignalListeners()
  const stderr = await stderrOf(runCommand({ cwd, env }))
  expect(countSignalListeners()).toEqual(listeners)
  expect(stderr.split('\n')).toEqual([...lines.map(line => expect.stringContaining(line)), ''])
  for (const line of stderr.trimEnd().split('\n'))
    expect(line).toMatch(/^\S+ (?:was|cannot) .* (?:may be|mistakes)|^ {2}line \d+: /)
  expect(filesOf(cwd)).toMatchObject(before)
})

test.each(['PORT', '--port'])(
  'serve does not start on a port in use, and names PORT: %s',
  async named => {
    const port = await listen(createServer())
    const given = named === 'PORT' ? { env: { PORT: `${port}` } } : { args: ['--port', `${port}`] }
    const stderr = await stderrOf(runCommand({ cwd: temporaryFolder(), ...given }))
    const line = `PORT was "${port}", but it is in use on 127.0.0.1; it may be `
    expect(stderr.slice(0, line.length)).toBe(line)
  },
)

test.each(['--port', '--host'])('serve refuses an empty %s', async option => {
  const { code, stderr } = await runCommand({ cwd: temporaryFolder(), args: ['serve', option, ''] })
  expect([code, stderr]).toEqual([2, expect.stringContaining('must not be empty')])
})

test('serve refuses --port and --host like PORT and HOST, under these names', async () => {
  const args = ['serve', '--port', '70000', '--host', 'a b']
  const env = { LOG_LEVEL: 'loud', PORT: 'http' }
  const stderr = await stderrOf(runCommand({ cwd: temporaryFolder(), args, env }))
  expect(stderr.split('\n')).toEqual([
    'HOST was "a b"; it may be an IP address or a host name to listen on',
    'PORT was "70000"; it may be a whole number from 0 to 65535, where 0 picks a free port',
    expect.stringMatching(/^LOG_LEVEL was "loud"; /),
    '',
  ])
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
