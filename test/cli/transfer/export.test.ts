import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createFailingDisk, whyNoFailingDisk } from '../../support/failing-disk.ts'
import { fillDatabase } from '../../support/fill-users.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { openPipe } from '../../support/pipe.ts'
import { runCommand } from '../../support/run-command.ts'
import { MAIN, spawnService } from '../../support/spawn-service.ts'

const DIGEST = '$2b$04$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy'

/** Names that a careless writer of JSON or CSV would damage. */
const NAMES = [
  'Ann',
  'Bea "the" first, or second',
  "O'Neil; DROP",
  '=1+1',
  'José 李 😀',
  '},{"id":',
  '\\',
  '#',
  'null',
  '"',
]

const USERS = NAMES.map((name, index) => ({
  id: 2 * index + 1,
  name,
  email: `user${index}@example.com`,
  created_at: `2020-01-${10 + index}T12:00:00.000Z`,
  updated_at: '2026-01-31T12:00:00.123Z',
}))

const AS_NDJSON = USERS.map(user => `${JSON.stringify(user)}\n`).join('')

/** A folder whose database holds the users, the first with a password. */
async function folderOfUsers(): Promise<string> {
  const cwd = temporaryFolder()
  const [first, ...others] = USERS
  const rows = [{ ...first, password_digest: DIGEST }, ...others]
  const input = rows.map(row => `${JSON.stringify(row)}\n`).join('')
  expect((await runCommand({ cwd, args: ['import', '-'], input })).code).toBe(0)
  return cwd
}

function exporting(cwd: string, ...args: string[]) {
  return runCommand({ cwd, args: ['export', ...args] })
}

test('export writes users as the service shows them, one per line, by id', async () => {
  const cwd = await folderOfUsers()
  expect(await exporting(cwd)).toEqual({ code: 0, stdout: AS_NDJSON, stderr: '' })
  expect(await exporting(cwd, '-')).toEqual({ code: 0, stdout: AS_NDJSON, stderr: '' })
})

describe.each(['ndjson', 'csv'])('what is exported as %s', format => {
  test.each([[[]], [['--with-digests']]])(
    'and imported elsewhere is exported again byte for byte, with options %j',
    async options => {
      const cwd = await folderOfUsers()
      const file = `users.${format}`
      expect((await exporting(cwd, file, ...options)).code).toBe(0)
      const text = readFileSync(join(cwd, file), 'utf8')
      expect(text.includes(DIGEST)).toBe(options.length > 0)
      expect(text.includes('password')).toBe(options.length > 0)

      const elsewhere = temporaryFolder()
      writeFileSync(join(elsewhere, file), text)
      const imported = await runCommand({ cwd: elsewhere, args: ['import', file] })
      expect(imported).toMatchObject({ code: 0, stderr: '' })
      const again = await exporting(elsewhere, '--format', format, ...options)
      expect(again.stdout).toBe(text)
    },
  )
})

test.each<{ args: string[]; ids: number[] }>([
  { args: ['--email', 'USER1@example.com'], ids: [3] },
  { args: ['--name', 'ann'], ids: [1] },
  { args: ['--created-after', '2020-01-17T12:00:00Z'], ids: [17, 19] },
  { args: ['--created-before', '2020-01-12T13:00:00+01:00'], ids: [1, 3] },
  { args: ['--updated-after', '2026-02-01T00:00:00Z'], ids: [] },
  { args: ['--updated-before', '2026-02-01T00:00:00Z', '--name', 'null'], ids: [17] },
  { args: ['--sort', '-created_at', '--created-after', '2020-01-16T12:00:00Z'], ids: [19, 17, 15] },
])('export $args takes the filters and the sort of the list', async ({ args, ids }) => {
  const cwd = await folderOfUsers()
  const { code, stdout } = await exporting(cwd, ...args)
  expect(code).toBe(0)
  const exported = stdout
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line).id)
  expect(exported).toEqual(ids)
})

