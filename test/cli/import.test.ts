import { existsSync, linkSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { createFailingDisk, whyNoFailingDisk } from '../support/failing-disk.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type FinishedProcess, run, spawnMain, spawnService } from '../support/spawn-service.ts'

const TIME = '2020-01-31T12:00:00.000Z'

/** The command, in a folder whose database is `data/users.db`. */
function importing(cwd: string, ...args: string[]): Promise<FinishedProcess> {
  return run({ cwd, args: ['import', ...args] })
}

function open(cwd: string): Database.Database {
  return new Database(join(cwd, 'data', 'users.db'), { readonly: true })
}

/** All users as they stand in the database. */
function usersIn(cwd: string): Record<string, unknown>[] {
  const database = open(cwd)
  const users = database
    .prepare<[], Record<string, unknown>>(
      'SELECT id, name, email, password_digest, created_at, updated_at FROM users ORDER BY id',
    )
    .all()
  database.close()
  return users
}

function ndjson(rows: readonly unknown[]): string {
  return rows.map(row => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join('')
}

/** A new folder with `users.ndjson` or `users.csv` in it. */
function folderWith(text: string | Buffer, file = 'users.ndjson'): string {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, file), text)
  return cwd
}

function refusalsIn(cwd: string): unknown[] {
  return readFileSync(join(cwd, 'rejects.ndjson'), 'utf8')
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line))
}

function manyRows(count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `User ${index}`,
    email: `user${index}@example.com`,
  }))
}

test('import brings in what a row says, and gives what it leaves out', async () => {
  const cwd = folderWith(
    ndjson([
      { name: ' Ann ', email: 'Ann@example.com', role: 'admin' },
      { id: 7, name: 'Bea', email: 'bea@example.com', created_at: TIME },
      {
        name: 'Cid',
        email: 'c@example.com',
        updated_at: '2020-01-31T14:00:00+02:00',
        password: null,
      },
    ]),
  )
  const { code, stdout, stderr } = await importing(cwd, 'users.ndjson')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^3 rows, 3 created; /)
  const [ann, bea, cid] = usersIn(cwd)
  expect(ann).toMatchObject({ id: 1, name: 'Ann', email: 'Ann@example.com', password_digest: null })
  expect(ann?.created_at).toBe(ann?.updated_at)
  expect(bea).toMatchObject({ id: 7, name: 'Bea', created_at: TIME, updated_at: TIME })
  expect(cid).toMatchObject({ id: 8, name: 'Cid', created_at: TIME, updated_at: TIME })
})

test('import of CSV takes columns in any order, quotes, CRLF, a byte order mark, empty fields and lines', async () => {
  const csv =
    '\ufeffemail,role,name,id,created_at\r\n' +
    '\r\n' +
    'ann@example.com,,"Ann ""the"" first, or second",,\r\n' +
    'bea@example.com,x,"Bea",7,2020-01-31T12:00:00Z\r\n'
  const cwd = folderWith(csv, 'users.csv')
  const { code, stderr } = await importing(cwd, 'users.csv')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(usersIn(cwd)).toMatchObject([
    { id: 1, name: 'Ann "the" first, or second', email: 'ann@example.com' },
    { id: 7, name: 'Bea', email: 'bea@example.com', created_at: TIME },
  ])
})

test('import reads standard input, as NDJSON unless it is told otherwise', async () => {
  const cwd = temporaryFolder()
  const lines = await run({
    cwd,
    args: ['import', '-'],
    input: ndjson([{ name: 'Ann', email: 'ann@example.com' }]).trimEnd(),
  })
  const table = await run({
    cwd,
    args: ['import', '-', '--format', 'csv'],
    input: 'name,email\nBea,bea@example.com',
  })
  expect([lines.code, table.code]).toEqual([0, 0])
  expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }, { name: 'Bea' }])
})

