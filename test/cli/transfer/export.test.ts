import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { fillDatabase } from '../../support/fill-users.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'
import { sharedFolder } from '../../support/shared-folder.ts'
import { exporting, importing, ndjson } from '../../support/transfer.ts'

const DIGEST = '$2b$04$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy'

/** Names that a careless writer of JSON or CSV would damage. */
const NAMES = [
  ...['Ann', 'Bea "the" first, or second', "O'Neil; DROP", '=1+1', 'José 李 😀'],
  ...['},{"id":', '\\', '#', 'null', '"'],
]

const USERS = NAMES.map((name, index) => ({
  id: 2 * index + 1,
  name,
  email: `user${index}@example.com`,
  created_at: `2020-01-${10 + index}T12:00:00.000Z`,
  updated_at: '2026-01-31T12:00:00.123Z',
}))

const AS_NDJSON = ndjson(USERS)

/** Fills the database of a folder with the users, the first with a password. */
async function importUsers(cwd: string): Promise<void> {
  const [first, ...others] = USERS
  const input = ndjson([{ ...first, password_digest: DIGEST }, ...others])
  expect((await runCommand({ cwd, args: ['import', '-'], input })).code).toBe(0)
}

async function folderOfUsers(): Promise<string> {
  const cwd = temporaryFolder()
  await importUsers(cwd)
  return cwd
}

test.each([
  ['ndjson', []],
  ['ndjson', ['--with-digests']],
  ['csv', []],
  ['csv', ['--with-digests']],
  ['csv', ['--delimiter', ';']],
  ['csv', ['--delimiter', 'tab']],
])(
  'what is exported as %s with %j and imported elsewhere is exported again byte for byte',
  async (format, options) => {
    const cwd = await folderOfUsers()
    const file = `users.${format}`
    const withDigests = options.includes('--with-digests')
    expect((await exporting(cwd, file, ...options)).code).toBe(0)
    const text = readFileSync(join(cwd, file), 'utf8')
    expect(text.includes(DIGEST)).toBe(withDigests)
    expect(text.includes('password')).toBe(withDigests)
    const columns = ['id', 'name', 'email', 'created_at', 'updated_at']
    const delimiter = { ';': ';', tab: '\t' }[options[1] ?? '']
    if (delimiter !== undefined) expect(text.split('\n')[0]).toBe(columns.join(delimiter))

    const elsewhere = temporaryFolder()
    const imported = await importing(elsewhere, join(cwd, file))
    expect(imported).toMatchObject({ code: 0, stderr: '' })
    const again = await exporting(elsewhere, '--format', format, ...options)
    expect(again.stdout).toBe(text)
    if (!withDigests) expect((await exporting(elsewhere)).stdout).toBe(AS_NDJSON)
  },
)

test('export FILE replaces an existing file when it is complete, and only its own user can read it', async () => {
  const cwd = await folderOfUsers()
  const file = join(cwd, 'users.ndjson')
  writeFileSync(file, 'old', { mode: 0o644 })
  // Of a killed export.
  writeFileSync(join(cwd, `users.ndjson.${2 ** 31 - 1}-0a1b2c3d.partial`), '{"id"')
  const { code, stdout } = await exporting(cwd, 'users.ndjson')
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'users.ndjson: 10 users\n' })
  expect(readFileSync(file, 'utf8')).toBe(AS_NDJSON)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readdirSync(cwd).sort()).toEqual(['data', 'users.ndjson'])
})

test('export FILE --json prints a summary as JSON', async () => {
  const cwd = await folderOfUsers()
  const { code, stdout } = await exporting(cwd, 'users.csv.gz', '--json', '--name', 'ann')
  expect(code).toBe(0)
  expect(stdout).toMatch(/^.+\n$/)
  const summary = { file: 'users.csv.gz', format: 'csv', gzip: true, users: 1 }
  expect(JSON.parse(stdout)).toEqual(summary)
})

