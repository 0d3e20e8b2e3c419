import { existsSync, linkSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { modeOf } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'
import { share } from '../../support/shared-app.ts'
import { exporting, folderWith, importing, ndjson } from '../../support/transfer.ts'

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

/** A folder with the database of the users, the first with a password. */
const shared = share(async atEnd => {
  const cwd = temporaryFolder(atEnd)
  const [first, ...others] = USERS
  const input = ndjson([{ ...first, password_digest: DIGEST }, ...others])
  await runCommand({ cwd, args: ['import', '-'], input })
  linkSync(join(cwd, 'data', 'users.db'), join(cwd, 'link.db'))
  return { cwd }
})

test.each([
  ['users.ndjson', []],
  ['USERS.NDJSON.GZ', ['--with-digests']],
  ['users.csv.gz', []],
  ['digests.csv', ['--with-digests']],
  ['semicolons.csv', ['--delimiter', ';']],
])(
  'what is exported to %s with %j and imported elsewhere is exported again byte for byte',
  async (file, options) => {
    const { cwd } = shared
    const read = (folder: string) => {
      const bytes = readFileSync(join(folder, file))
      return (/gz$/i.test(file) ? gunzipSync(bytes) : bytes).toString()
    }
    expect((await exporting(cwd, file, ...options)).code).toBe(0)
    const text = read(cwd)
    const withDigests = options.includes('--with-digests')
    expect(text.includes(DIGEST)).toBe(withDigests)
    expect(text.includes('password')).toBe(withDigests)
    if (options.includes(';')) expect(text).toMatch(/^id;name;email;created_at;updated_at\n/)

    const elsewhere = temporaryFolder()
    const imported = await importing(elsewhere, join(cwd, file))
    expect(imported).toMatchObject({ code: 0, stderr: '' })
    await exporting(elsewhere, file, ...options)
    expect(read(elsewhere)).toBe(text)
    expect((await exporting(elsewhere)).stdout).toBe(AS_NDJSON)
  },
)

test.each(['_', 'a', '1', ' ', '.', '@', ':', '-', '#'])(
  'CSV that is exported with the delimiter %j is read with it as it was written',
  async delimiter => {
    const args = ['odd.csv', '--delimiter', delimiter, '--with-digests']
    expect((await exporting(shared.cwd, ...args)).code).toBe(0)
    const elsewhere = temporaryFolder()
    const path = join(shared.cwd, 'odd.csv')
    expect(await importing(elsewhere, path, '--delimiter', delimiter)).toMatchObject({ code: 0 })
    expect((await exporting(elsewhere)).stdout).toBe(AS_NDJSON)
    await exporting(elsewhere, ...args)
    expect(readFileSync(join(elsewhere, 'odd.csv'), 'utf8')).toBe(readFileSync(path, 'utf8'))
  },
)

test('export FILE replaces an existing file when it is complete, and only its own user can read it', async () => {
  const { cwd } = shared
  const file = join(cwd, 'old.ndjson')
  writeFileSync(file, 'old', { mode: 0o644 })
  // Of a killed export.
  writeFileSync(`${file}.${2 ** 31 - 1}-0a1b2c3d.partial`, '{"id"')
  const { code, stdout } = await exporting(cwd, 'old.ndjson')
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'old.ndjson: 10 users\n' })
  expect(readFileSync(file, 'utf8')).toBe(AS_NDJSON)
  expect(modeOf(file)).toBe(0o600)
  expect(readdirSync(cwd).filter(name => name.startsWith('old'))).toEqual(['old.ndjson'])
})

test('export FILE --json prints a summary as JSON', async () => {
  const args = ['summary.csv.gz', '--json', '--name', 'ann']
  const { code, stdout } = await exporting(shared.cwd, ...args)
  const summary = { file: 'summary.csv.gz', format: 'csv', gzip: true, users: 1 }
  expect([code, JSON.parse(stdout)]).toEqual([0, summary])
})