test('import hashes a password, and takes a digest as it is', async () => {
  const digest = hashBcrypt('correct horse', 4)
  const cwd = folderWith(
    ndjson([
      { name: 'Ann', email: 'ann@example.com', password: 'correct horse' },
      { name: 'Bea', email: 'bea@example.com', password_digest: digest },
    ]),
  )
  expect((await importing(cwd, 'users.ndjson')).code).toBe(0)
  const [ann, bea] = usersIn(cwd)
  expect(ann?.password_digest).toMatch(/^\$argon2id\$/)
  expect(bea?.password_digest).toBe(digest)

  // A password that the stored digest verifies is no change, any other is.
  const service = await spawnService({ cwd })
  for (const before of [ann, bea]) {
    const change = (password: string) =>
      fetch(`${service.url}/users/${before?.id}`, {
        method: 'PUT',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ user: { password } }),
      }).then(response => response.json())
    expect(await change('correct horse')).toMatchObject({ updated_at: before?.updated_at })
    const changed = (await change('another horse')) as { updated_at: string }
    expect(changed.updated_at > String(before?.updated_at)).toBe(true)
  }
})

describe('a row is refused', () => {
  const ROW = { name: 'Ann', email: 'ann@example.com' }
  const NO_ID = 'must be a whole number from 1 to 4503599627370496'
  const NO_INSTANT = 'must be an ISO 8601 instant with Z or an offset'
  const NO_DIGEST = 'is no digest of Argon2, bcrypt or scrypt that can be verified'

  const REFUSALS: readonly { row: unknown; errors: Record<string, string[]> }[] = [
    { row: 'no JSON', errors: { row: ['is not JSON'] } },
    { row: '[]', errors: { row: ['must be an object'] } },
    { row: 'null', errors: { row: ['is required'] } },
    { row: `"${'x'.repeat(2 ** 20)}"`, errors: { row: ['is longer than 1048576 bytes'] } },
    { row: {}, errors: { name: ["can't be blank"], email: ["can't be blank"] } },
    {
      row: { name: 5, email: 'nobody', password: 'short' },
      errors: {
        name: ['must be a string'],
        email: ['is invalid'],
        password: ['is too short (minimum is 8 characters)'],
      },
    },
    { row: { ...ROW, id: 0 }, errors: { id: [NO_ID] } },
    { row: { ...ROW, id: '7' }, errors: { id: [NO_ID] } },
    { row: { ...ROW, id: 2 ** 53 }, errors: { id: [NO_ID] } },
    { row: { ...ROW, created_at: 'yesterday' }, errors: { created_at: [NO_INSTANT] } },
    { row: { ...ROW, created_at: 0 }, errors: { created_at: [NO_INSTANT] } },
    { row: { ...ROW, updated_at: '9999-12-31T23:59:59Z' }, errors: { updated_at: [NO_INSTANT] } },
    { row: { ...ROW, created_at: '0000-01-01T00:00:00Z' }, errors: { created_at: [NO_INSTANT] } },
    {
      row: { ...ROW, created_at: TIME, updated_at: '2020-01-31T11:59:59Z' },
      errors: { updated_at: ['is before created_at'] },
    },
    { row: { ...ROW, password_digest: 'secret' }, errors: { password_digest: [NO_DIGEST] } },
    {
      row: { ...ROW, password: 'correct horse', password_digest: hashBcrypt('x', 4) },
      errors: { password_digest: ['cannot be given together with password'] },
    },
  ]

  test('with its line and what is wrong by field, and all others are taken', async () => {
    const good = { name: 'Bea', email: 'bea@example.com' }
    // An empty line is counted as one, and is no row.
    const cwd = folderWith(ndjson(['', ...REFUSALS.map(({ row }) => row), good]))
    const args = ['users.ndjson', '--rejects', 'rejects.ndjson']
    const { code, stdout, stderr } = await importing(cwd, ...args)
    expect({ code, stderr }).toEqual({ code: 3, stderr: '' })
    expect(stdout).toMatch(/^17 rows, 1 created, 16 refused; /)
    expect(refusalsIn(cwd)).toEqual(
      REFUSALS.map(({ errors }, index) => ({ line: index + 2, errors })),
    )
    expect(statSync(join(cwd, 'rejects.ndjson')).mode & 0o777).toBe(0o600)
    expect(usersIn(cwd)).toMatchObject([good])
  })

  test('that is not UTF-8', async () => {
    const cwd = folderWith(Buffer.from('{"name":"J\xf6rg","email":"j@example.com"}\n', 'latin1'))
    const { code } = await importing(cwd, 'users.ndjson', '--rejects', 'rejects.ndjson')
    expect(code).toBe(3)
    expect(refusalsIn(cwd)).toEqual([{ line: 1, errors: { row: ['is not UTF-8'] } }])
  })

  test('of CSV, by the line on which it begins', async () => {
    const csv = 'name,email\n"Ann\nand more",a@example.com\nBea\nCid,nobody\nDan,d@example.com\n'
    const cwd = folderWith(csv, 'users.csv')
    await importing(cwd, 'users.csv', '--rejects', 'rejects.ndjson')
    expect(refusalsIn(cwd)).toEqual([
      { line: 2, errors: { name: ['is invalid'] } },
      { line: 4, errors: { row: ['has 1 fields and not 2'] } },
      { line: 5, errors: { email: ['is invalid'] } },
    ])
    expect(usersIn(cwd)).toMatchObject([{ name: 'Dan' }])
  })
})

