import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN, run, type SpawnedService, spawnService } from '../support/spawn-service.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

const MIGRATION_NAMES = readdirSync(join(PROJECT, 'migrations', 'sqlite'))
  .sort()
  .map(file => basename(file, '.sql'))

/** A pause between attempts, because nothing reports when a process begins to listen on a port. */
const POLL_MS = 20

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
      await run({ cwd, args: ['migrate'], env: { DATABASE_URL: 'users.db' } })
      const database = new Database(join(cwd, 'users.db'))
      database.exec(`INSERT INTO schema_migrations VALUES (99, '0099_new', 'hash', 'time')`)
      database.close()
    },
    lines: ['DATABASE_URL was "users.db", but its schema version 99 is from a newer release'],
  },
])('serve does not start with $why, and does not change the files', async refusal => {
  const { env = {}, prepare, lines } = refusal
  const cwd = temporaryFolder()
  await prepare?.(cwd)
  const before = filesOf(cwd)
  const { code, stdout, stderr } = await run({ cwd, env })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr.split('\n')).toEqual([...lines.map(line => expect.stringContaining(line)), ''])
  for (const line of stderr.trimEnd().split('\n'))
    expect(line).toMatch(/^\S+ (was|cannot|line).* (may be|must be|did you mean)/)
  expect(filesOf(cwd)).toMatchObject(before)
})

test('serve does not start on a port in use, and names it', async () => {
  const { port } = await holdPort()
  const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), env: { PORT: `${port}` } })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(
    new RegExp(`^PORT was "${port}", but it is in use on 127\\.0\\.0\\.1; it may be .*\n$`),
  )
})

