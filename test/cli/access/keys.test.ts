import { describe, expect, test } from 'vitest'
import { createApiKey, hashApiKey, isApiKey } from '../../../src/access/api-key.ts'
import { isEngine } from '../../support/engine.ts'
import { databaseIn } from '../../support/new-database.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { type FinishedProcess, runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'
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

function run({ cwd, databaseUrl }: Place, ...args: string[]): Promise<FinishedProcess> {
  return runCommand({ cwd, env: { DATABASE_URL: databaseUrl }, args })
}

const keys = (at: Place, ...args: string[]) => run(at, 'keys', ...args)

/** Creates a key and returns it. */
async function create(at: Place, name: string, ...args: string[]): Promise<string> {
  const given = ['--name', name, '--scope', 'users:read', ...args]
  const { code, stdout } = await keys(at, 'create', ...given)
  expect(code).toBe(0)
  return stdout.trimEnd()
}

async function printed(at: Place, ...args: string[]) {
  const stdout = await stdoutOf(keys(at, ...args, '--json'))
  return JSON.parse(stdout)
}

async function namesIn(at: Place): Promise<string[]> {
  const list: { name: string }[] = await printed(at, 'list')
  return list.map(({ name }) => name)
}

describe('keys create', () => {
  test('prints the key alone on standard output, and stores only a hash of it', async () => {
    const at = await place()
    const args = ['create', '--name', 'web', '--scope', 'users:write', '--scope', 'users:read']
    const { code, stdout, stderr } = await keys(at, ...args)
    const key = stdout.slice(0, -1)
    expect([code, isApiKey(key), stdout]).toEqual([0, true, `${key}\n`])
    expect(stderr).toBe(
      'created: web  users:read,users:write  never expires\nThe database has only its hash, and the key is never shown again.\n',
    )
    const [row] = await selectRows(at.databaseUrl, 'SELECT key_hash FROM api_keys')
    expect(row?.key_hash).toEqual(hashApiKey(key))
    const bytes = await storedBytes(at.databaseUrl)
    expect(bytes.includes('users:read')).toBe(true)
    expect(bytes.includes(key.slice(4, -6))).toBe(false)
  })

  test('makes another key each time, also of a name that is free again', async () => {
    const at = await place()
    const made = [await create(at, 'a'), await create(at, 'b')]
    await keys(at, 'revoke', 'a')
    made.push(await create(at, 'a'))
    expect(new Set(made).size).toBe(3)
  })

  test.each([
    { args: ['--scope', 'passwords:verify,users:read'] },
    { args: ['--scope', 'passwords:verify', 'users:read'] },
    { args: ['--scope', ' users:read , users:read', '--scope=passwords:verify,users:read'] },
  ])('takes scopes as $args', async ({ args }) => {
    const { scopes } = await printed(await place(), 'create', '--name', 'web', ...args)
    expect(scopes).toEqual(['users:read', 'passwords:verify'])
  })

  test.each([
    ['90d', 90 * DAY_MS],
    ['12 hours', DAY_MS / 2],
    ['86400', DAY_MS],
    ['365 days', 365 * DAY_MS],
  ])('lets a key expire after %s', async (time, ms) => {
    const at = await place()
    const args = ['create', '--name', 'web', '--scope', 'users:read', '--expires', time]
    const { created_at, expires_at, expired } = await printed(at, ...args)
    expect([Date.parse(expires_at) - Date.parse(created_at), expired]).toEqual([ms, false])
    expect(await printed(at, 'list')).toMatchObject([{ created_at, expires_at }])
  })

  test('--json prints the key with what list prints of it', async () => {
    const at = await place()
    const name = `0.a-B_${'x'.repeat(58)}`
    const { key, ...rest } = await printed(at, 'create', '--name', name, '--scope', 'users:read')
    expect(isApiKey(key)).toBe(true)
    expect(rest).toEqual({
      ...{ name, scopes: ['users:read'], created_at: INSTANT },
      ...{ expires_at: null, expired: false, last_used_at: null },
    })
    expect(await printed(at, 'list')).toEqual([rest])
  })

  test('refuses a taken name with exit code 1, and leaves the key of that name as it is', async () => {
    const at = await place()
    await create(at, 'web')
    const before = await selectRows(at.databaseUrl, 'SELECT * FROM api_keys')
    const args = ['create', '--name', 'web', '--scope', 'users:write', '--json']
    const stderr = 'there is a key web already: choose another name, or revoke it first\n'
    expect(await keys(at, ...args)).toEqual({ code: 1, stdout: '', stderr })
    expect(await selectRows(at.databaseUrl, 'SELECT * FROM api_keys')).toEqual(before)
  })

  test.each([
    ['ENOSPC', 1, 'standard output cannot be written (ENOSPC: no space left on device)\n'],
    ['EPIPE', 141, ''],
  ])('leaves no key behind that it could not print (%s)', async (error, code, stderr) => {
    const at = await place()
    await create(at, 'other')
    const message = `${error}: no space left on device, write`
    const outputFault = Object.assign(new Error(message), { code: error, syscall: 'write' })
    for (const asJson of [[], ['--json']]) {
      const args = ['keys', 'create', '--name', 'web', '--scope', 'users:read', ...asJson]
      const env = { DATABASE_URL: at.databaseUrl }
      const finished = await runCommand({ cwd: at.cwd, env, args, outputFault })
      expect(finished).toEqual({ code, stdout: '', stderr })
      expect(await namesIn(at)).toEqual(['other'])
    }
  })

  const MAY_NAME =
    'it may be 1 to 64 letters, digits and any of . _ -, of which the first is a letter or a digit'
  const MAY_SCOPE = 'it may be users:read, users:write, passwords:verify'
  const MAY_EXPIRE = 'it may be a time such as "90d" or "1 hour", more than 0 and at most a year'
  const WEB = ['--name', 'web']
  const VALID = [...WEB, '--scope', 'users:read']

  test.each([
    [[], "required option '--name <NAME>' not specified"],
    [WEB, "required option '--scope <SCOPE...>' not specified"],
    ...[
      ['', '""'],
      ['a\nb', '"a\\nb"'],
      ['é', '"é"'],
      ['-web', '-web'],
      ['..', '..'],
      ['x'.repeat(65), 'x'.repeat(65)],
      [SECRET, 'a key'],
    ].map(
      ([name, shown]) =>
        [[`--name=${name}`, '--scope', 'users:read'], `--name was ${shown}; ${MAY_NAME}`] as [
          string[],
          string,
        ],
    ),
    [[...WEB, '--scope', 'users:read,'], `--scope was ""; ${MAY_SCOPE}`],
    [[...VALID, 'Users:Write'], `--scope was Users:Write; ${MAY_SCOPE}`],
    [[...VALID, '--expires='], `--expires was ""; ${MAY_EXPIRE}`],
    [[...VALID, '--expires=0'], `--expires was 0; ${MAY_EXPIRE}`],
    [[...VALID, '--expires=soon'], `--expires was soon; ${MAY_EXPIRE}`],
    [[...VALID, '--expires=366 days'], `--expires was "366 days"; ${MAY_EXPIRE}`],
    [[...VALID, '--expires=2026-12-31'], `--expires was 2026-12-31; ${MAY_EXPIRE}`],
  ])('%j is wrong usage', async (args, line) => {
    // Not opened, so none is made on an engine with a server.
    const finished = await keys(
      { cwd: temporaryFolder(), databaseUrl: 'users.db' },
      'create',
      ...args,
    )
    const stderr = `${line}; see --help\n`
    expect(finished).toEqual({ code: 2, stdout: '', stderr })
    expect(finished.stderr).not.toContain(SECRET)
  })
})