test.each([
  [';', ';'],
  ['tab', '\t'],
])('export of CSV separates the fields as --delimiter %s says', async (asked, delimiter) => {
  const cwd = await folderOfUsers()
  const args = ['users.csv', '--delimiter', asked, '--sort', 'id']
  expect((await exporting(cwd, ...args)).code).toBe(0)
  const text = readFileSync(join(cwd, 'users.csv'), 'utf8')
  expect(text.split('\n')[0]).toBe(
    ['id', 'name', 'email', 'created_at', 'updated_at'].join(delimiter),
  )

  const elsewhere = temporaryFolder()
  const imported = await runCommand({
    cwd: elsewhere,
    args: ['import', join(cwd, 'users.csv')],
  })
  expect(imported).toMatchObject({ code: 0, stderr: '' })
  expect((await exporting(elsewhere)).stdout).toBe(AS_NDJSON)
})

test('export FILE replaces an existing file when it is complete, and only its own user can read it', async () => {
  const cwd = await folderOfUsers()
  const file = join(cwd, 'users.ndjson')
  writeFileSync(file, 'old', { mode: 0o644 })
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
  expect(JSON.parse(stdout)).toEqual({
    file: 'users.csv.gz',
    format: 'csv',
    gzip: true,
    users: 1,
  })
})

test('export FILE removes the partial file of a killed one', async () => {
  const cwd = await folderOfUsers()
  writeFileSync(join(cwd, `users.csv.${2 ** 31 - 1}-0a1b2c3d.partial`), 'id,na')
  expect((await exporting(cwd, 'users.csv')).code).toBe(0)
  expect(readdirSync(cwd).sort()).toEqual(['data', 'users.csv'])
})

describe.skipIf(process.platform !== 'linux')('on a full disk one line says so', () => {
  test.each([[[]], [['--format', 'csv']], [['--help']]])('export %j > /dev/full', async args => {
    const cwd = await folderOfUsers()
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, [MAIN, 'export', ...args], {
      cwd,
      stdio: ['ignore', full, 'pipe'],
    })
    closeSync(full)
    let stderr = ''
    child.stderr?.on('data', chunk => {
      stderr += chunk
    })
    const [code] = await once(child, 'close')
    const stderrLine = 'standard output cannot be written (ENOSPC: no space left on device)\n'
    expect({ code, stderr }).toEqual({ code: 1, stderr: stderrLine })
  })

  test.skipIf(whyNoFailingDisk() !== undefined)('export FILE, which it names', async () => {
    const cwd = await folderOfUsers()
    mkdirSync(join(cwd, 'full'))
    const disk = createFailingDisk(join(cwd, 'full'))
    disk.fail({ writes: 'ENOSPC' })
    const finished = await runCommand({ cwd, args: ['export', 'full/users.csv'], env: disk.env })
    const stderr = 'full/users.csv cannot be written (ENOSPC: no space left on device)\n'
    expect(finished).toEqual({ code: 1, stdout: '', stderr })
    expect(readdirSync(join(cwd, 'full'))).toEqual([])
  })
})

test('export of many users, while a service changes them, has each user once', async () => {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, 5000)
  const service = await spawnService({ cwd })
  let isDone = false
  const changing = (async () => {
    for (let id = 1; !isDone; id++) {
      await fetch(`${service.url}/users/${id}`, {
        method: 'PUT',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ user: { name: `Changed ${id}` } }),
      })
    }
  })()
  const { code, stdout } = await exporting(cwd, '--sort', '-email')
  isDone = true
  await changing
  expect(code).toBe(0)
  const ids = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line).id)
  expect(new Set(ids).size).toBe(5000)
  expect(ids).toHaveLength(5000)
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