test.each([[[]], [['-']]])(
  'export %j writes users as the service shows them, one per line, by id',
  async args => {
    const finished = await exporting(shared.cwd, ...args)
    expect(finished).toEqual({ code: 0, stdout: AS_NDJSON, stderr: '' })
  },
)

test.each<[args: string, ids: number[], ...values: string[]]>([
  ['--email USER1@example.com', [3]],
  ['--email', [1, 3], 'x@example.com,  user1@example.com, user0@example.com'],
  ['--created-before 2020-01-12T13:00:00+01:00', [1, 3]],
  ['--updated-after 2026-02-01T00:00:00Z', []],
  ['--updated-before 2026-02-01T00:00:00Z --name null', [17]],
  ['--created-after 2020-01-16T12:00:00Z', [15, 17, 19]],
])('export %s takes the filters of the list', async (args, ids, ...values) => {
  const { code, stdout } = await exporting(shared.cwd, ...args.split(' '), ...values)
  const lines = stdout.split('\n').filter(line => line !== '')
  expect([code, lines.map(line => JSON.parse(line).id)]).toEqual([0, ids])
})

test.each<[args: string[], code: number, says: string]>([
  [['--json'], 2, '--json needs a FILE'],
  [['users.txt'], 2, 'add --format ndjson or --format csv'],
  [['--format', 'xml'], 2, '--format'],
  [['one.csv', 'two.csv'], 2, "too many arguments for 'export'"],
  [['--delimiter', ';'], 2, '--delimiter is for CSV'],
  ...['"', '\r', '\n', '', '::', '😀'].map(
    text =>
      [['x.csv', '--delimiter', text], 2, '--delimiter must be one character'] as [
        ...[string[], number, string],
      ],
  ),
  [['--sort', 'id'], 2, "unknown option '--sort'"],
  [['--created-after', 'soon'], 2, '--created-after must be an ISO 8601'],
  [['no/such/folder/users.csv'], 1, 'no/such/folder/users.csv cannot be written (ENOENT'],
  [['data', '--format', 'csv'], 1, 'data is not a regular file'],
  [['link.db', '--format', 'csv'], 2, 'link.db is the database'],
])('export %j ends with %i and one line, and creates nothing', async (args, code, says) => {
  const finished = await exporting(shared.cwd, ...args)
  expect(finished).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(/^.+\n$/) })
  expect(finished.stderr).toContain(says)
  const names = ['no', 'users.txt', 'one.csv', 'two.csv', 'x.csv']
  expect(names.filter(name => existsSync(join(shared.cwd, name)))).toEqual([])
})

test('export of no users is empty, with the columns in CSV; without a database it fails', async () => {
  const cwd = temporaryFolder()
  const MISSING = 'DATABASE_URL was "file:./data/users.db": there is no such file\n'
  expect(await exporting(cwd)).toEqual({ code: 1, stdout: '', stderr: MISSING })
  expect(readdirSync(cwd)).toEqual([])
  await runCommand({ cwd, args: ['migrate'] })
  expect(await exporting(cwd)).toEqual({ code: 0, stdout: '', stderr: '' })
  const stdout = 'id,name,email,created_at,updated_at\n'
  expect(await exporting(cwd, '--format', 'csv')).toEqual({ code: 0, stdout, stderr: '' })
})

test('.tsv is CSV with tabs, unless --delimiter says otherwise', async () => {
  const cwd = folderWith('name,email\nAnn,ann@example.com\n', 'first.tsv')
  expect(await importing(cwd, 'first.tsv', '--delimiter', ',')).toMatchObject({ code: 0 })
  await exporting(cwd, 'users.tsv.gz')
  expect(gunzipSync(readFileSync(join(cwd, 'users.tsv.gz'))).toString()).toMatch(
    /^id\tname\temail\tcreated_at\tupdated_at\n1\tAnn\tann@example\.com\t/,
  )
  const args = ['users.tsv.gz', '--on-conflict', 'skip']
  expect((await importing(cwd, ...args)).stdout).toMatch(/^1 row, 0 created, 1 skipped; /)
})