const whyNot = whyNoFailingDisk()
if (whyNot !== undefined) console.log(`import on a full disk is not tested: ${whyNot}`)

test.skipIf(whyNot !== undefined)(
  'import keeps all refusals, or ends, where the disk takes only half of them',
  async () => {
    const good = { name: 'Ann', email: 'ann@example.com' }
    const cwd = folderWith(ndjson([...Array.from({ length: 100 }, () => ({})), good]))
    const folder = join(cwd, 'rejects')
    mkdirSync(folder)
    const disk = createFailingDisk(folder)
    const args = ['import', 'users.ndjson', '--rejects', 'rejects/rejects.ndjson']

    disk.fail({ writes: 'ENOSPC', shortWrites: true, passes: 1 })
    const full = await run({ cwd, args, env: disk.env })
    expect(full).toMatchObject({ code: 1, stderr: 'ENOSPC: no space left on device, write\n' })
    expect(usersIn(cwd)).toEqual([])

    disk.fail({ writes: 'ENOSPC', shortWrites: true, passes: 1, failures: 1 })
    const again = await run({ cwd, args: [...args, '--resume'], env: disk.env })
    expect(again).toMatchObject({ code: 3, stderr: '' })
    expect(refusalsIn(folder).map(refusal => (refusal as { line: number }).line)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    )
  },
)

test('import shows the first ten refusals where they are not kept', async () => {
  const cwd = folderWith(ndjson(Array.from({ length: 12 }, () => ({ name: 'Ann', email: 'x' }))))
  const { code, stderr } = await importing(cwd, 'users.ndjson')
  expect(code).toBe(3)
  const lines = stderr.trimEnd().split('\n')
  expect(lines).toHaveLength(11)
  expect(lines[9]).toBe('line 10: email is invalid')
  expect(lines[10]).toBe('more is refused: --rejects FILE keeps all of it')
})