describe('of one database', () => {
  const cwd = sharedFolder()
  beforeAll(() => importUsers(cwd()))

  test.each([[[]], [['-']]])(
    'export %j writes users as the service shows them, one per line, by id',
    async args => {
      expect(await exporting(cwd(), ...args)).toEqual({ code: 0, stdout: AS_NDJSON, stderr: '' })
    },
  )

  test.each<[args: string[], ids: number[]]>([
    [['--email', 'USER1@example.com'], [3]],
    [['--name', 'ann'], [1]],
    [
      ['--created-after', '2020-01-17T12:00:00Z'],
      [17, 19],
    ],
    [
      ['--created-before', '2020-01-12T13:00:00+01:00'],
      [1, 3],
    ],
    [['--updated-after', '2026-02-01T00:00:00Z'], []],
    [['--updated-before', '2026-02-01T00:00:00Z', '--name', 'null'], [17]],
    [
      ['--sort', '-created_at', '--created-after', '2020-01-16T12:00:00Z'],
      [19, 17, 15],
    ],
  ])('export %j takes the filters and the sort of the list', async (args, ids) => {
    const { code, stdout } = await exporting(cwd(), ...args)
    expect(code).toBe(0)
    const lines = stdout.split('\n').filter(line => line !== '')
    expect(lines.map(line => JSON.parse(line).id)).toEqual(ids)
  })

  test.each<[args: string[], code: number, says: string]>([
    [['--json'], 2, '--json needs a FILE'],
    [['--delimiter', ';'], 2, '--delimiter is for CSV'],
    [['x.csv', '--delimiter', '"'], 2, '--delimiter must be one character'],
    [['x.csv', '--delimiter', ''], 2, '--delimiter must be one character'],
    [['x.csv', '--delimiter', '::'], 2, '--delimiter must be one character'],
    [['--sort', 'age'], 2, '--sort must be one of id, -id, name'],
    [['--created-after', 'soon'], 2, '--created-after must be an ISO 8601'],
    [['no/such/folder/users.csv'], 1, 'no/such/folder/users.csv cannot be written (ENOENT'],
    [['data', '--format', 'csv'], 1, 'data is not a regular file'],
    [['data/users.db', '--format', 'csv'], 2, 'data/users.db is the database'],
  ])('export %j ends with %i and one line', async (args, code, says) => {
    const finished = await exporting(cwd(), ...args)
    expect(finished).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(/^.+\n$/) })
    expect(finished.stderr).toContain(says)
    expect(existsSync(join(cwd(), 'no'))).toBe(false)
  })
})

test('export of many users, while a service changes them, has each user once', async () => {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, 5000)
  const service = await openTestApp({ env: { DATABASE_URL: join(cwd, 'data', 'users.db') } })
  let isDone = false
  const changing = (async () => {
    for (let id = 1; !isDone; id++) {
      await ask(service, `PUT /users/${id}`, { user: { name: `Changed ${id}` } })
    }
  })()
  const { code, stdout } = await exporting(cwd, '--sort', '-email')
  isDone = true
  await changing
  expect(code).toBe(0)
  const lines = stdout.trimEnd().split('\n')
  expect(lines).toHaveLength(5000)
  expect(new Set(lines.map(line => JSON.parse(line).id)).size).toBe(5000)
})

test('export of no users is empty, except for the names of the columns in CSV', async () => {
  const cwd = temporaryFolder()
  await runCommand({ cwd, args: ['migrate'] })
  expect(await exporting(cwd)).toEqual({ code: 0, stdout: '', stderr: '' })
  expect(await exporting(cwd, '--format', 'csv')).toEqual({
    code: 0,
    stdout: 'id,name,email,created_at,updated_at\n',
    stderr: '',
  })
})

test('export of a database in memory fails, because only a service can have one', async () => {
  const env = { DATABASE_URL: ':memory:' }
  const { code, stderr } = await runCommand({ cwd: temporaryFolder(), args: ['export'], env })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory of .+\n$/)
  expect(stderr).not.toContain('may be')
})

test.each<[args: string[], code: number, says: string]>([
  [[], 1, 'DATABASE_URL was "file:./data/users.db": there is no such file\n'],
  [['users.txt'], 2, 'add --format ndjson or --format csv'],
  [['--format', 'xml'], 2, '--format'],
  [['one.csv', 'two.csv'], 2, 'unexpected argument "two.csv"'],
])(
  'export %j without a database ends with %i and one line, and creates nothing',
  async (args, code, says) => {
    const cwd = temporaryFolder()
    const finished = await exporting(cwd, ...args)
    expect(finished).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(/^.+\n$/) })
    expect(finished.stderr).toContain(says)
    expect(readdirSync(cwd)).toEqual([])
  },
)