test('keys list prints a line for each key by name: scopes, expiry, creation and last use', async () => {
  const at = await place()
  expect(await run(at, 'migrate')).toMatchObject({ code: 0 })
  expect(await keys(at, 'list')).toEqual({ code: 0, stdout: 'no keys\n', stderr: '' })
  expect(await printed(at, 'list')).toEqual([])
  for (const name of ['web', 'old', 'far']) await create(at, name, '--expires', '90d')
  await create(at, 'Batch', '--scope', 'users:write')
  await executeSql(
    at.databaseUrl,
    `UPDATE api_keys SET created_at = 0, last_used_at = 1900000000000, expires_at = 1000 WHERE name = 'old';
     UPDATE api_keys SET expires_at = 9000000000000000 WHERE name = 'far'`,
  )
  const stdout = await stdoutOf(keys(at, 'list'))
  // A time that no date can hold is shown as the last possible one.
  const last = '+275760-09-13T00:00:00.000Z'
  expect(stdout.replaceAll(/(created|expires) 20[^ ]+Z/g, '$1 T').split('\n')).toEqual([
    'Batch  users:read,users:write  never expires  created T  never used',
    `far  users:read  expires ${last}  created T  never used`,
    'old  users:read  expired 1970-01-01T00:00:01.000Z  created 1970-01-01T00:00:00.000Z  last used 2030-03-17T17:46:40.000Z',
    'web  users:read  expires T  created T  never used',
    '',
  ])
  expect(await printed(at, 'list')).toMatchObject([
    { name: 'Batch', expired: false, expires_at: null, last_used_at: null },
    { name: 'far', expired: false, expires_at: last },
    { name: 'old', expired: true, last_used_at: '2030-03-17T17:46:40.000Z' },
    { name: 'web', expired: false, expires_at: INSTANT },
  ])
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

  test('of a name that no key has ends with exit code 1 and one line', async () => {
    const at = await place()
    await create(at, 'web')
    for (const args of [['gone'], ['WEB'], ['WEB', '--json']]) {
      const stderr = `there is no key ${args[0]}; see keys list\n`
      expect(await keys(at, 'revoke', ...args)).toEqual({ code: 1, stdout: '', stderr })
    }
    expect(await namesIn(at)).toEqual(['web'])
  })

  test('of a key instead of a name does not repeat the key', async () => {
    const stderr = await stderrOf(keys(await place(), 'revoke', SECRET), 2)
    expect(stderr).toMatch(/^NAME was a key; it may be 1 to 64 letters, /)
    expect(stderr).not.toContain(SECRET)
  })
})

test.runIf(isEngine('sqlite', 'keys create without a file'))(
  'keys create makes the database, which a service then uses',
  async () => {
    const at = await place()
    await create(at, 'web')
    await openTestApp({ env: { DATABASE_URL: at.databaseUrl } })
    expect(await namesIn(at)).toEqual(['web'])
  },
)