describe('where an address or an id is there already', () => {
  const OLD = { id: 1, name: 'Ann', email: 'ann@example.com', created_at: TIME, updated_at: TIME }
  const OTHER = { ...OLD, id: 2, name: 'Bea', email: 'bea@example.com' }

  async function folderAfter(rows: readonly unknown[]): Promise<string> {
    const cwd = folderWith(ndjson([OLD, OTHER]), 'old.ndjson')
    await importing(cwd, 'old.ndjson')
    writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
    return cwd
  }

  test.each([
    { row: { name: 'New', email: 'ANN@example.com' }, why: 'email has already been taken' },
    { row: { name: 'New', email: 'new@example.com', id: 2 }, why: 'id has already been taken' },
  ])('import ends there, unless told otherwise: $why', async ({ row, why }) => {
    const cwd = await folderAfter([
      { name: 'Cid', email: 'cid@example.com' },
      row,
      { name: 'Dan', email: 'dan@example.com' },
    ])
    const first = await importing(cwd, 'users.ndjson')
    expect(first.code).toBe(1)
    expect(first.stderr).toMatch(new RegExp(`^line 2: ${why}; .+\n$`))
    expect(first.stdout).toMatch(/^ended before the end: 1 rows, 1 created; /)
    expect(usersIn(cwd).map(({ name }) => name)).toEqual(['Ann', 'Bea', 'Cid'])

    const again = await importing(cwd, 'users.ndjson', '--resume', '--on-conflict', 'skip')
    expect(again.code).toBe(0)
    expect(again.stdout).toMatch(/^3 rows, 2 created, 1 skipped; 1 rows of them earlier; /)
    expect(usersIn(cwd).map(({ name }) => name)).toEqual(['Ann', 'Bea', 'Cid', 'Dan'])
  })

  test('--on-conflict skip leaves the row out, and one that comes twice in the file', async () => {
    const cwd = await folderAfter([
      { name: 'New', email: 'ANN@example.com', password: 'correct horse' },
      { name: 'Cid', email: 'cid@example.com' },
      { name: 'Cid again', email: 'cid@example.com' },
    ])
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--on-conflict', 'skip')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^3 rows, 1 created, 2 skipped; /)
    expect(usersIn(cwd).map(({ name }) => name)).toEqual(['Ann', 'Bea', 'Cid'])
    expect(usersIn(cwd)[0]?.password_digest).toBeNull()
  })

  test('--on-conflict update changes the one with the address, or else with the id', async () => {
    const cwd = await folderAfter([
      { name: 'Anna', email: 'ANN@example.com' },
      { id: 2, name: 'Bea', email: 'beatrice@example.com' },
      { id: 1, name: 'Anna', email: 'ANN@example.com' },
      { id: 1, name: 'Anna', email: 'beatrice@example.com' },
    ])
    const { code, stdout } = await importing(
      cwd,
      ...['users.ndjson', '--on-conflict', 'update', '--rejects', 'rejects.ndjson'],
    )
    expect(code).toBe(3)
    expect(stdout).toMatch(/^4 rows, 0 created, 2 updated, 1 unchanged, 1 refused; /)
    expect(refusalsIn(cwd)).toEqual([{ line: 4, errors: { email: ['has already been taken'] } }])
    const [ann, bea] = usersIn(cwd)
    expect(ann).toMatchObject({ id: 1, name: 'Anna', email: 'ANN@example.com', created_at: TIME })
    expect(bea).toMatchObject({ id: 2, name: 'Bea', email: 'beatrice@example.com' })
    expect(String(ann?.updated_at) > TIME).toBe(true)
  })

  test('--on-conflict update takes a password that is the same for no change', async () => {
    const row = { name: 'Cid', email: 'cid@example.com', password: 'correct horse' }
    const cwd = await folderAfter([row])
    await importing(cwd, 'users.ndjson')
    const before = usersIn(cwd)
    const same = await importing(cwd, 'users.ndjson', '--on-conflict', 'update')
    expect(same.stdout).toMatch(/^1 rows, 0 created, 1 unchanged; /)
    expect(usersIn(cwd)).toEqual(before)
    writeFileSync(join(cwd, 'users.ndjson'), ndjson([{ ...row, password: 'another horse' }]))
    const other = await importing(cwd, 'users.ndjson', '--on-conflict', 'update')
    expect(other.stdout).toMatch(/^1 rows, 0 created, 1 updated; /)
  })
})