test('export to a slow reader loses nothing', async () => {
  const cwd = temporaryFolder()
  // The pipe is full of the first page, and the last page fits into the buffer of the stream.
  await fillDatabase(cwd, 1050)
  const pipe = openPipe()
  const child = spawn(process.execPath, [MAIN, 'export'], {
    cwd,
    stdio: ['ignore', pipe.writeEnd, 'inherit'],
  })
  closeSync(pipe.writeEnd)
  let text = ''
  while (child.exitCode === null) {
    text += pipe.readNow(4096)
    await sleep(2)
  }
  text += pipe.readNow()
  expect({ lines: text.split('\n').length - 1, code: child.exitCode }).toEqual({
    lines: 1050,
    code: 0,
  })
})

test('export to a reader that has stopped reading ends on a signal', async () => {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, 20_000)
  const child = spawn(process.execPath, [MAIN, 'export'], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  await once(child.stdout, 'readable')
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([143, null])
})

test('export to a reader that is gone ends quietly', async () => {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, 20_000)
  const child = spawn(process.execPath, [MAIN, 'export'], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', chunk => {
    stderr += chunk
  })
  child.stdout.once('data', () => child.stdout.destroy())
  const [code] = await once(child, 'close')
  expect({ code, stderr }).toEqual({ code: 141, stderr: '' })
})

test('export of a database in memory fails, because only a service can have one', async () => {
  const env = { DATABASE_URL: ':memory:' }
  const { code, stderr } = await runCommand({ cwd: temporaryFolder(), args: ['export'], env })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory of .+\n$/)
  expect(stderr).not.toContain('may be')
})

test.each<{ args: string[]; code: number; says: string }>([
  {
    args: [],
    code: 1,
    says: 'DATABASE_URL was "file:./data/users.db": there is no such file\n',
  },
  { args: ['users.txt'], code: 2, says: 'add --format ndjson or --format csv' },
  { args: ['--format', 'xml'], code: 2, says: '--format' },
  { args: ['one.csv', 'two.csv'], code: 2, says: 'unexpected argument "two.csv"' },
])(
  'export $args without a database ends with $code and one line, and creates nothing',
  async ({ args, code, says }) => {
    const cwd = temporaryFolder()
    const finished = await exporting(cwd, ...args)
    expect({ code: finished.code, stdout: finished.stdout }).toEqual({ code, stdout: '' })
    expect(finished.stderr).toMatch(/^.+\n$/)
    expect(finished.stderr).toContain(says)
    expect(readdirSync(cwd)).toEqual([])
  },
)

test.each<{ args: string[]; code: number; says: string }>([
  { args: ['--json'], code: 2, says: '--json needs a FILE' },
  { args: ['--delimiter', ';'], code: 2, says: '--delimiter is for CSV' },
  { args: ['x.csv', '--delimiter', '"'], code: 2, says: '--delimiter must be one character' },
  { args: ['x.csv', '--delimiter', ''], code: 2, says: '--delimiter must be one character' },
  { args: ['x.csv', '--delimiter', '::'], code: 2, says: '--delimiter must be one character' },
  { args: ['--sort', 'age'], code: 2, says: '--sort must be one of id, -id, name' },
  { args: ['--created-after', 'soon'], code: 2, says: '--created-after must be an ISO 8601' },
  {
    args: ['no/such/folder/users.csv'],
    code: 1,
    says: 'no/such/folder/users.csv cannot be written (ENOENT',
  },
  { args: ['data', '--format', 'csv'], code: 1, says: 'data is not a regular file' },
  { args: ['data/users.db', '--format', 'csv'], code: 2, says: 'data/users.db is the database' },
])('export $args ends with $code and one line', async ({ args, code, says }) => {
  const cwd = await folderOfUsers()
  const finished = await exporting(cwd, ...args)
  expect({ code: finished.code, stdout: finished.stdout }).toEqual({ code, stdout: '' })
  expect(finished.stderr).toMatch(/^.+\n$/)
  expect(finished.stderr).toContain(says)
  expect(existsSync(join(cwd, 'no'))).toBe(false)
})
