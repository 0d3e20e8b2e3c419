import { existsSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { createApiKey, hashApiKey, isApiKey } from '../../../src/access/api-key.ts'
import { execute } from '../../support/databases.ts'
import { isEngine } from '../../support/engine.ts'
import { databaseIn } from '../../support/new-database.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { type FinishedProcess, runCommand } from '../../support/run-command.ts'

import { executeSql, selectRows, storedBytes } from '../../support/sql.ts'

const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

const DAY_MS = 86_400_000

const SECRET = createApiKey(size => Buffer.alloc(size, 7))

interface Place {
  readonly cwd: string
  readonly databaseUrl: string
}

/** A folder without a database on SQLite, otherwise with an empty one. */
async function place(): Promise<Place> {
  const cwd = temporaryFolder()
  return { cwd, databaseUrl: await databaseIn(cwd) }
}

function keys({ cwd, databaseUrl }: Place, ...args: string[]): Promise<FinishedProcess> {
  return runCommand({ cwd, env: { DATABASE_URL: databaseUrl }, args: ['keys', ...args] })
}

/** Creates a key and returns it. */
async function create(at: Place, name: string, ...args: string[]): Promise<string> {
  const given = ['--name', name, '--scope', 'users:read', ...args]
  const { code, stdout } = await keys(at, 'create', ...given)
  expect(code).toBe(0)
  return stdout.trimEnd()
}

async function printed(at: Place, ...args: string[]) {
  const { code, stdout, stderr } = await keys(at, ...args, '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

async function namesIn(at: Place): Promise<string[]> {
  const list: { name: string }[] = await printed(at, 'list')
  return list.map(({ name }) => name)
}

describe('keys create', () => {
  test('prints the key alone on standard output, and what it may on standard error', async () => {
    const args = ['create', '--name', 'web', '--scope', 'users:write', '--scope', 'users:read']
    const { code, stdout, stderr } = await keys(await place(), ...args)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^urk_[0-9A-Za-z]{49}\n$/)
    expect(isApiKey(stdout.trimEnd())).toBe(true)
    expect(stderr).toBe(
      'created: web  users:read,users:write  never expires\nThe database has only its hash, and the key is never shown again.\n',
    )
  })

  test('stores only a hash of the key', async () => {
    const at = await place()
    const key = await create(at, 'web')
    const [row] = await selectRows(at.databaseUrl, 'SELECT key_hash FROM api_keys')
    expect(row?.key_hash).toEqual(hashApiKey(key))
    const bytes = await storedBytes(at.databaseUrl)
    expect(bytes.includes('users:read')).toBe(true)
    expect(bytes.includes(key)).toBe(false)
    expect(bytes.includes(key.slice(4, -6))).toBe(false)
  })

  test('makes another key each time', async () => {
    const at = await place()
    const made = [await create(at, 'a'), await create(at, 'b')]
    await keys(at, 'revoke', 'a')
    made.push(await create(at, 'a'))
    expect(new Set(made).size).toBe(3)
  })

  test.each([
    { args: ['--scope', 'passwords:verify,users:read'] },
    { args: ['--scope', 'passwords:verify', 'users:read'] },
    { args: ['--scope', 'users:read', '--scope', 'passwords:verify'] },
    { args: ['--scope', ' users:read , users:read', '--scope=passwords:verify,users:read'] },
  ])('takes scopes as $args', async ({ args }) => {
    const at = await place()
    const { scopes } = await printed(at, 'create', '--name', 'web', ...args)
    expect(scopes).toEqual(['users:read', 'passwords:verify'])
    expect(await printed(at, 'list')).toMatchObject([{ scopes }])
  })

  test.each([
    ['90d', 90 * DAY_MS],
    ['1 day', DAY_MS],
    ['12 hours', DAY_MS / 2],
    ['86400', DAY_MS],
    ['365 days', 365 * DAY_MS],
  ])('lets a key expire after %s', async (time, ms) => {
    const at = await place()
    const args = ['create', '--name', 'web', '--scope', 'users:read', '--expires', time]
    const { created_at, expires_at, expired } = await printed(at, ...args)
    expect(Date.parse(expires_at) - Date.parse(created_at)).toBe(ms)
    expect(expired).toBe(false)
    expect(await printed(at, 'list')).toMatchObject([{ created_at, expires_at }])
  })

  test('--json prints the key with what list prints of it', async () => {
    const at = await place()
    const { key, ...rest } = await printed(at, 'create', '--name', 'web', '--scope', 'users:read')
    expect(isApiKey(key)).toBe(true)
    expect(rest).toEqual({
      name: 'web',
      scopes: ['users:read'],
      created_at: INSTANT,
      expires_at: null,
      expired: false,
      last_used_at: null,
    })
    expect(await printed(at, 'list')).toEqual([rest])
  })

  test('refuses a taken name with exit code 1, and leaves the key of that name as it is', async () => {
    const at = await place()
    await create(at, 'web')
    const before = await selectRows(at.databaseUrl, 'SELECT * FROM api_keys')
    for (const json of [[], ['--json']]) {
      const args = ['create', '--name', 'web', '--scope', 'users:write', ...json]
      expect(await keys(at, ...args)).toEqual({
        code: 1,
        stdout: '',
        stderr: 'there is a key web already: choose another name, or revoke it first\n',
      })
    }
    expect(await selectRows(at.databaseUrl, 'SELECT * FROM api_keys')).toEqual(before)
  })

  const MAY_NAME =
    'it may be 1 to 64 letters, digits and any of . _ -, of which the first is a letter or a digit'
  const MAY_SCOPE = 'it may be users:read, users:write, passwords:verify'
  const MAY_EXPIRE = 'it may be a time such as "90d" or "1 hour", more than 0 and at most a year'

  test.each([
    { args: [], line: "required option '--name <NAME>' not specified" },
    { args: ['--name', 'web'], line: "required option '--scope <SCOPE...>' not specified" },
    { args: ['--name=', '--scope', 'users:read'], line: `--name was ""; ${MAY_NAME}` },
    { args: ['--name', 'a b', '--scope', 'users:read'], line: `--name was "a b"; ${MAY_NAME}` },
    {
      args: ['--name', 'a\nb', '--scope', 'users:read'],
      line: `--name was "a\\nb"; ${MAY_NAME}`,
    },
    { args: ['--name', 'é', '--scope', 'users:read'], line: `--name was "é"; ${MAY_NAME}` },
    {
      args: ['--name', SECRET, '--scope', 'users:read'],
      line: `--name was a key; ${MAY_NAME}`,
    },
    { args: ['--name', 'web', '--scope', ''], line: `--scope was ""; ${MAY_SCOPE}` },
    { args: ['--name', 'web', '--scope', 'users'], line: `--scope was users; ${MAY_SCOPE}` },
    {
      args: ['--name', 'web', '--scope', 'users:read,'],
      line: `--scope was ""; ${MAY_SCOPE}`,
    },
    {
      args: ['--name', 'web', '--scope', 'users:read', 'Users:Write'],
      line: `--scope was Users:Write; ${MAY_SCOPE}`,
    },
    ...['', '0', 'soon', '-1', '366 days', '2026-12-31', '9'.repeat(400)].map(time => ({
      args: ['--name', 'web', '--scope', 'users:read', `--expires=${time}`],
      line: `--expires was ${/^[\w-]+$/.test(time) ? time : JSON.stringify(time)}; ${MAY_EXPIRE}`,
    })),
  ])('$args is wrong usage', async ({ args, line }) => {
    // Not opened, so none is made on an engine with a server.
    const at = { cwd: temporaryFolder(), databaseUrl: 'users.db' }
    const help = 'see user-records-service keys create --help'
    const finished = await keys(at, 'create', ...args)
    expect(finished).toEqual({ code: 2, stdout: '', stderr: `${line}; ${help}\n` })
    expect(finished.stderr).not.toContain(SECRET)
  })
})

describe('keys list', () => {
  test('prints a line for each key by name: scopes, expiry, creation and last use', async () => {
    const at = await place()
    await create(at, 'web', '--expires', '90d')
    await create(at, 'old', '--expires', '1s')
    await create(at, 'Batch', '--scope', 'users:write')
    await executeSql(
      at.databaseUrl,
      `UPDATE api_keys SET created_at = 0, last_used_at = 1900000000000 WHERE name = 'old';
       UPDATE api_keys SET expires_at = 1000 WHERE name = 'old'`,
    )
    const { code, stdout, stderr } = await keys(at, 'list')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toEqual([
      expect.stringMatching(
        /^Batch {2}users:read,users:write {2}never expires {2}created \S+Z {2}never used$/,
      ),
      'old  users:read  expired 1970-01-01T00:00:01.000Z  created 1970-01-01T00:00:00.000Z  last used 2030-03-17T17:46:40.000Z',
      expect.stringMatching(/^web {2}users:read {2}expires \S+Z {2}created \S+Z {2}never used$/),
    ])
    expect(await printed(at, 'list')).toMatchObject([
      { name: 'Batch', expired: false, expires_at: null, last_used_at: null },
      {
        name: 'old',
        created_at: '1970-01-01T00:00:00.000Z',
        expires_at: '1970-01-01T00:00:01.000Z',
        expired: true,
        last_used_at: '2030-03-17T17:46:40.000Z',
      },
      { name: 'web', expires_at: INSTANT, expired: false },
    ])
  })

  test('says so if there are no keys', async () => {
    const at = await place()
    await runCommand({ cwd: at.cwd, env: { DATABASE_URL: at.databaseUrl }, args: ['migrate'] })
    expect(await keys(at, 'list')).toEqual({ code: 0, stdout: 'no keys\n', stderr: '' })
    expect(await printed(at, 'list')).toEqual([])
  })

  test('shows times that no date can hold as the last possible one', async () => {
    const at = await place()
    await create(at, 'web')
    await executeSql(at.databaseUrl, 'UPDATE api_keys SET expires_at = 9000000000000000')
    expect(await printed(at, 'list')).toMatchObject([
      { expires_at: '+275760-09-13T00:00:00.000Z', expired: false },
    ])
  })
})

describe('keys revoke', () => {
  test('removes the key of a name, and no other', async () => {
    const at = await place()
    for (const name of ['a', 'b', 'c']) await create(at, name)
    const revoked = { code: 0, stdout: 'revoked: b\n', stderr: '' }
    expect(await keys(at, 'revoke', 'b')).toEqual(revoked)
    expect(await namesIn(at)).toEqual(['a', 'c'])
    expect(await printed(at, 'revoke', 'a')).toEqual({ revoked: 'a' })
    expect(await namesIn(at)).toEqual(['c'])
  })

  test.each([[[]], [['--json']]])(
    'of a name that no key has ends with exit code 1 and one line, with %j',
    async json => {
      const at = await place()
      await create(at, 'web')
      for (const name of ['gone', 'WEB']) {
        expect(await keys(at, 'revoke', name, ...json)).toEqual({
          code: 1,
          stdout: '',
          stderr: `there is no key ${name}; see keys list\n`,
        })
      }
      expect(await namesIn(at)).toEqual(['web'])
    },
  )

  test('of a key instead of a name does not repeat the key', async () => {
    const finished = await keys(await place(), 'revoke', SECRET)
    expect(finished).toMatchObject({ code: 2, stdout: '' })
    expect(finished.stderr).toMatch(/^NAME was a key; it may be 1 to 64 letters, /)
    expect(finished.stderr).not.toContain(SECRET)
  })
})

test('the commands work while a service runs', async () => {
  const at = await place()
  const service = await openTestApp({ env: { DATABASE_URL: at.databaseUrl } })
  const key = await create(at, 'web')
  expect(await namesIn(at)).toEqual(['web'])
  expect(await keys(at, 'revoke', 'web')).toMatchObject({ code: 0 })
  expect(await namesIn(at)).toEqual([])
  expect(JSON.stringify(service.logLines)).not.toContain(key)
})

describe.runIf(isEngine('sqlite', 'keys commands without a usable file'))('without a file', () => {
  test('create makes the database, which a service then uses', async () => {
    const at = await place()
    await create(at, 'web')
    expect(existsSync(at.databaseUrl)).toBe(true)
    await openTestApp({ env: { DATABASE_URL: at.databaseUrl } })
    expect(await namesIn(at)).toEqual(['web'])
  })

  test('restore brings back a key that was revoked after the backup, as the guide says', async () => {
    const at = await place()
    await create(at, 'web')
    const env = { DATABASE_URL: at.databaseUrl }
    const before = await printed(at, 'list')
    expect(await runCommand({ cwd: at.cwd, env, args: ['backup', 'kept.db'] })).toMatchObject({
      code: 0,
    })
    await keys(at, 'revoke', 'web')
    await create(at, 'later')
    expect(await runCommand({ cwd: at.cwd, env, args: ['restore', 'kept.db'] })).toMatchObject({
      code: 0,
    })
    expect(await printed(at, 'list')).toEqual(before)
  })

  test.each([[['list']], [['revoke', 'web']]])('%j fails and creates nothing', async args => {
    const at = await place()
    const { code, stdout, stderr } = await keys(at, ...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^DATABASE_URL was "[^"]+users.db": there is no such file\n$/)
    expect(existsSync(at.databaseUrl)).toBe(false)
  })

  test.each([[['list']], [['revoke', 'web']], [['create', '--name=a', '--scope=users:read']]])(
    '%j refuses a database in memory',
    async args => {
      const { cwd } = await place()
      const { code, stdout, stderr } = await keys({ cwd, databaseUrl: ':memory:' }, ...args)
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory/)
    },
  )

  test.each([[['list']], [['revoke', 'web']]])('%j refuses an older schema', async args => {
    const at = await place()
    await create(at, 'web')
    execute(at.databaseUrl, 'DELETE FROM schema_migrations WHERE version > 10')
    const { code, stdout, stderr } = await keys(at, ...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/its schema is that of an older release: run `migrate`\n$/)
  })
})
