import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { describe, expect, test } from 'vitest'
import type { LimitsFile } from '../../../src/limits/rules/limits-file.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { execute } from '../../support/databases.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { type FinishedProcess, runCommand } from '../../support/run-command.ts'

import { untilPasses } from '../../support/until.ts'

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

interface Place {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

function place(): Place {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  return { cwd, env: { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1', DATABASE_URL: 'users.db' } }
}

/** A folder with a database of this release, without a service. */
async function migratedPlace(): Promise<Place> {
  const made = place()
  const database = await openSqlite({ path: join(made.cwd, 'users.db'), now: Date.now })
  database.close()
  return made
}

/** The service of a place; a client says its address in X-Forwarded-For. */
function serve({ cwd }: Place): Promise<TestApp> {
  const env = { TRUST_PROXY: '1', DATABASE_URL: join(cwd, 'users.db') }
  return openTestApp({ env, limits: LIMITS })
}

function bans(at: Place, ...args: string[]): Promise<FinishedProcess> {
  return runCommand({ ...at, args: ['bans', ...args] })
}

async function listed(
  at: Place,
): Promise<readonly { rule: string; client: string; ends_at: string }[]> {
  const { code, stdout, stderr } = await bans(at, 'list', '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

async function ask({ url }: TestApp, path: string, client: string, apiKey?: string) {
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
  return untilPasses(async () => expect(await statusOf(...asked)).toBe(status))
}

async function expectBanAfterTwo(service: TestApp, client: string): Promise<void> {
  for (const status of [404, 404, 403]) {
    expect(await statusOf(service, '/login', client)).toBe(status)
  }
}

/** Expects exit code 1 and one line on standard error, which begins like this. */
function expectRefusal({ code, stdout, stderr }: FinishedProcess, line: string): void {
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^[^\n]+\n$/)
  expect(stderr.slice(0, line.length)).toBe(line)
}

describe('bans lift', () => {
  test('takes effect in a running service, where the client then starts from zero', async () => {
    const at = place()
    const service = await serve(at)
    const client = '198.51.100.1'
    await expectBanAfterTwo(service, client)
    await untilPasses(async () => expect(await listed(at)).toHaveLength(1))

    const { code, stdout, stderr } = await bans(at, 'lift', client)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^lifted: login {2}198\.51\.100\.1 {2}until \S+Z \(\S.*\)\n$/)
    await untilStatus(200, service, '/users', client)
    await expectBanAfterTwo(service, client)
  })

  test('takes effect in all services of a database, which forget earlier strikes', async () => {
    const at = place()
    const [first, second] = [await serve(at), await serve(at)]
    const client = '198.51.100.1'
    expect(await statusOf(second, '/login', client)).toBe(404)
    await expectBanAfterTwo(first, client)
    await untilStatus(403, second, '/users', client)
    await bans(at, 'lift', '--all')
    await untilStatus(200, first, '/users', client)
    await untilStatus(200, second, '/users', client)
    await expectBanAfterTwo(second, client)
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
    const left = async () =>
      (await listed(at)).map(({ rule, client }) => `${rule} ${client}`).sort()
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
  ])('$args without a match ends with exit code 1 and one line', async ({ args, line }) => {
    const at = await migratedPlace()
    insert(at, [['login', '198.51.100.1', Date.now() + HOUR_MS]])
    expect(await bans(at, 'lift', ...args)).toEqual({ code: 1, stdout: '', stderr: `${line}\n` })
    expect(rowsIn(at)).toBe(1)
  })

  test.each([{ args: [] }, { args: ['x', '--all'] }, { args: ['--rule', 'login', '--all'] }])(
    'with $args does nothing except say what it needs',
    async ({ args }) => {
      const finished = await bans(place(), 'lift', ...args)
      const line =
        'bans lift needs a KEY, --rule NAME or both, or --all; see user-records-service bans lift --help\n'
      expect(finished).toEqual({ code: 2, stdout: '', stderr: line })
    },
  )
})

describe('the log of a running service', () => {
  test('has a line for each ban that a command adds or lifts, once it takes effect', async () => {
    const at = place()
    const service = await serve(at)
    await bans(at, 'add', 'login', '198.51.100.1', '--for', '10 minutes')
    await bans(at, 'add', 'login', '2001:db8:0:1ab::3')
    await bans(at, 'add', 'by key', 'ann@example.com')
    await untilPasses(() => expect(linesOfBans(service)).toHaveLength(3))
    expect(linesOfBans(service)).toEqual(
      expect.arrayContaining(
        [
          { rule: 'login', client: '198.51.100.1' },
          { rule: 'login', client: '2001:db8:0:100::/56' },
          { rule: 'by key' },
        ].map(line => ({
          ...line,
          level: pino.levels.values.warn,
          time: expect.any(Number),
          msg: 'client banned by another process',
          type: 'ban',
          banEndsAt: expect.stringMatching(/Z$/),
        })),
      ),
    )
    await bans(at, 'lift', '198.51.100.1')
    await untilPasses(() => expect(linesOfBans(service)).toHaveLength(4))
    expect(linesOfBans(service).at(-1)).toMatchObject({
      level: pino.levels.values.info,
      msg: 'ban lifted by another process',
      type: 'ban',
      rule: 'login',
      client: '198.51.100.1',
    })
    // The key of a ban may identify a person.
    expect(JSON.stringify(service.logLines)).not.toContain('ann@example.com')
  })

  test('has only some of the lines if many bans of a rule are added and lifted at once', async () => {
    const at = place()
    const service = await serve(at)
    const endsAt = Date.now() + HOUR_MS
    insert(
      at,
      Array.from({ length: 1000 }, (_, index) => ['login', `192.0.2.${index}`, endsAt]),
    )
    await untilStatus(403, service, '/users', '192.0.2.9')
    await bans(at, 'lift', '--all')
    await untilStatus(200, service, '/users', '192.0.2.9')
    for (const message of ['client banned by another process', 'ban lifted by another process']) {
      const lines = await untilPasses(() => {
        const written = linesOfBans(service).filter(({ msg }) => msg === message)
        expect(written.length).toBeGreaterThanOrEqual(10)
        return written
      })
      // Ten, or more if the machine is so busy that seconds pass between them.
      expect(lines.length).toBeLessThan(500)
    }
  })
})

/** The lines about bans that other processes add and lift. */
function linesOfBans({ logLines }: TestApp): Record<string, unknown>[] {
  return logLines.filter(({ msg }) => String(msg).endsWith('by another process'))
}

describe('bans add', () => {
  test('makes a running service answer 403 with Retry-After, also after a restart', async () => {
    const at = place()
    const service = await serve(at)
    const order = ['add', 'login', '198.51.100.1', '--for', '10 minutes']
    const { code, stdout, stderr } = await bans(at, ...order)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /^banned: login {2}198\.51\.100\.1 {2}until \S+Z \((10 min 0|9 min 59) s\)\n$/,
    )
    await untilStatus(403, service, '/users', '198.51.100.1')
    const refused = await ask(service, '/users', '198.51.100.1')
    expect(Number(refused.retryAfter)).toBeGreaterThan(0)
    expect(Number(refused.retryAfter)).toBeLessThanOrEqual(600)
    expect(await statusOf(service, '/users', '198.51.100.2')).toBe(200)

    await service.stop()
    expect(await statusOf(await serve(at), '/users', '198.51.100.1')).toBe(403)
  })

  test('bans for the bantime of the rule, and replaces an existing ban', async () => {
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

  test('denies the client that the rule counts by that key, and no other', async () => {
    const at = place()
    const service = await serve(at)
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
      line: 'the rule "on trial" is in dry run and bans no client',
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
  ])('rejects $args with exit code 1 and one line', async ({ args, line }) => {
    const at = await migratedPlace()
    expectRefusal(await bans(at, 'add', ...args), line)
    expect(rowsIn(at)).toBe(0)
  })

  test.each(['', '0', '366 days', '9'.repeat(400), 'soon'])(
    'rejects --for %j with exit code 2',
    async time => {
      const order = ['add', 'login', '198.51.100.1', `--for=${time}`]
      const { code, stdout, stderr } = await bans(place(), ...order)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(/^--for was .+; it may be a time such as [^\n]+\n$/)
    },
  )

  test.each([
    { env: { LIMITS_FILE: '' }, line: 'LIMITS_FILE is not set: without its rules' },
    {
      env: { LIMITS_FILE: 'gone.json' },
      line: 'LIMITS_FILE was "gone.json": the file cannot be read (ENOENT)',
    },
    {
      env: { CACHE_STORE: 'none' },
      line: 'CACHE_STORE was "none": bans then have no effect',
    },
  ])('refuses with $env', async ({ env, line }) => {
    const { cwd, env: others } = await migratedPlace()
    const at = { cwd, env: { ...others, ...env } }
    expectRefusal(await bans(at, 'add', 'login', '::1'), line)
  })
})

describe('bans list', () => {
  test('shows no later end than the ban was added with, if the clock has gone back since', async () => {
    const at = await migratedPlace()
    insert(at, [['login', '198.51.100.1', Date.now() + 2 * HOUR_MS]])
    execute(join(at.cwd, 'users.db'), `UPDATE bans SET lasts_ms = ${HOUR_MS}`)
    const [ban] = await listed(at)
    expect(Date.parse(ban?.ends_at ?? '')).toBeLessThanOrEqual(Date.now() + HOUR_MS)
    expect((await bans(at, 'list')).stdout).toMatch(/\((?:1 h 0 min|59 min.*)\)$/m)
  })

  test('prints a line for each ban by rule and client, and odd keys in quotes that lift understands', async () => {
    const at = await migratedPlace()
    expect(await bans(at, 'list')).toEqual({ code: 0, stdout: 'no bans\n', stderr: '' })
    await bans(at, 'add', 'login', '198.51.100.1')
    await bans(at, 'add', 'by key', 'a\n"b" c', '--for', '2 days')
    const { stdout } = await bans(at, 'list')
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(2)
    expect(lines[1]).toMatch(/^login {2}198\.51\.100\.1 {2}until [\d-]+T[\d:.]+Z \(\S.*\)$/)
    const [, quoted = ''] = /^"by key" {2}(".*") {2}until/.exec(lines[0] ?? '') ?? []
    expect(JSON.parse(quoted)).toBe('a\n"b" c')
    expect((await listed(at)).map(({ rule }) => rule)).toEqual(['by key', 'login'])
    expect(await bans(at, 'lift', quoted)).toMatchObject({ code: 0 })
    expect(await listed(at)).toMatchObject([{ rule: 'login' }])
  })

  test('leaves out ended bans, and marks bans of rules that no longer exist', async () => {
    const at = await migratedPlace()
    insert(at, [
      ['login', 'ended', Date.now() - 1],
      ['gone', 'still', Date.now() + HOUR_MS],
    ])
    expect(await listed(at)).toMatchObject([{ rule: 'gone', client: 'still' }])
    expect(await listed({ cwd: at.cwd, env: { DATABASE_URL: 'users.db' } })).toHaveLength(1)
  })

  test('and lift handle 100,000 bans, which a running service follows', async () => {
    const at = place()
    const service = await serve(at)
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
    const { code, stdout } = await bans(at, 'lift', '--rule', 'login')
    expect(code).toBe(0)
    expect(stdout.split('\n')).toHaveLength(100_001)
    await untilStatus(200, service, '/users', '10.1.2.3')
  })
})

describe('bans --json', () => {
  const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

  async function printed(at: Place, ...args: string[]): Promise<unknown> {
    const { code, stdout, stderr } = await bans(at, ...args, '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    return JSON.parse(stdout)
  }

  test('prints the ban of add, the list, and the number of lifted bans', async () => {
    const at = await migratedPlace()
    const client = '198.51.100.1'
    expect(await printed(at, 'list')).toEqual([])
    const ban = { rule: 'login', client, ends_at: INSTANT }
    const added = await printed(at, 'add', 'login', client)
    expect(added).toEqual(ban)
    expect(await printed(at, 'list')).toEqual([added])
    await bans(at, 'add', 'login', '198.51.100.2', '--for', '1 day')
    expect(await printed(at, 'list')).toEqual([added, { ...ban, client: '198.51.100.2' }])
    expect(await printed(at, 'lift', client)).toEqual({ lifted: 1 })
    expect(await printed(at, 'lift', '--all')).toEqual({ lifted: 1 })
    expect(await printed(at, 'lift', '--all')).toEqual({ lifted: 0 })
  })

  test('of a lift that finds no ban prints 0, the reason separately, and exits with 1 as without --json', async () => {
    const { code, stdout, stderr } = await bans(await migratedPlace(), 'lift', 'x', '--json')
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'there is no ban of x; see bans list\n' })
    expect(JSON.parse(stdout)).toEqual({ lifted: 0 })
  })

  test('prints nothing if the command fails', async () => {
    const finished = await bans(await migratedPlace(), 'add', 'login', 'ann', '--json')
    expect(finished).toMatchObject({ code: 1, stdout: '' })
    expect(finished.stderr).toMatch(/^KEY was ann, but [^\n]+\n$/)
  })
})

describe.each([['list'], ['lift', '--all'], ['add', 'login', '198.51.100.1']])(
  'bans %s',
  (...args) => {
    test.each([
      {
        why: 'a database that is not there',
        line: 'DATABASE_URL was "users.db": there is no such file',
      },
      {
        why: 'a database in memory',
        env: { DATABASE_URL: ':memory:' },
        line: 'DATABASE_URL was ":memory:": such a database is in the memory of the service',
      },
      {
        why: 'a text file',
        prepare: ({ cwd }: Place) => writeFileSync(join(cwd, 'users.db'), 'to do: nothing\n'),
        line: 'DATABASE_URL was "users.db": it is not a SQLite database',
      },
      {
        why: 'a database of an older release',
        prepare: async (at: Place) => {
          await runCommand({ ...at, args: ['migrate'] })
          execute(join(at.cwd, 'users.db'), 'DELETE FROM schema_migrations WHERE version > 3')
        },
        line: 'DATABASE_URL was "users.db": its schema is that of an older release: run `migrate`',
      },
    ])(
      'rejects $why with exit code 1 and one line, and creates nothing',
      async ({ env, prepare, line }) => {
        const { cwd, env: others } = place()
        await prepare?.({ cwd, env: others })
        const files = () => readdirSync(cwd).filter(file => !/-(wal|shm)$/.test(file))
        const before = files()
        expectRefusal(await bans({ cwd, env: { ...others, ...env } }, ...args), line)
        expect(files()).toEqual(before)
      },
    )
  },
)

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