describe('--dry-run', () => {
  test('tells what would become of a file, and makes no database', async () => {
    const rows = [{ name: 'Ann', email: 'ann@example.com', password: 'correct horse' }, {}]
    const cwd = folderWith(ndjson(rows))
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--dry-run')
    expect(code).toBe(3)
    expect(stdout).toMatch(/^dry run, nothing was changed: 2 rows, 1 created, 1 refused; /)
    expect(existsSync(join(cwd, 'data'))).toBe(false)
  })

  test.each(['fail', 'skip', 'update'])(
    'with --on-conflict %s tells what the import then does',
    async policy => {
      const cwd = folderWith(
        ndjson([
          { id: 1, name: 'Ann', email: 'ann@example.com' },
          { id: 2, name: 'Bea', email: 'bea@example.com' },
        ]),
        'old.ndjson',
      )
      await importing(cwd, 'old.ndjson')
      const rows = [
        { name: 'Cid', email: 'cid@example.com' },
        { name: 'Dan', email: 'dan@example.com' },
        { name: 'New', email: 'CID@example.com' },
        { name: 'Ann', email: 'ann@example.com' },
        { name: 'Anna', email: 'ANN@example.com' },
        { id: 2, name: 'Bea', email: 'beatrice@example.com' },
        { id: 2, name: 'Bea', email: 'ann@example.com' },
        // Addresses that earlier rows brought, or would have, had they been taken.
        { id: 1, name: 'Ann', email: 'anna@example.com' },
        { name: 'Eve', email: 'anna@example.com' },
        { id: 9, name: 'Dan', email: 'dan@example.com' },
        { id: 9, name: 'Fay', email: 'fay@example.com' },
      ]
      writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
      const before = usersIn(cwd)
      const args = ['users.ndjson', '--on-conflict', policy]
      const tried = await importing(cwd, ...args, '--dry-run')
      expect(usersIn(cwd)).toEqual(before)
      const done = await importing(cwd, ...args)
      const counts = (stdout: string) => stdout.replace(/^dry run.*?: /, '').replace(/;.*/s, '')
      expect(counts(tried.stdout)).toBe(counts(done.stdout))
      expect({ code: tried.code, stderr: tried.stderr }).toEqual({
        code: done.code,
        stderr: done.stderr,
      })
    },
  )
})