describe('serve --port and --host', () => {
  test('override the environment and .env, also without the word serve', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, '.env'), 'HOST=192.0.2.2\n')
    const { port } = await holdPort()
    const env = { PORT: `${port}`, HOST: '192.0.2.1' }
    for (const command of [['serve'], []]) {
      const args = [...command, '--port', '0', '--host=127.0.0.1']
      const service = await spawnService({ cwd, env, args })
      expect(service.port).not.toBe(port)
      expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
    }
  })

  test('are rejected like PORT and HOST, under the names of the options, together with other settings', async () => {
    const args = ['serve', '--port', '70000', '--host', 'a b']
    const env = { LOG_LEVEL: 'loud', PORT: 'http' }
    const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), args, env })
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
    const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), args, env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr.slice(0, line.length)).toBe(line)
  })

  test('name the option if the port is in use', async () => {
    const { port } = await holdPort()
    const args = ['serve', '--port', `${port}`]
    const { code, stderr } = await run({ cwd: temporaryFolder(), args })
    expect(code).toBe(1)
    expect(stderr).toMatch(
      new RegExp(`^--port was "${port}", but it is in use on 127\\.0\\.0\\.1; it may be .*\n$`),
    )
  })

  test.each([{ args: ['--port'] }, { args: ['serve', '--host'] }])(
    '$args without a value is a wrong command line',
    async ({ args }) => {
      const { code, stderr } = await run({ cwd: temporaryFolder(), args })
      expect(code).toBe(2)
      expect(stderr).toMatch(/ argument missing; see user-records-service serve --help\n$/)
    },
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

  test('without settings keeps its data in ./data/users.db, which only its own user can read', async () => {
    const cwd = temporaryFolder()
    const { url } = await spawnService({ cwd })
    expect((await createUser(url)).status).toBe(201)
    expect(readdirSync(cwd)).toEqual(['data'])
    expect(modeOf(join(cwd, 'data'))).toBe('700')
    const files = readdirSync(join(cwd, 'data'))
    expect(files).toContain('users.db')
    expect(files.map(file => modeOf(join(cwd, 'data', file)))).toEqual(files.map(() => '600'))
  })

  test('reads .env in the working directory, and the environment overrides it', async () => {
    const cwd = temporaryFolder()
    const lines = ['DATABASE_URL=from-dotenv.db', 'PORT=1', 'LOG_LEVEL=debug', 'BODY_LIMIT=20b']
    writeFileSync(join(cwd, '.env'), lines.join('\n'))
    const { url } = await spawnService({ cwd, env: { PORT: '0', LOG_LEVEL: '' } })
    expect(readdirSync(cwd)).toContain('from-dotenv.db')
    expect((await createUser(url)).status).toBe(413)
  })

  test('with DATABASE_URL=:memory: creates no file', async () => {
    const cwd = temporaryFolder()
    const { url } = await spawnService({ cwd, env: { DATABASE_URL: ':memory:' } })
    expect((await createUser(url)).status).toBe(201)
    expect(readdirSync(cwd)).toEqual([])
  })

  test('with HOST=0.0.0.0 warns that it listens without authentication', async () => {
    const service = await spawnService({ cwd: temporaryFolder(), env: { HOST: '0.0.0.0' } })
    expect((await fetch(`http://127.0.0.1:${service.port}/livez`)).status).toBe(200)
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatchObject({
      host: '0.0.0.0',
      msg: 'listening beyond loopback without authentication',
    })
  })

  test('with HOST=0.0.0.0 and API_KEYS=required does not', async () => {
    const env = { HOST: '0.0.0.0', API_KEYS: 'required' }
    const service = await spawnService({ cwd: temporaryFolder(), env })
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings.map(({ msg }) => msg)).toEqual([
      'API_KEYS is required, but there is no key: make one with keys create',
    ])
  })

  test('with API_KEYS=required and a database in memory warns that there can be no key', async () => {
    const env = { DATABASE_URL: ':memory:', API_KEYS: 'required' }
    const service = await spawnService({ cwd: temporaryFolder(), env })
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings.map(({ msg }) => msg)).toEqual([
      'API_KEYS is required, but there is no key: a database in memory can have none',
    ])
  })

  test('begins its log with its version, its database and the number of its rules', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'limits.json'), '{"track":[{"path":"a"}],"safelist":[{"ip":"::1"}]}')
    const env = { LIMITS_FILE: 'limits.json', DATABASE_URL: 'token=hush-hush.db' }
    const [first, warning, second] = await logAfterStop(await spawnService({ cwd, env }))
    const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    expect(first).toEqual({
      level: 'info',
      time: expect.any(String),
      msg: 'starting',
      version,
      database: 'token=***',
      rules: 2,
    })
    expect(warning).toMatchObject({ level: 'warn', msg: 'limits may not work as intended' })
    expect(second).toMatchObject({ msg: 'listening', docs: expect.stringMatching(/\d\/docs$/) })
  })

  test('warns of names that are not settings, and shows no value', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, '.env'), 'PROT=hush-hush\nLOG_LEVEL=info\n')
    const env = { DATABASE_URI: 'hush-hush', HOSTNAME: 'hush-hush', PORTABLE: '1' }
    const service = await spawnService({ cwd, env })
    const lines = await logAfterStop(service)
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({ msg: 'unknown setting', variable: 'PROT', source: '.env' }),
      expect.objectContaining({
        msg: 'unknown setting',
        variable: 'DATABASE_URI',
        source: 'environment',
        didYouMean: 'DATABASE_URL',
      }),
    ])
    expect(service.stdout()).not.toContain('hush-hush')
  })

  test.each(['environment', '.env'])(
    'says in one line that WORKERS in the %s is gone',
    async place => {
      const cwd = temporaryFolder()
      if (place === '.env') writeFileSync(join(cwd, '.env'), 'WORKERS=2\n')
      const env = place === '.env' ? {} : { WORKERS: '2' }
      const lines = await logAfterStop(await spawnService({ cwd, env }))
      expect(lines.filter(({ level }) => level === 'warn')).toEqual([
        expect.objectContaining({
          variable: 'WORKERS',
          msg: expect.stringMatching(/^WORKERS is no longer a setting: .* run the service several/),
        }),
      ])
      expect(lines.at(-1)).toMatchObject({ msg: 'stopped' })
    },
  )

  test.each(['fatal', 'error', 'warn', 'info', 'debug', 'trace'])(
    'with PORT=0 and LOG_LEVEL=%s prints its port',
    async level => {
      const env = { LOG_LEVEL: level }
      const service = await spawnService({ cwd: temporaryFolder(), env })
      expect((await fetch(`${service.url}/livez`)).status).toBe(200)
      const lines = await logAfterStop(service)
      expect(lines.filter(({ msg }) => msg === 'listening')).toEqual([
        expect.objectContaining({ level: 'info', port: service.port, url: service.url }),
      ])
      if (['fatal', 'error', 'warn'].includes(level)) expect(lines).toHaveLength(1)
    },
  )

  test('lowers MAX_CONNECTIONS to the limit of open files, so that idle connections lock no client out', async () => {
    const service = await spawnService({ cwd: temporaryFolder(), openFiles: 256 })
    const sockets = Array.from({ length: 400 }, () => connect(service.port, '127.0.0.1'))
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    await Promise.all(
      sockets.map(socket => once(socket.on('error', () => {}).resume(), 'connect').catch(() => {})),
    )
    for (let newcomer = 0; newcomer < 5; newcomer++) {
      const response = await fetch(`${service.url}/users`, { headers: { Connection: 'close' } })
      expect(response.status).toBe(200)
    }
    expect((await createUser(service.url)).status).toBe(201)
    const warnings = (await logAfterStop(service)).filter(({ level }) => level === 'warn')
    expect(warnings).toEqual([
      expect.objectContaining({
        msg: 'MAX_CONNECTIONS lowered to fit the open files limit',
        openFiles: 256,
        maxConnections: 192,
        wanted: 10_000,
      }),
    ])
  })

  test('keeps MAX_CONNECTIONS if the limit of open files allows it', async () => {
    const options = { cwd: temporaryFolder(), openFiles: 256, env: { MAX_CONNECTIONS: '192' } }
    const lines = await logAfterStop(await spawnService(options))
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([])
  })

  test('with LOG_LEVEL=silent prints nothing', async () => {
    // A port that is free now may be taken by another process until the service listens.
    while (!(await isSilentOn(await freePort())));
  })
})

