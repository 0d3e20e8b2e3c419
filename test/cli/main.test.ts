import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN, run, type SpawnedService, spawnService } from '../support/spawn-service.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

const MIGRATION_NAMES = readdirSync(join(PROJECT, 'migrations', 'sqlite'))
  .sort()
  .map(file => basename(file, '.sql'))

/** A pause, because a port that nobody listens on yet tells nobody when that changes. */
const POLL_MS = 20

describe('the command line', () => {
  test.each([['--help'], ['-h'], ['serve', '--help'], ['migrate', '-h']])(
    '%s %s prints the usage',
    async (...args) => {
      const cwd = temporaryFolder()
      const { code, stdout, stderr } = await run({ cwd, args })
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(stdout).toMatch(/^Usage: user-records-service /)
      for (const word of ['--help', '--version']) expect(stdout).toContain(word)
      expect(readdirSync(cwd)).toEqual([])
    },
  )

  test('--help lists the commands, where the settings are, and what the exit codes mean', async () => {
    const { stdout } = await run({ cwd: temporaryFolder(), args: ['--help'] })
    for (const word of ['serve', 'migrate', '.env.example', 'Exit codes']) {
      expect(stdout).toContain(word)
    }
  })

  test.each([
    { args: ['--version'] },
    { args: ['-v'] },
    { args: ['serve', '--version'] },
    { args: ['migrate', '-v'] },
  ])('$args prints the version of the package', async ({ args }) => {
    const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    const finished = await run({ cwd: temporaryFolder(), args })
    expect(finished).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  test.each([
    { args: ['start'], named: '"start"' },
    { args: [''], named: '""' },
    { args: ['--port'], named: '--port' },
    { args: ['-p', '80'], named: '-p' },
    { args: ['--status=yes', 'migrate'], named: '--status' },
    { args: ['serve', 'now'], named: '"now"' },
    { args: ['migrate', 'down', 'twice'], named: '"down"' },
    { args: ['--status'], named: '--status' },
    { args: ['serve', '--status'], named: '--status' },
  ])('$args ends with exit code 2 and one line', async ({ args, named }) => {
    const cwd = temporaryFolder()
    const { code, stdout, stderr } = await run({ cwd, args })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^.+; see user-records-service --help\n$/)
    expect(stderr).toContain(named)
    expect(readdirSync(cwd)).toEqual([])
  })
})

interface Refusal {
  readonly why: string
  readonly env?: Readonly<Record<string, string>>
  readonly prepare?: (cwd: string) => unknown
  /** What each line begins with, up to what the value may be. */
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
    lines: ['CACHE_STORE was "redis"; it may be memory or none'],
  },
  {
    why: 'a .env that is a folder',
    prepare: cwd => mkdirSync(join(cwd, '.env')),
    lines: ['.env cannot be read (EISDIR); it may be'],
  },
  {
    why: 'limits with two mistakes',
    env: { LIMITS_FILE: './limits.json' },
    prepare: cwd =>
      writeFileSync(join(cwd, 'limits.json'), '{"throttles": [], "track": [{ "limit": 3 }]}'),
    lines: [
      'LIMITS_FILE was "./limits.json": unknown key "throttles", did you mean "throttle"?',
      'LIMITS_FILE was "./limits.json": track[0]: period is missing: it must be given with limit',
    ],
  },
  {
    why: 'a folder that cannot be made',
    env: { DATABASE_URL: 'file:/proc/nowhere/users.db' },
    lines: ['DATABASE_URL was "file:/proc/nowhere/users.db", but it cannot be opened ('],
  },
  {
    why: 'an address with a password',
    env: { DATABASE_URL: 'postgres://ann:s3cret@db.example/users' },
    lines: ['DATABASE_URL was "postgres://***@db.example/users"; it may be file:PATH'],
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
    lines: ['DATABASE_URL was "notes.txt", but it is no SQLite database; it may be file:PATH'],
  },
  {
    why: 'a text file as database, given by a URL',
    env: { DATABASE_URL: 'file:./notes.txt' },
    prepare: cwd => writeFileSync(join(cwd, 'notes.txt'), 'to do: nothing\n'),
    lines: [
      'DATABASE_URL was "file:./notes.txt", but it is no SQLite database; it may be file:PATH',
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
      await run({ cwd, args: ['migrate'], env: { DATABASE_URL: 'users.db' } })
      const database = new Database(join(cwd, 'users.db'))
      database.exec(`INSERT INTO schema_migrations VALUES (99, '0099_new', 'hash', 'time')`)
      database.close()
    },
    lines: ['DATABASE_URL was "users.db", but its schema is of version 99 and this release knows'],
  },
])('serve refuses to start with $why, and leaves the files as they are', async refusal => {
  const { env = {}, prepare, lines } = refusal
  const cwd = temporaryFolder()
  await prepare?.(cwd)
  const before = filesOf(cwd)
  const { code, stdout, stderr } = await run({ cwd, env })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr.split('\n')).toEqual([...lines.map(line => expect.stringContaining(line)), ''])
  for (const line of stderr.trimEnd().split('\n'))
    expect(line).toMatch(/^\S+ (was|cannot).* (may be|must be|did you mean)/)
  expect(filesOf(cwd)).toMatchObject(before)
})