describe('an import that was interrupted', () => {
  const ROWS = 20_000
  /** Every tenth is refused, so that the file of refusals is put to the test as well. */
  const TEXT = ndjson(
    manyRows(ROWS).map((row, index) => (index % 10 === 9 ? { name: 'Nobody' } : row)),
  )

  async function begunImport(cwd: string, atLeast: number) {
    const child = spawnMain({
      cwd,
      args: ['import', 'users.ndjson', '--rejects', 'rejects.ndjson'],
    })
    while (countIn(cwd) < atLeast) await sleep(2)
    return child
  }

  function countIn(cwd: string): number {
    try {
      const database = open(cwd)
      try {
        return database.prepare<[], number>('SELECT count(*) FROM users').pluck().get() ?? 0
      } finally {
        database.close()
      }
    } catch {
      // Not yet made.
      return 0
    }
  }

  async function expectAllThere(cwd: string): Promise<void> {
    const { code, stdout } = await importing(
      cwd,
      ...['users.ndjson', '--rejects', 'rejects.ndjson', '--resume'],
    )
    expect(code).toBe(3)
    expect(stdout).toMatch(/^20,000 rows, 18,000 created, 2,000 refused; /)
    const expected = (manyRows(ROWS) as { email: string }[]).filter((_, index) => index % 10 !== 9)
    expect(usersIn(cwd).map(({ email }) => email)).toEqual(expected.map(({ email }) => email))
    const lines = (refusalsIn(cwd) as { line: number }[]).map(({ line }) => line)
    expect(lines).toEqual(Array.from({ length: ROWS / 10 }, (_, index) => 10 * (index + 1)))
  }

  test.each([1, 2500, 7777])('by kill -9 after %i rows goes on there', async atLeast => {
    const cwd = folderWith(TEXT)
    const child = await begunImport(cwd, atLeast)
    child.process.kill('SIGKILL')
    await child.exited
    expect(countIn(cwd)).toBeLessThan(18_000)
    await expectAllThere(cwd)
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'by %s says how far it came, ends with %i and goes on there',
    async (signal, code) => {
      const cwd = folderWith(TEXT)
      const child = await begunImport(cwd, 1)
      child.process.kill(signal)
      const finished = await child.exited
      expect(finished.code).toBe(code)
      expect(finished.stdout).toMatch(/^ended before the end: [\d,]+ rows, /)
      await expectAllThere(cwd)
    },
  )

  test('by a signal while it waits for standard input ends at once', async () => {
    const cwd = temporaryFolder()
    const child = spawnMain({ cwd, args: ['import', '-'], keepsInputOpen: true })
    child.process.stdin?.write('{"name":"Ann","email":"ann@example.com"}\n')
    while (countIn(cwd) < 1) await sleep(2)
    child.process.kill('SIGTERM')
    expect((await child.exited).code).toBe(143)
  })

  test('and was done begins nothing again', async () => {
    const cwd = folderWith(ndjson(manyRows(10)))
    await importing(cwd, 'users.ndjson', '--resume')
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--resume')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^10 rows, 10 created; 10 rows of them earlier; /)
    expect(usersIn(cwd)).toHaveLength(10)
  })

  test.each([
    ['is shorter', manyRows(5), /users\.ndjson has 5 rows, and 10 were done before\n$/],
    ['is another', manyRows(20).reverse(), /^the first 10 rows of .+ are others than before\n$/],
  ])('does not go on in a file that %s', async (_how, rows, message) => {
    const cwd = folderWith(ndjson(manyRows(10)))
    await importing(cwd, 'users.ndjson')
    writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
    const { code, stderr } = await importing(cwd, 'users.ndjson', '--resume')
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
    expect(usersIn(cwd)).toHaveLength(10)
  })

  test('of CSV goes on too, also in a file that has grown', async () => {
    const lines = Array.from({ length: 20 }, (_, index) => `User,u${index}@example.com\n`)
    const cwd = folderWith(`name,email\n${lines.slice(0, 10).join('')}`, 'users.csv')
    await importing(cwd, 'users.csv')
    writeFileSync(join(cwd, 'users.csv'), `name,email\n${lines.join('')}`)
    const { code, stdout } = await importing(cwd, 'users.csv', '--resume')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^20 rows, 20 created; 10 rows of them earlier; /)
  })
})

describe('CSV that is none ends the import with one line and code 1', () => {
  test.each<[string, string | Buffer, RegExp]>([
    ['no line', '', /^the first line names no column "name"; it may name name, email, .+\n/],
    ['no e-mail', 'name,mail\nAnn,a@example.com\n', /^the first line names no column "email"/],
    ['a column twice', 'name,email,name\n', /^the first line names "name" twice\n$/],
    [
      'a quote that is not closed',
      'name,email\nAnn,ann@example.com\n"Bea,b@example.com\n',
      /^the file is not CSV: .+ line 3.*\n$/,
    ],
    [
      'a quote amid a field',
      'name,email\nAnn,ann@example.com\nB"ea",b@example.com\n',
      /^the file is not CSV: .+ line 3.*\n$/,
    ],
    [
      'no UTF-8',
      Buffer.from('name,email\nJ\xf6rg,j@example.com\n', 'latin1'),
      /^the file is not CSV: it is not UTF-8\n$/,
    ],
  ])('%s', async (_what, text, message) => {
    const cwd = folderWith(text, 'users.csv')
    const { code, stderr } = await importing(cwd, 'users.csv')
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
  })

  test.each(['hunter2"secret', '"hunter2"secret"'])(
    'and does not show what stands there, which may be a password: %s',
    async password => {
      const cwd = folderWith(`name,email,password\nAnn,ann@example.com,${password}\n`, 'users.csv')
      const { stderr } = await importing(cwd, 'users.csv')
      expect(stderr).toBe('the file is not CSV: quotes do not match at line 2\n')
    },
  )

  test('and keeps what came before', async () => {
    const cwd = folderWith('name,email\nAnn,ann@example.com\n"Bea,b@example.com\n', 'users.csv')
    await importing(cwd, 'users.csv')
    expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }])
  })
})