async function freePort(): Promise<number> {
  const { port, release } = await holdPort()
  await release()
  return port
}

/** False if another process has the port. */
async function isSilentOn(port: number): Promise<boolean> {
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
  while (child.exitCode === null && !(await answers(`http://127.0.0.1:${port}/users`))) {
    await sleep(POLL_MS)
  }
  child.kill('SIGTERM')
  const [code] = await closed
  if (printed.join('').includes('it is in use')) return false
  expect({ code, printed }).toEqual({ code: 0, printed: [] })
  return true
}

describe('migrate', () => {
  test('--status lists what is pending and creates nothing', async () => {
    const cwd = temporaryFolder()
    const finished = await run({ cwd, args: ['migrate', '--status'] })
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
      const { code, stdout, stderr } = await run({ cwd: temporaryFolder(), args, env })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory .+\n$/)
    },
  )

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

  test('--json prints the same for programs, with and without --status', async () => {
    const cwd = temporaryFolder()
    const printed = async (...args: string[]) => {
      const { code, stdout, stderr } = await run({ cwd, args: ['migrate', '--json', ...args] })
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
      const finished = await run({ cwd, args, env: { DATABASE_URL: 'notes.txt' } })
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

test('every command reports names in .env that are not settings, also if it fails', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, '.env'), 'DATABASE_ULR=file:other.db\n')
  const warning = 'DATABASE_ULR in .env is not a setting; did you mean DATABASE_URL?'
  for (const args of [['migrate'], ['export'], ['check'], ['bans', 'list'], ['backup', 'b.db']]) {
    const { code, stderr } = await run({ cwd, args })
    expect({ args, code, lines: stderr.split('\n') }).toMatchObject({
      code: 0,
      lines: expect.arrayContaining([warning]),
    })
  }
  const failed = await run({ cwd, args: ['serve'], env: { LIMITS_FILE: 'nowhere.json' } })
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining(`\n${warning}\n`) })
})