test('serve refuses to start on a port in use, and names it', async () => {
  const { port } = await holdPort()
  const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env: { PORT: `${port}` } })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(
    new RegExp(`^PORT was "${port}", but it is in use on 127\\.0\\.0\\.1; it may be .*\n$`),
  )
})

describe('serve', () => {
  test('with PORT=0 serves on a free port of 127.0.0.1 and logs which', async () => {
    const service = await spawnService({ cwd: temporaryFolder() })
    expect(service.port).toBeGreaterThan(0)
    expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
    const lines = await logAfterStop(service)
    expect(lines.find(({ msg }) => msg === 'listening')).toMatchObject({
      url: `http://127.0.0.1:${service.port}`,
      host: '127.0.0.1',
      port: service.port,
    })
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([])
  })

  test('logs a JSON line for each request', async () => {
    const service = await spawnService({ cwd: temporaryFolder(), args: ['serve'] })
    const ids = ['first', 'second', 'third']
    for (const id of ids) {
      await fetch(`${service.url}/users`, { headers: { 'X-Request-Id': id } })
    }
    const lines = await logAfterStop(service)
    expect(lines.flatMap(({ requestId }) => requestId ?? [])).toEqual(ids)
  })

  test('without settings keeps its data in ./data/users.db, for its own user only', async () => {
    const cwd = temporaryFolder()
    const { url } = await spawnService({ cwd })
    expect((await createUser(url)).status).toBe(201)
    expect(readdirSync(cwd)).toEqual(['data'])
    expect(modeOf(join(cwd, 'data'))).toBe('700')
    const files = readdirSync(join(cwd, 'data'))
    expect(files).toContain('users.db')
    expect(files.map(file => modeOf(join(cwd, 'data', file)))).toEqual(files.map(() => '600'))
  })

  test('reads .env in the working directory, under the environment', async () => {
    const cwd = temporaryFolder()
    const lines = ['DATABASE_URL=from-dotenv.db', 'PORT=1', 'LOG_LEVEL=debug', 'BODY_LIMIT=20b']
    writeFileSync(join(cwd, '.env'), lines.join('\n'))
    const { url } = await spawnService({ cwd, env: { PORT: '0', LOG_LEVEL: '' } })
    expect(readdirSync(cwd)).toContain('from-dotenv.db')
    expect((await createUser(url)).status).toBe(413)
  })

  test('with DATABASE_URL=:memory: makes no file', async () => {
    const cwd = temporaryFolder()
    const { url } = await spawnService({ cwd, env: { DATABASE_URL: ':memory:' } })
    expect((await createUser(url)).status).toBe(201)
    expect(readdirSync(cwd)).toEqual([])
  })

  test('with HOST=0.0.0.0 warns that it asks for no credentials', async () => {
    const service = await spawnService({ cwd: temporaryFolder(), env: { HOST: '0.0.0.0' } })
    expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatchObject({
      host: '0.0.0.0',
      msg: expect.stringContaining('asks for no credentials'),
    })
  })

  test('with LOG_LEVEL=silent prints nothing', async () => {
    const { port, release } = await holdPort()
    await release()
    const child = spawn(process.execPath, [MAIN], {
      cwd: temporaryFolder(),
      env: { PATH: process.env.PATH, PORT: `${port}`, LOG_LEVEL: 'silent' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
    const printed: unknown[] = []
    child.stdout.on('data', chunk => printed.push(chunk))
    child.stderr.on('data', chunk => printed.push(chunk))
    const closed = once(child, 'close')
    while (!(await answers(`http://127.0.0.1:${port}/users`))) {
      expect(child.exitCode).toBeNull()
      await sleep(POLL_MS)
    }
    child.kill('SIGTERM')
    const [code] = await closed
    expect({ code, printed }).toEqual({ code: 0, printed: [] })
  })
})

describe('migrate', () => {
  test('--status lists what is pending and makes nothing', async () => {
    const cwd = temporaryFolder()
    const finished = await run({ cwd, args: ['migrate', '--status'] })
    expect(finished).toEqual({
      code: 0,
      stdout: MIGRATION_NAMES.map(name => `${name}  pending\n`).join(''),
      stderr: '',
    })
    expect(readdirSync(cwd)).toEqual([])
  })

  test('applies what is pending, once, and --status says when', async () => {
    const cwd = temporaryFolder()
    const first = await run({ cwd, args: ['migrate'] })
    expect(first).toMatchObject({ code: 0, stderr: '' })
    const lines = first.stdout.trimEnd().split('\n')
    expect(lines).toEqual(
      MIGRATION_NAMES.map(name =>
        expect.stringMatching(`^${name}  applied \\d{4}-\\d\\d-\\d\\dT[\\d:.]{12}Z$`),
      ),
    )
    expect(modeOf(join(cwd, 'data', 'users.db'))).toBe('600')
    expect(await run({ cwd, args: ['migrate', '--status'] })).toEqual(first)
    expect(await run({ cwd, args: ['migrate'] })).toEqual(first)
  })

  test.each([{ args: ['migrate'] }, { args: ['migrate', '--status'] }])(
    '$args refuses a file that is no database and leaves it as it is',
    async ({ args }) => {
      const cwd = temporaryFolder()
      const path = join(cwd, 'notes.txt')
      writeFileSync(path, 'to do: nothing\n')
      const finished = await run({ cwd, args, env: { DATABASE_URL: 'notes.txt' } })
      expect(finished).toEqual({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /^DATABASE_URL was "notes.txt", but it is no SQLite database; it may be .*\n$/,
        ),
      })
      expect(readFileSync(path, 'utf8')).toBe('to do: nothing\n')
    },
  )

  test('refuses wrong settings like serve', async () => {
    const cwd = temporaryFolder()
    const finished = await run({ cwd, args: ['migrate'], env: { PORT: 'http' } })
    expect(finished).toMatchObject({ code: 1, stdout: '' })
    expect(finished.stderr).toMatch(/^PORT was "http"; it may be .*\n$/)
    expect(existsSync(join(cwd, 'data'))).toBe(false)
  })
})

/** A port that is taken until the test is over, or until it is released. */
async function holdPort(): Promise<{ port: number; release: () => Promise<unknown> }> {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, release: () => once(server.close(), 'close') }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    response => response.ok,
    () => false,
  )
}

function createUser(url: string): Promise<Response> {
  return fetch(`${url}/users`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(newUserBody()),
  })
}

/** Each line of the log, up to its end. */
async function logAfterStop(service: SpawnedService): Promise<Record<string, unknown>[]> {
  service.process.kill('SIGTERM')
  const { stdout } = await service.exited
  return stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}

/** The content of each file, by its path. */
function filesOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
  return Object.fromEntries(files.map(path => [path, readFileSync(path, 'hex')]))
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8)
}