test.each<{ args: string[]; code: number; says: string }>([
  { args: [], code: 2, says: "missing required argument 'file'" },
  { args: ['users.txt'], code: 2, says: 'say --format ndjson or --format csv' },
  { args: ['users.ndjson', '--format', 'xml'], code: 2, says: '--format' },
  { args: ['users.ndjson', '--on-conflict', 'merge'], code: 2, says: '--on-conflict' },
  { args: ['users.ndjson', '--resume', '--dry-run'], code: 2, says: '--resume does not go with' },
  { args: ['users.ndjson', '--rejects', './users.ndjson'], code: 2, says: '--rejects names' },
  { args: ['nowhere.ndjson'], code: 1, says: 'nowhere.ndjson cannot be read (ENOENT)' },
  { args: ['.', '--format', 'csv'], code: 1, says: '. is a folder' },
  { args: ['users.ndjson', '--rejects', 'again.ndjson'], code: 2, says: '--rejects names' },
  { args: ['users.ndjson', '--rejects', 'no/rejects'], code: 1, says: 'ENOENT' },
  { args: ['users.ndjson', '--rejects', '/dev/null'], code: 1, says: '/dev/null is no file' },
])('import $args ends with $code and one line', async ({ args, code, says }) => {
  const cwd = folderWith(ndjson(manyRows(1)))
  linkSync(join(cwd, 'users.ndjson'), join(cwd, 'again.ndjson'))
  const finished = await importing(cwd, ...args)
  expect({ code: finished.code, stdout: finished.stdout }).toEqual({ code, stdout: '' })
  expect(finished.stderr).toMatch(/^.+\n$/)
  expect(finished.stderr).toContain(says)
  expect(existsSync(join(cwd, 'data'))).toBe(false)
  expect(readFileSync(join(cwd, 'users.ndjson'), 'utf8')).toBe(ndjson(manyRows(1)))
})

test('import into memory is refused, because nothing of it would stay', async () => {
  const cwd = folderWith(ndjson(manyRows(1)))
  const env = { DATABASE_URL: ':memory:' }
  const { code, stderr } = await run({ cwd, args: ['import', 'users.ndjson'], env })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^DATABASE_URL was ":memory:", but nothing of it would stay; .+\n$/)
})

test('import beside a service that writes: neither loses anything', async () => {
  const cwd = folderWith(ndjson(manyRows(5000)))
  const service = await spawnService({ cwd })
  let isDone = false
  const created: number[] = []
  const writing = (async () => {
    while (!isDone) {
      const response = await fetch(`${service.url}/users`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({
          user: { name: 'Live', email: `live${created.length}@example.com` },
        }),
      })
      created.push(response.status)
    }
  })()
  const { code, stdout } = await importing(cwd, 'users.ndjson')
  isDone = true
  await writing
  expect({ code, stdout: stdout.split(';')[0] }).toEqual({
    code: 0,
    stdout: '5,000 rows, 5,000 created',
  })
  expect(new Set(created)).toEqual(new Set([201]))
  expect(usersIn(cwd)).toHaveLength(5000 + created.length)
})
