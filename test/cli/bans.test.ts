import { execFile } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import type { LimitsFile } from '../../src/limits/limits-file.ts'
import { openSqlite } from '../../src/storage/sqlite.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import {
  type FinishedProcess,
  MAIN,
  run,
  type SpawnedService,
  spawnService,
} from '../support/spawn-service.ts'

const LOGIN = {
  name: 'login',
  path: '/login',
  maxretry: 2,
  findtime: '1 hour',
  bantime: '1 hour',
} as const

const LIMITS: LimitsFile = {
  bans: [
    LOGIN,
    { ...LOGIN, name: 'by key', path: '/key', by: 'header:X-Api-Key' },
    { ...LOGIN, name: 'by both', path: '/both', by: ['ip', 'header:X-Api-Key'] },
    { ...LOGIN, name: 'on trial', path: '/trial', dryRun: true },
  ],
}

const HOUR_MS = 3_600_000

/** What a service may take to obey is no matter of these tests, but that it does. */
const UNTIL_OBEYED = { timeout: 20_000, interval: 50 }

interface Place {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

function place(): Place {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  return { cwd, env: { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1', DATABASE_URL: 'users.db' } }
}

/** A place with a database of this release, and no service. */
async function migratedPlace(): Promise<Place> {
  const made = place()
  const database = await openSqlite({ path: join(made.cwd, 'users.db'), now: Date.now })
  database.close()
  return made
}

function bans(at: Place, ...args: string[]): Promise<FinishedProcess> {
  return run({ ...at, args: ['bans', ...args] })
}

async function listed(
  at: Place,
): Promise<readonly { rule: string; key: string; ends_at: string }[]> {
  const { code, stdout, stderr } = await bans(at, 'list', '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

async function ask({ url }: SpawnedService, path: string, client: string, apiKey?: string) {
  const headers = {
    'X-Forwarded-For': client,
    ...(apiKey !== undefined && { 'X-Api-Key': apiKey }),
  }
  const answer = await fetch(`${url}${path}`, { headers })
  await answer.arrayBuffer()
  return { status: answer.status, retryAfter: answer.headers.get('Retry-After') }
}

async function statusOf(...asked: Parameters<typeof ask>): Promise<number> {
  return (await ask(...asked)).status
}

function untilStatus(status: number, ...asked: Parameters<typeof ask>): Promise<void> {
  return vi.waitFor(async () => expect(await statusOf(...asked)).toBe(status), UNTIL_OBEYED)
}

describe('bans lift', () => {
  test('is obeyed by a running service, where the client then begins anew', async () => {
    const at = place()
    const service = await spawnService(at)
    const client = '198.51.100.1'
    for (const status of [404, 404, 403])
      expect(await statusOf(service, '/login', client)).toBe(status)
    await vi.waitFor(async () => expect(await listed(at)).toHaveLength(1), UNTIL_OBEYED)

    const { code, stdout, stderr } = await bans(at, 'lift', client)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^lifted: login {2}198\.51\.100\.1 {2}until \S+Z \(\S.*\)\n$/)
    await untilStatus(200, service, '/users', client)
    for (const status of [404, 404, 403])
      expect(await statusOf(service, '/login', client)).toBe(status)
  })

  test('is obeyed by all services of a database, which forget the strikes before it', async () => {
    const at = place()
    const [first, second] = [await spawnService(at), await spawnService(at)]
    const client = '198.51.100.1'
    expect(await statusOf(second, '/login', client)).toBe(404)
    for (const status of [404, 404, 403])
      expect(await statusOf(first, '/login', client)).toBe(status)
    await untilStatus(403, second, '/users', client)
    await bans(at, 'lift', '--all')
    await untilStatus(200, first, '/users', client)
    await untilStatus(200, second, '/users', client)
    for (const status of [404, 404, 403])
      expect(await statusOf(second, '/login', client)).toBe(status)
  })

  test('lifts bans of a client, a rule, or both, and no others; prints them', async () => {
    const at = await migratedPlace()
    const fill = () => {
      const endsAt = Date.now() + HOUR_MS
      const keys = ['198.51.100.1', '198.51.100.2']
      insert(
        at,
        keys.flatMap(key => [
          ['login', key, endsAt],
          ['by key', key, endsAt],
        ]),
      )
    }
    const left = async () => (await listed(at)).map(({ rule, key }) => `${rule} ${key}`).sort()
    fill()
    expect((await bans(at, 'lift', '198.51.100.1', '--rule', 'login')).code).toBe(0)
    expect(await left()).toEqual([
      'by key 198.51.100.1',
      'by key 198.51.100.2',
      'login 198.51.100.2',
    ])
    expect((await bans(at, 'lift', '198.51.100.2')).stdout.split('\n')).toHaveLength(3)
    expect(await left()).toEqual(['by key 198.51.100.1'])
    fill()
    expect((await bans(at, 'lift', '--rule', 'by key')).code).toBe(0)
    expect(await left()).toEqual(['login 198.51.100.1', 'login 198.51.100.2'])
    expect((await bans(at, 'lift', '--all')).code).toBe(0)
    expect(await bans(at, 'lift', '--all')).toEqual({ code: 0, stdout: 'no bans\n', stderr: '' })
  })

  test.each([
    { args: ['198.51.100.9'], line: 'there is no ban of 198.51.100.9; see bans list' },
    { args: ['--rule', 'gone'], line: 'there is no ban by the rule "gone"; see bans list' },
    {
      args: ['a\nb', '--rule', 'login'],
      line: 'there is no ban of "a\\nb" by the rule "login"; see bans list',
    },
  ])('$args of nobody ends with exit code 1 and one line', async ({ args, line }) => {
    const at = await migratedPlace()
    insert(at, [['login', '198.51.100.1', Date.now() + HOUR_MS]])
    expect(await bans(at, 'lift', ...args)).toEqual({ code: 1, stdout: '', stderr: `${line}\n` })
    expect(rowsIn(at)).toBe(1)
  })

  test.each([{ args: [] }, { args: ['x', '--all'] }, { args: ['--rule', 'login', '--all'] }])(
    'does nothing for $args but tell what it needs',
    async ({ args }) => {
      const finished = await bans(place(), 'lift', ...args)
      const line =
        'bans lift needs a KEY, --rule NAME or both, or --all; see user-records-service --help\n'
      expect(finished).toEqual({ code: 2, stdout: '', stderr: line })
    },
  )
})

describe('bans add', () => {
  test('makes a running service answer 403 with Retry-After, also after a restart', async () => {
    const at = place()
    const service = await spawnService(at)
    const { code, stdout, stderr } = await bans(
      at,
      'add',
      'login',
      '198.51.100.1',
      '--for',
      '10 minutes',
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /^banned: login {2}198\.51\.100\.1 {2}until \S+Z \((10 min 0|9 min 59) s\)\n$/,
    )
    await untilStatus(403, service, '/users', '198.51.100.1')
    const refused = await ask(service, '/users', '198.51.100.1')
    expect(Number(refused.retryAfter)).toBeGreaterThan(0)
    expect(Number(refused.retryAfter)).toBeLessThanOrEqual(600)
    expect(await statusOf(service, '/users', '198.51.100.2')).toBe(200)

    service.process.kill('SIGTERM')
    expect(await service.exited).toMatchObject({ code: 0, stderr: '' })
    expect(await statusOf(await spawnService(at), '/users', '198.51.100.1')).toBe(403)
  })

  test('bans for the bantime of the rule, in place of a ban that there is', async () => {
    const at = await migratedPlace()
    await bans(at, 'add', 'login', '198.51.100.1', '--for', '1 day')
    const before = Date.now()
    await bans(at, 'add', 'login', '198.51.100.1')
    const [ban, ...others] = await listed(at)
    expect(others).toEqual([])
    const endsAt = Date.parse(ban?.ends_at ?? '')
    expect(endsAt).toBeGreaterThanOrEqual(before + HOUR_MS)
    expect(endsAt).toBeLessThanOrEqual(Date.now() + HOUR_MS)
  })

  test('keeps out whoever the rule counts by that key, and nobody else', async () => {
    const at = place()
    const service = await spawnService(at)
    await bans(at, 'add', 'by both', '["198.51.100.1","one"]')
    await bans(at, 'add', 'by key', 'x'.repeat(5000))
    await bans(at, 'add', 'login', '2001:db8:0:1ab::3')
    await untilStatus(403, service, '/users', '2001:db8:0:1ff::9')
    expect(await statusOf(service, '/users', '198.51.100.1', 'one')).toBe(403)
    expect(await statusOf(service, '/users', '198.51.100.1', 'two')).toBe(200)
    expect(await statusOf(service, '/users', '198.51.100.2', 'one')).toBe(200)
    expect(await statusOf(service, '/users', '198.51.100.2', 'x'.repeat(5000))).toBe(403)
    expect(await bans(at, 'lift', 'x'.repeat(5000))).toMatchObject({ code: 0 })
  })

  test.each([
    {
      args: ['logins', '198.51.100.1'],
      line: 'LIMITS_FILE was "limits.json", but it has no ban rule logins, only "login", "by key", "by both", "on trial"; it may be the path',
    },
    {
      args: ['on trial', '198.51.100.1'],
      line: 'the rule "on trial" is on trial (dryRun) and keeps nobody out',
    },
    {
      args: ['login', 'ann'],
      line: 'KEY was ann, but the rule "login" counts by ip; it may be one of those',
    },
    { args: ['login', ''], line: 'KEY was "", but' },
    { args: ['login', '198.51.100.1\n'], line: 'KEY was "198.51.100.1\\n", but' },
    {
      args: ['by both', '198.51.100.1'],
      line: 'KEY was 198.51.100.1, but the rule "by both" counts by ip and header:X-Api-Key; it may be a JSON list with a text for each',
    },
  ])('refuses $args with exit code 1 and one line', async ({ args, line }) => {
    const at = await migratedPlace()
    const { code, stdout, stderr } = await bans(at, 'add', ...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr.slice(0, line.length)).toBe(line)
    expect(rowsIn(at)).toBe(0)
  })

  test.each(['', '0', '366 days', '9'.repeat(400), 'soon'])(
    'refuses --for %j with exit code 2',
    async time => {
      const { code, stdout, stderr } = await bans(
        place(),
        'add',
        'login',
        '198.51.100.1',
        `--for=${time}`,
      )
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(/^--for was .+; it may be a time such as [^\n]+\n$/)
    },
  )

  test.each([
    { env: { LIMITS_FILE: '' }, line: 'LIMITS_FILE is not set, and without its rules' },
    {
      env: { LIMITS_FILE: 'gone.json' },
      line: 'LIMITS_FILE was "gone.json": the file cannot be read (ENOENT)',
    },
    {
      env: { CACHE_STORE: 'none' },
      line: 'CACHE_STORE was "none", with which bans have no effect',
    },
  ])('refuses with $env', async ({ env, line }) => {
    const { cwd, env: others } = await migratedPlace()
    const { code, stdout, stderr } = await bans(
      { cwd, env: { ...others, ...env } },
      'add',
      'login',
      '::1',
    )
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr.slice(0, line.length)).toBe(line)
  })
})

describe('bans list', () => {
  test('prints a line for each ban, the first to end first, odd keys in quotes that lift understands', async () => {
    const at = await migratedPlace()
    expect(await bans(at, 'list')).toEqual({ code: 0, stdout: 'no bans\n', stderr: '' })
    await bans(at, 'add', 'by key', 'a\n"b" c', '--for', '2 days')
    await bans(at, 'add', 'login', '198.51.100.1')
    const { stdout } = await bans(at, 'list')
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatch(/^login {2}198\.51\.100\.1 {2}until [\d-]+T[\d:.]+Z \(\S.*\)$/)
    const [, quoted = ''] = /^"by key" {2}(".*") {2}until/.exec(lines[1] ?? '') ?? []
    expect(JSON.parse(quoted)).toBe('a\n"b" c')
    expect(await bans(at, 'lift', quoted)).toMatchObject({ code: 0 })
    expect(await listed(at)).toMatchObject([{ rule: 'login' }])
  })

  test('leaves out what has ended, and tells bans of rules that are gone', async () => {
    const at = await migratedPlace()
    insert(at, [
      ['login', 'ended', Date.now() - 1],
      ['gone', 'still', Date.now() + HOUR_MS],
    ])
    expect(await listed(at)).toMatchObject([{ rule: 'gone', key: 'still' }])
    expect(await listed({ cwd: at.cwd, env: { DATABASE_URL: 'users.db' } })).toHaveLength(1)
  })

  test('and lift take 100,000 bans, which a running service follows', async () => {
    const at = place()
    const service = await spawnService(at)
    insert(
      at,
      Array.from({ length: 100_000 }, (_, index) => [
        'login',
        `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`,
        Date.now() + HOUR_MS + index,
      ]),
    )
    await untilStatus(403, service, '/users', '10.1.2.3')
    expect(await listed(at)).toHaveLength(100_000)
    const script = `"${process.execPath}" "${MAIN}" bans list | head -n 1; echo \${PIPESTATUS[0]}`
    const shell = await promisify(execFile)('bash', ['-c', script], {
      cwd: at.cwd,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...at.env },
    })
    expect(shell.stdout).toMatch(/^login {2}10\.0\.0\.0 {2}[^\n]+\n141\n$/)
    expect(shell.stderr).toBe('')
    const { code, stdout } = await bans(at, 'lift', '--rule', 'login')
    expect(code).toBe(0)
    expect(stdout.split('\n')).toHaveLength(100_001)
    await untilStatus(200, service, '/users', '10.1.2.3')
  }, 60_000)
})

describe.each([['list'], ['lift', '--all'], ['add', 'login', '198.51.100.1']])(
  'bans %s',
  (...args) => {
    test.each([
      {
        why: 'a database that is not there',
        line: 'DATABASE_URL was "users.db", but there is no such file; it may be',
      },
      {
        why: 'a database in memory',
        env: { DATABASE_URL: ':memory:' },
        line: 'DATABASE_URL was ":memory:", but such a database is in the memory of the service',
      },
      {
        why: 'a text file',
        prepare: ({ cwd }: Place) => writeFileSync(join(cwd, 'users.db'), 'to do: nothing\n'),
        line: 'DATABASE_URL was "users.db", but it is no SQLite database; it may be',
      },
      {
        why: 'a database of an older release',
        prepare: async (at: Place) => {
          await run({ ...at, args: ['migrate'] })
          const database = new Database(join(at.cwd, 'users.db'))
          database.exec('DELETE FROM schema_migrations WHERE version > 3')
          database.close()
        },
        line: 'DATABASE_URL was "users.db", but its schema is that of an older release: bring it up to date by `migrate`',
      },
    ])(
      'refuses $why with exit code 1 and one line, and makes nothing',
      async ({ env, prepare, line }) => {
        const { cwd, env: others } = place()
        await prepare?.({ cwd, env: others })
        const files = () => readdirSync(cwd).filter(file => !/-(wal|shm)$/.test(file))
        const before = files()
        const { code, stdout, stderr } = await bans({ cwd, env: { ...others, ...env } }, ...args)
        expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
        expect(stderr).toMatch(/^[^\n]+\n$/)
        expect(stderr.slice(0, line.length)).toBe(line)
        expect(files()).toEqual(before)
      },
    )
  },
)

test.each([
  ['bans'],
  ['bans', 'drop'],
  ['bans', 'list', 'x'],
  ['bans', 'add', 'login'],
  ['bans', 'list', '--all'],
])('%s %s %s is a wrong command line', async (...args) => {
  const cwd = temporaryFolder()
  const { code, stdout, stderr } = await run({ cwd, args: args.filter(Boolean) })
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/^[^\n]+; see user-records-service --help\n$/)
  expect(existsSync(join(cwd, 'data'))).toBe(false)
})

function insert({ cwd }: Place, rows: readonly (readonly unknown[])[]): void {
  const database = new Database(join(cwd, 'users.db'), { timeout: 5000 })
  const statement = database.prepare(
    'INSERT OR REPLACE INTO bans (rule, client_key, ends_at) VALUES (?, ?, ?)',
  )
  database.transaction(() => {
    for (const row of rows) statement.run(...row)
  })()
  database.close()
}

function rowsIn({ cwd }: Place): unknown {
  const database = new Database(join(cwd, 'users.db'), { readonly: true })
  try {
    return database.prepare('SELECT count(*) FROM bans').pluck().get()
  } finally {
    database.close()
  }
}
