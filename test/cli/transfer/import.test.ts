import { existsSync, linkSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { describe, expect, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createFailingDisk, whyNoFailingDisk } from '../../support/failing-disk.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import {
  type FinishedProcess,
  run,
  signalled,
  spawnMain,
  spawnService,
} from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'

const TIME = '2020-01-31T12:00:00.000Z'

/** The command, in a folder whose database is `data/users.db`. */
function importing(cwd: string, ...args: string[]): Promise<FinishedProcess> {
  return run({ cwd, args: ['import', ...args] })
}

function open(cwd: string): Database {
  return new Database(join(cwd, 'data', 'users.db'), { readonly: true })
}

/** All users as stored in the database. */
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

function rejectsIn(cwd: string): unknown[] {
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

test('import stores the fields of a row, and fills in the missing ones', async () => {
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

test.each([
  ['semicolons', ';', []],
  ['tabs', '\t', []],
  ['commas', ',', []],
  ['what --delimiter says', '|', ['--delimiter', '|']],
  ['what --delimiter says by name', '\t', ['--delimiter', 'tab']],
])(
  'import of CSV with %s between the fields, and column names in other letter case',
  async (_what, delimiter, args) => {
    const csv = [
      ['E-Mail?', ' EMAIL', 'Name', '"Created_At"'],
      ['', 'ann@example.com', `"Ann${delimiter}, ""the"" first;"`, TIME],
    ]
    const cwd = folderWith(csv.map(row => `${row.join(delimiter)}\n`).join(''), 'users.csv')
    const { code, stderr } = await importing(cwd, 'users.csv', ...args)
    if (delimiter === '\t') {
      // The name contains the tab, a control character, which no name may have.
      expect({ code, stderr }).toEqual({ code: 3, stderr: 'line 2: name is invalid\n' })
      return
    }
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const name = `Ann${delimiter}, "the" first;`
    expect(usersIn(cwd)).toMatchObject([{ name, email: 'ann@example.com', created_at: TIME }])
  },
)

test('import uses --delimiter, even if the header looks different', async () => {
  const cwd = folderWith('name,email;a\nAnn,ann@example.com;b\n', 'users.csv')
  const { code, stderr } = await importing(cwd, 'users.csv', '--delimiter', ';')
  expect(code).toBe(1)
  expect(stderr).toContain('it names "name,email", "a"')
})

describe('import of a file that is not UTF-8 changes nothing and names its encoding:', () => {
  const TEXT = '\ufeffname,email\nAnn,ann@example.com\n'
  const utf16Le = Buffer.from(TEXT, 'utf16le')
  const utf16Be = Buffer.from(utf16Le).swap16()

  test.each([
    ['UTF-16 LE', utf16Le],
    ['UTF-16 BE', utf16Be],
  ])('%s', async (encoding, bytes) => {
    const cwd = folderWith(bytes, 'users.csv')
    writeFileSync(join(cwd, 'users.ndjson'), bytes)
    const convert = `iconv -f ${encoding.replace(' ', '')} -t UTF-8 converts it`
    for (const file of ['users.csv', 'users.ndjson']) {
      const { code, stdout, stderr } = await importing(cwd, file)
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toBe(`${file} is ${encoding} and not UTF-8; ${convert}\n`)
    }
  })

  test('also from standard input', async () => {
    const cwd = temporaryFolder()
    const { code, stderr } = await run({ cwd, args: ['import', '-'], input: utf16Le })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^standard input is UTF-16 LE and not UTF-8; /)
  })
})

test.each(['ndjson', 'csv'])(
  'import rejects a row of %s of more than 1 MB of UTF-8, and no shorter one',
  async format => {
    const row = (name: string) =>
      format === 'csv' ? `"${name}",a@example.com` : `{"name":"${name}","email":"a@example.com"}`
    // Each é is two bytes.
    const rowOf = (bytes: number) => {
      const nameBytes = bytes - row('').length
      return row('é'.repeat(nameBytes / 2) + 'x'.repeat(nameBytes % 2))
    }
    const rows = [rowOf(2 ** 20), rowOf(2 ** 20 + 1), rowOf(2 ** 23), row('Ann')]
    const header = format === 'csv' ? ['name,email'] : ['']
    const file = `users.${format}`
    const cwd = folderWith([...header, ...rows].join('\r\n'), file)
    const { code } = await importing(cwd, file, '--rejects', 'rejects.ndjson')
    expect(code).toBe(3)
    expect(rejectsIn(cwd)).toEqual([
      { line: 2, errors: { name: ['is too long (maximum is 255 characters)'] } },
      { line: 3, errors: { row: ['is longer than 1048576 bytes'] } },
      { line: 4, errors: { row: ['is longer than 1048576 bytes'] } },
    ])
    expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }])
  },
)

test('import reads standard input, as NDJSON without --format', async () => {
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

test('import hashes a password, and stores a digest unchanged', async () => {
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

  // A password that matches the stored digest is no change; any other one is.
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

describe('a row is rejected', () => {
  const ROW = { name: 'Ann', email: 'ann@example.com' }
  const NO_ID = 'must be a whole number from 1 to 9007199254740991'
  const NO_INSTANT = 'must be an ISO 8601 instant with Z or an offset'
  const NO_DIGEST = 'is not a digest of Argon2, bcrypt or scrypt that can be verified'

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
    {
      row: { ...ROW, updated_at: '9999-12-31T23:59:59-01:00' },
      errors: { updated_at: [NO_INSTANT] },
    },
    {
      row: { ...ROW, created_at: '0000-01-01T00:00:00+01:00' },
      errors: { created_at: [NO_INSTANT] },
    },
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

  test('with its line and messages by field, and all other rows are imported', async () => {
    const good = { name: 'Bea', email: 'bea@example.com' }
    // An empty line counts as a line, but is not a row.
    const cwd = folderWith(ndjson(['', ...REFUSALS.map(({ row }) => row), good]))
    const args = ['users.ndjson', '--rejects', 'rejects.ndjson']
    const { code, stdout, stderr } = await importing(cwd, ...args)
    expect({ code, stderr }).toEqual({ code: 3, stderr: '' })
    expect(stdout).toMatch(/^17 rows, 1 created, 16 rejected; /)
    expect(rejectsIn(cwd)).toEqual(
      REFUSALS.map(({ errors }, index) => ({ line: index + 2, errors })),
    )
    expect(statSync(join(cwd, 'rejects.ndjson')).mode & 0o777).toBe(0o600)
    expect(usersIn(cwd)).toMatchObject([good])
  })

  test('that is not UTF-8', async () => {
    const cwd = folderWith(Buffer.from('{"name":"J\xf6rg","email":"j@example.com"}\n', 'latin1'))
    const { code } = await importing(cwd, 'users.ndjson', '--rejects', 'rejects.ndjson')
    expect(code).toBe(3)
    expect(rejectsIn(cwd)).toEqual([{ line: 1, errors: { row: ['is not UTF-8'] } }])
  })

  test('of CSV, with the line on which it begins', async () => {
    const csv = 'name,email\n"Ann\nand more",a@example.com\nBea\nCid,nobody\nDan,d@example.com\n'
    const cwd = folderWith(csv, 'users.csv')
    await importing(cwd, 'users.csv', '--rejects', 'rejects.ndjson')
    expect(rejectsIn(cwd)).toEqual([
      { line: 2, errors: { name: ['is invalid'] } },
      { line: 4, errors: { row: ['has 1 fields instead of 2'] } },
      { line: 5, errors: { email: ['is invalid'] } },
    ])
    expect(usersIn(cwd)).toMatchObject([{ name: 'Dan' }])
  })
})

const whyNot = whyNoFailingDisk()
if (whyNot !== undefined) console.log(`import on a full disk is not tested: ${whyNot}`)

test.skipIf(whyNot !== undefined)(
  'import keeps all rejected rows, or ends, if the disk has room for only half of them',
  async () => {
    const good = { name: 'Ann', email: 'ann@example.com' }
    const cwd = folderWith(ndjson([...Array.from({ length: 100 }, () => ({})), good]))
    const folder = join(cwd, 'rejects')
    mkdirSync(folder)
    const disk = createFailingDisk(folder)
    const args = ['import', 'users.ndjson', '--rejects', 'rejects/rejects.ndjson']

    disk.fail({ writes: 'ENOSPC', shortWrites: true, passes: 1 })
    const full = await run({ cwd, args, env: disk.env })
    expect(full).toMatchObject({
      code: 1,
      stderr:
        '--rejects rejects/rejects.ndjson cannot be written (ENOSPC: no space left on device)\n',
    })
    expect(usersIn(cwd)).toEqual([])

    disk.fail({ writes: 'ENOSPC', shortWrites: true, passes: 1, failures: 1 })
    const again = await run({ cwd, args: [...args, '--resume'], env: disk.env })
    expect(again).toMatchObject({ code: 3, stderr: '' })
    expect(rejectsIn(folder).map(row => (row as { line: number }).line)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    )
  },
)

describe('import --json prints one object', () => {
  const NO_COUNTS = { created: 0, updated: 0, unchanged: 0, skipped: 0, refused: 0 }
  const TAKEN = { line: 2, errors: { email: ['has already been taken'] } }

  test.each([
    { args: ['--dry-run', '--on-conflict', 'fail'], code: 1, counts: { created: 1, refused: 2 } },
    { args: ['--on-conflict', 'skip'], code: 3, counts: { created: 1, skipped: 1, refused: 1 } },
  ])('of the counts: $args', async ({ args, code, counts }) => {
    const ann = { name: 'Ann', email: 'ann@example.com' }
    const cwd = folderWith(ndjson([ann, ann, {}]))
    const finished = await importing(cwd, 'users.ndjson', '--json', ...args)
    const isDryRun = args.includes('--dry-run')
    expect(finished.code).toBe(code)
    expect(finished.stdout).toMatch(/^.+\n$/)
    expect(JSON.parse(finished.stdout)).toEqual({
      end: 'done',
      dry_run: isDryRun,
      rows: 3,
      earlier_rows: 0,
      ...NO_COUNTS,
      ...counts,
      conflicts: isDryRun ? 1 : 0,
      first_conflict: isDryRun ? TAKEN : null,
      seconds: expect.any(Number),
    })
  })

  test('of an import that ended at a conflict', async () => {
    const ann = { name: 'Ann', email: 'ann@example.com' }
    const cwd = folderWith(ndjson([ann, ann, {}]))
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ end: 'conflict', rows: 1, created: 1, refused: 0 },
      ...{ conflicts: 1, first_conflict: TAKEN },
    })
  })
})

test('import shows the first ten rejected rows without --rejects', async () => {
  const cwd = folderWith(ndjson(Array.from({ length: 12 }, () => ({ name: 'Ann', email: 'x' }))))
  const { code, stderr } = await importing(cwd, 'users.ndjson')
  expect(code).toBe(3)
  const lines = stderr.trimEnd().split('\n')
  expect(lines).toHaveLength(11)
  expect(lines[9]).toBe('line 10: email is invalid')
  expect(lines[10]).toBe('more rows were rejected; --rejects FILE keeps them all')
})

describe('when an e-mail or an id is already taken', () => {
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
  ])('import ends there by default: $why', async ({ row, why }) => {
    const cwd = await folderAfter([
      { name: 'Cid', email: 'cid@example.com' },
      row,
      { name: 'Dan', email: 'dan@example.com' },
    ])
    const first = await importing(cwd, 'users.ndjson')
    expect(first.code).toBe(1)
    expect(first.stderr).toMatch(new RegExp(`^line 2: ${why}; .+\n$`))
    expect(first.stdout).toMatch(/^stopped early: 1 rows, 1 created; /)
    expect(usersIn(cwd).map(({ name }) => name)).toEqual(['Ann', 'Bea', 'Cid'])

    const again = await importing(cwd, 'users.ndjson', '--resume', '--on-conflict', 'skip')
    expect(again.code).toBe(0)
    expect(again.stdout).toMatch(/^3 rows, 2 created, 1 skipped; 1 of the rows by an earlier run; /)
    expect(usersIn(cwd).map(({ name }) => name)).toEqual(['Ann', 'Bea', 'Cid', 'Dan'])
  })

  test('--on-conflict skip skips the row, and one that comes twice in the file', async () => {
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

  test.each([
    ['skip', 0],
    ['update', 3],
    ['fail', 1],
  ])('--on-conflict %s uses no id for a row that creates no user', async (policy, code) => {
    const cwd = await folderAfter([
      { id: 2 ** 40, name: 'Ann', email: 'ann@example.com' },
      { id: 1, name: 'Ann', email: 'bea@example.com' },
      { name: 'Ann', email: 'ann@example.com' },
    ])
    expect((await importing(cwd, 'users.ndjson', '--on-conflict', policy)).code).toBe(code)
    writeFileSync(join(cwd, 'more.ndjson'), ndjson([{ name: 'Cid', email: 'cid@example.com' }]))
    await importing(cwd, 'more.ndjson')
    expect(usersIn(cwd).map(({ id }) => id)).toEqual([1, 2, 3])
  })

  test('--on-conflict update changes the user with the e-mail, otherwise with the id', async () => {
    const cwd = await folderAfter([
      { name: 'Anna', email: 'ANN@example.com' },
      { id: 2, name: 'Bea', email: 'beatrice@example.com' },
      { id: 1, name: 'Anna', email: 'ANN@example.com' },
      { id: 1, name: 'Anna', email: 'beatrice@example.com' },
      // The e-mail belongs to a user, and the id to none.
      { id: 77, name: 'Bea the third', email: 'BEATRICE@example.com' },
    ])
    const { code, stdout } = await importing(
      cwd,
      ...['users.ndjson', '--on-conflict', 'update', '--rejects', 'rejects.ndjson'],
    )
    expect(code).toBe(3)
    expect(stdout).toMatch(/^5 rows, 0 created, 3 updated, 1 unchanged, 1 rejected; /)
    expect(rejectsIn(cwd)).toEqual([{ line: 4, errors: { email: ['has already been taken'] } }])
    const [ann, bea, ...others] = usersIn(cwd)
    expect(others).toEqual([])
    expect(ann).toMatchObject({ id: 1, name: 'Anna', email: 'ANN@example.com', created_at: TIME })
    expect(bea).toMatchObject({ id: 2, name: 'Bea the third', email: 'BEATRICE@example.com' })
    expect(String(ann?.updated_at) > TIME).toBe(true)
  })

  test('--on-conflict update counts an equal password as no change', async () => {
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

  test('--on-conflict update counts a repeated row with a password as no change', async () => {
    const row = { name: 'Cid', email: 'cid@example.com', password: 'correct horse' }
    const another = { ...row, password: 'another horse' }
    const cwd = folderWith(
      ndjson([row, row, { ...row, email: 'CID@example.com' }, another, another]),
    )
    const { stdout } = await importing(cwd, 'users.ndjson', '--on-conflict', 'update')
    expect(stdout).toMatch(/^5 rows, 1 created, 2 updated, 2 unchanged; /)
  })
})

describe('--dry-run', () => {
  test('reports what an import would do, and creates no database', async () => {
    const rows = [{ name: 'Ann', email: 'ann@example.com', password: 'correct horse' }, {}]
    const cwd = folderWith(ndjson(rows))
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--dry-run')
    expect(code).toBe(3)
    expect(stdout).toMatch(/^dry run, nothing was changed: 2 rows, 1 created, 1 rejected; /)
    expect(existsSync(join(cwd, 'data'))).toBe(false)
  })

  test('with --on-conflict fail reports all conflicts, and where the import would end', async () => {
    const cwd = folderWith(ndjson([{ id: 1, name: 'Ann', email: 'ann@example.com' }]), 'old.ndjson')
    await importing(cwd, 'old.ndjson')
    const rows = [
      { name: 'Cid', email: 'cid@example.com' },
      { name: 'Ann', email: 'ANN@example.com' },
      { name: 'Cid', email: 'cid@example.com' },
      {},
      { id: 1, name: 'Dan', email: 'dan@example.com' },
      { name: 'Eve', email: 'eve@example.com' },
    ]
    writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
    const { code, stdout, stderr } = await importing(cwd, 'users.ndjson', '--dry-run')
    expect(code).toBe(1)
    expect(stdout).toMatch(/^dry run, nothing was changed: 6 rows, 2 created, 4 rejected; /)
    expect(stderr.split('\n')).toEqual([
      'line 2: email has already been taken',
      'line 3: email has already been taken',
      "line 4: name can't be blank, email can't be blank",
      'line 5: id has already been taken',
      '3 of the rejected rows conflict with other users: without --on-conflict skip or update the import would end at the first, line 2',
      '',
    ])
    await importing(cwd, 'users.ndjson', '--dry-run', '--rejects', 'rejects.ndjson')
    expect(rejectsIn(cwd).map(row => (row as { line: number }).line)).toEqual([2, 3, 4, 5])
    expect(usersIn(cwd)).toHaveLength(1)
  })

  test('hashes no password, and still recognises a repeated one', async () => {
    const row = { name: 'Ann', email: 'ann@example.com', password: 'correct horse' }
    const cwd = folderWith(ndjson([row]), 'old.ndjson')
    await importing(cwd, 'old.ndjson')
    const other = { ...row, email: 'bea@example.com' }
    writeFileSync(
      join(cwd, 'users.ndjson'),
      ndjson([row, other, other, { ...other, password: 'another horse' }]),
    )
    const args = ['users.ndjson', '--dry-run', '--on-conflict', 'update']
    const { code, stdout } = await importing(cwd, ...args)
    expect(code).toBe(0)
    expect(stdout).toMatch(/: 4 rows, 1 created, 1 updated, 2 unchanged; /)
  })

  test.each(['skip', 'update'])(
    'with --on-conflict %s predicts what the import does',
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
        // E-mails of earlier rows, both imported and rejected ones.
        { id: 1, name: 'Ann', email: 'anna@example.com' },
        { name: 'Eve', email: 'anna@example.com' },
        { id: 9, name: 'Dan', email: 'dan@example.com' },
        { id: 9, name: 'Fay', email: 'fay@example.com' },
        // An id assigned to an earlier row, an e-mail that a row has freed, and a repeated row.
        { id: 3, name: 'Gil', email: 'gil@example.com' },
        { name: 'Hal', email: 'bea@example.com' },
        { name: 'Hal', email: 'bea@example.com' },
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
  /** Every tenth row is rejected, to test the rejects file as well. */
  const TEXT = ndjson(
    manyRows(ROWS).map((row, index) => (index % 10 === 9 ? { name: 'Nobody' } : row)),
  )

  /** Repeated if the import had ended before the signal. */
  async function interrupted(signal: NodeJS.Signals, atLeast: number) {
    const args = ['import', 'users.ndjson', '--rejects', 'rejects.ndjson']
    return until(async () => {
      const cwd = folderWith(TEXT)
      const begun = () => countIn(cwd) >= atLeast
      const finished = await signalled(signal, { cwd, args, begun })
      return countIn(cwd) < 18_000 && { cwd, ...finished }
    })
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
      // Not yet created.
      return 0
    }
  }

  async function expectAllThere(cwd: string): Promise<void> {
    const { code, stdout } = await importing(
      cwd,
      ...['users.ndjson', '--rejects', 'rejects.ndjson', '--resume'],
    )
    expect(code).toBe(3)
    expect(stdout).toMatch(/^20,000 rows, 18,000 created, 2,000 rejected; /)
    const expected = (manyRows(ROWS) as { email: string }[]).filter((_, index) => index % 10 !== 9)
    expect(usersIn(cwd).map(({ email }) => email)).toEqual(expected.map(({ email }) => email))
    const lines = (rejectsIn(cwd) as { line: number }[]).map(({ line }) => line)
    expect(lines).toEqual(Array.from({ length: ROWS / 10 }, (_, index) => 10 * (index + 1)))
  }

  test.each([1, 2500, 7777])('by kill -9 after %i rows continues there', async atLeast => {
    const { cwd, code } = await interrupted('SIGKILL', atLeast)
    expect(code).toBeNull()
    await expectAllThere(cwd)
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'by %s prints its progress, ends with %i and continues there',
    async (signal, code) => {
      const { cwd, ...finished } = await interrupted(signal, 1)
      expect(finished.code).toBe(code)
      expect(finished.stdout).toMatch(/^stopped early: [\d,]+ rows, /)
      await expectAllThere(cwd)
    },
  )

  test('is not restarted by mistake: it names both options, and keeps its checkpoint', async () => {
    const cwd = folderWith(ndjson([...manyRows(10), manyRows(1)[0], ...manyRows(20).slice(10)]))
    const args = ['users.ndjson', '--rejects', 'rejects.ndjson']
    expect((await importing(cwd, ...args)).code).toBe(1)
    for (const more of [[], ['--on-conflict', 'skip']]) {
      const { code, stdout, stderr } = await importing(cwd, ...args, ...more)
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(
        /^an earlier import of .+users\.ndjson stopped after 10 rows: --resume .+ --restart .+\n$/,
      )
    }
    const tried = await importing(cwd, 'users.ndjson', '--dry-run', '--on-conflict', 'skip')
    expect(tried).toMatchObject({ code: 0, stdout: expect.stringContaining('11 skipped') })
    const resumed = await importing(cwd, ...args, '--resume', '--on-conflict', 'skip')
    expect(resumed.stdout).toMatch(
      /^21 rows, 20 created, 1 skipped; 10 of the rows by an earlier run; /,
    )

    // Now it is finished.
    const again = await importing(cwd, ...args, '--on-conflict', 'skip')
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^21 rows, 0 created, 21/),
    })
  })

  test('begins at the first row with --restart', async () => {
    const cwd = folderWith(ndjson([...manyRows(10), manyRows(1)[0], ...manyRows(20).slice(10)]))
    await importing(cwd, 'users.ndjson')
    const args = ['users.ndjson', '--restart', '--on-conflict', 'skip']
    const { code, stdout } = await importing(cwd, ...args)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^21 rows, 10 created, 11 skipped; \d+ s, /)
  })

  test('before its first row was done starts again without a message', async () => {
    const cwd = folderWith(ndjson([{ id: 1, name: 'Ann', email: 'ann@example.com' }]), 'old.ndjson')
    await importing(cwd, 'old.ndjson')
    writeFileSync(join(cwd, 'users.ndjson'), ndjson([{ name: 'Ann', email: 'ann@example.com' }]))
    expect((await importing(cwd, 'users.ndjson')).code).toBe(1)
    expect((await importing(cwd, 'users.ndjson', '--on-conflict', 'skip')).code).toBe(0)
  })

  test('by a signal while it waits for standard input ends at once', async () => {
    const cwd = temporaryFolder()
    const child = spawnMain({ cwd, args: ['import', '-'], keepsInputOpen: true })
    child.process.stdin?.write('{"name":"Ann","email":"ann@example.com"}\n')
    while (countIn(cwd) < 1) await sleep(2)
    child.process.kill('SIGTERM')
    expect((await child.exited).code).toBe(143)
  })

  test('and later finished repeats nothing', async () => {
    const cwd = folderWith(ndjson(manyRows(10)))
    await importing(cwd, 'users.ndjson', '--resume')
    const { code, stdout } = await importing(cwd, 'users.ndjson', '--resume')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^10 rows, 10 created; 10 of the rows by an earlier run; /)
    expect(usersIn(cwd)).toHaveLength(10)
  })

  test.each([
    ['is shorter', manyRows(5), /users\.ndjson has only 5 rows, and the earlier import did 10\n$/],
    [
      'is another',
      manyRows(20).reverse(),
      /^the first 10 rows of .+ have changed since the earlier import, .+\n$/,
    ],
  ])('does not continue with a file that %s', async (_how, rows, message) => {
    const cwd = folderWith(ndjson(manyRows(10)))
    await importing(cwd, 'users.ndjson')
    writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
    const { code, stderr } = await importing(cwd, 'users.ndjson', '--resume')
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
    expect(usersIn(cwd)).toHaveLength(10)
  })

  test('of CSV continues only with the same columns, in any spelling', async () => {
    const rows = 'ann@example.com,ann@example.net\nbea@example.com,bea@example.net\n'
    const cwd = folderWith(`name,email\n${rows}`, 'users.csv')
    await importing(cwd, 'users.csv')
    writeFileSync(join(cwd, 'users.csv'), `email,name\n${rows}cid@example.com,Cid\n`)
    const other = await importing(cwd, 'users.csv', '--resume')
    expect(other.code).toBe(1)
    expect(other.stderr).toMatch(
      /^the first 2 rows of .+ have changed since the earlier import, or have other col/,
    )
    expect(usersIn(cwd)).toHaveLength(2)

    const semicolons = rows.replaceAll(',', ';')
    writeFileSync(join(cwd, 'users.csv'), `Name;"EMAIL"\n${semicolons}Cid;cid@example.net\n`)
    const same = await importing(cwd, 'users.csv', '--resume')
    expect(same).toMatchObject({ code: 0, stdout: expect.stringMatching(/^3 rows, 3 created; 2 /) })
  })

  test('of CSV continues too, also in a file that has grown', async () => {
    const lines = Array.from({ length: 20 }, (_, index) => `User,u${index}@example.com\n`)
    const cwd = folderWith(`name,email\n${lines.slice(0, 10).join('')}`, 'users.csv')
    await importing(cwd, 'users.csv')
    writeFileSync(join(cwd, 'users.csv'), `name,email\n${lines.join('')}`)
    const { code, stdout } = await importing(cwd, 'users.csv', '--resume')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^20 rows, 20 created; 10 of the rows by an earlier run; /)
  })
})

test('import of CSV that ends inside a character skips that row, and continues in the corrected file', async () => {
  const whole = Buffer.from('email,name\nann@example.com,Ann\nzoe@example.com,Zo\u00eb')
  const cwd = folderWith(whole.subarray(0, -1), 'users.csv')
  const { code, stderr } = await importing(cwd, 'users.csv')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^users\.csv is not UTF-8 at line 3; .+\n$/),
  })
  expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }])

  writeFileSync(join(cwd, 'users.csv'), whole)
  expect((await importing(cwd, 'users.csv', '--resume')).code).toBe(0)
  expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }, { name: 'Zo\u00eb' }])
})

describe('invalid CSV ends the import with one line and code 1', () => {
  test.each<[string, string | Buffer, RegExp]>([
    [
      'no line',
      '',
      /^users\.csv is empty: its first line must name the columns, such as name,email\n$/,
    ],
    [
      'no e-mail',
      'Name,Mail\nAnn,a@example.com\n',
      /^the first line does not name "email"; it names "Name", "Mail"; known columns are name, email, .+\n$/,
    ],
    [
      'other columns',
      'Nom;Mail\nAnn;a@example.com\n',
      /^the first line does not name "name" and "email"; it names "Nom", "Mail"; known columns are name, .+\n$/,
    ],
    [
      'many other columns',
      `${Array.from({ length: 25 }, (_, index) => `column${index}`).join()}\n`,
      /; it names "column0", .+ "column19" and 5 more; known columns are .+\n$/,
    ],
    [
      'no header, and what may be a password',
      'Ann,a@example.com,hunter22\n',
      /^the first line holds an e-mail address, but it must name the columns, such as name,email\n$/,
    ],
    [
      'a first line of more than 1 MB',
      `name,email,${'x'.repeat(2 ** 20)}\nAnn,a@example.com,x\n`,
      /^the first line is longer than 1048576 bytes\n$/,
    ],
    [
      'a character that is cut off',
      Buffer.from('name,email\nAnn,ann@example.co\xc3', 'latin1'),
      /^users\.csv is not UTF-8 at line 2; .+\n$/,
    ],
    ['a column twice', 'name,email,name\n', /^the first line names "name" twice\n$/],
    [
      'a quote that is not closed',
      'name,email\nAnn,ann@example.com\n"Bea,b@example.com\n',
      /^the file is not CSV: .+ line 3.*\n$/,
    ],
    [
      'a quote inside a field',
      'name,email\nAnn,ann@example.com\nB"ea",b@example.com\n',
      /^the file is not CSV: .+ line 3.*\n$/,
    ],
    [
      'no UTF-8',
      Buffer.from('name,email\nJ\xf6rg,j@example.com\n', 'latin1'),
      /^users\.csv is not UTF-8 at line 2; if .+, iconv -f WINDOWS-1252 -t UTF-8 converts it\n$/,
    ],
    [
      'no UTF-8 in its header',
      Buffer.from('\r\nname,email,stra\xdfe', 'latin1'),
      /^users\.csv is not UTF-8 at line 2; /,
    ],
  ])('%s', async (_what, text, message) => {
    const cwd = folderWith(text, 'users.csv')
    const { code, stderr } = await importing(cwd, 'users.csv')
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
  })

  test.each(['hunter2"secret', '"hunter2"secret"'])(
    'and the message does not quote it, because it may be a password: %s',
    async password => {
      const cwd = folderWith(`name,email,password\nAnn,ann@example.com,${password}\n`, 'users.csv')
      const { stderr } = await importing(cwd, 'users.csv')
      expect(stderr).toBe('the file is not CSV: quotes do not match at line 2\n')
    },
  )

  const BROKEN = 'name,email\nAnn,ann@example.com\n"Bea,b@example.com\n'
  const FAULT = 'the file is not CSV: a quote is not closed in the row that begins at line 3'

  test('and keeps the rows before it, counts them, and says that --resume continues', async () => {
    const cwd = folderWith(BROKEN, 'users.csv')
    const { stdout, stderr } = await importing(cwd, 'users.csv')
    expect(stdout).toMatch(/^stopped early: 1 rows, 1 created; .+\n$/)
    expect(stderr).toBe(
      `${FAULT}; once that is fixed, --resume continues after the rows that are done\n`,
    )
    expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }])
    writeFileSync(join(cwd, 'users.csv'), BROKEN.replace('"', ''))
    const resumed = await importing(cwd, 'users.csv', '--resume')
    expect(resumed.stdout).toMatch(/^2 rows, 2 created; 1 of the rows by an earlier run; /)
  })

  test('and keeps the rows before a line that is not UTF-8', async () => {
    const text = 'name,email\nAnn,ann@example.com\nJ\xf6rg,j@example.com\n'
    const cwd = folderWith(Buffer.from(text, 'latin1'), 'users.csv')
    const broken = await importing(cwd, 'users.csv')
    expect(broken.stdout).toMatch(/^stopped early: 1 rows, 1 created; /)
    expect(broken.stderr).toMatch(/^users\.csv is not UTF-8 at line 3; .+ --resume continues .+\n$/)
    writeFileSync(join(cwd, 'users.csv'), text)
    expect((await importing(cwd, 'users.csv', '--resume')).code).toBe(0)
    expect(usersIn(cwd)).toMatchObject([{ name: 'Ann' }, { name: 'J\xf6rg' }])
  })

  test('and prints the summary as JSON with --json', async () => {
    const cwd = folderWith(BROKEN, 'users.csv')
    const { code, stdout } = await importing(cwd, 'users.csv', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ end: 'failed', rows: 1, created: 1 })
  })

  test('and a dry run does not suggest --resume', async () => {
    const cwd = folderWith(BROKEN, 'users.csv')
    const { code, stdout, stderr } = await importing(cwd, 'users.csv', '--dry-run')
    expect({ code, stderr }).toEqual({ code: 1, stderr: `${FAULT}\n` })
    expect(stdout).toMatch(/^dry run, nothing was changed: stopped early: 1 rows, 1 created; /)
  })
})

test.each<{ args: string[]; code: number; says: string }>([
  { args: [], code: 2, says: "missing required argument 'FILE'" },
  { args: ['users.txt'], code: 2, says: 'add --format ndjson or --format csv' },
  { args: ['users.ndjson', '--format', 'xml'], code: 2, says: '--format' },
  { args: ['users.ndjson', '--on-conflict', 'merge'], code: 2, says: '--on-conflict' },
  {
    args: ['users.ndjson', '--resume', '--dry-run'],
    code: 2,
    says: '--resume cannot be used with',
  },
  {
    args: ['users.ndjson', '--restart', '--dry-run'],
    code: 2,
    says: '--restart cannot be used with',
  },
  {
    args: ['users.ndjson', '--restart', '--resume'],
    code: 2,
    says: '--resume cannot be used with',
  },
  { args: ['users.ndjson', '--rejects', './users.ndjson'], code: 2, says: '--rejects names' },
  { args: ['nowhere.ndjson'], code: 1, says: 'nowhere.ndjson cannot be read (ENOENT)' },
  { args: ['.', '--format', 'csv'], code: 1, says: '. is a folder' },
  { args: ['users.ndjson', '--rejects', 'again.ndjson'], code: 2, says: '--rejects names' },
  {
    args: ['users.ndjson', '--rejects', 'no/rejects'],
    code: 1,
    says: 'no/rejects cannot be written',
  },
  { args: ['users.ndjson', '--rejects', '-'], code: 2, says: '--rejects needs a file' },
  {
    args: ['users.ndjson', '--rejects', '/dev/null'],
    code: 1,
    says: '/dev/null is not a regular file',
  },
])('import $args ends with $code and one line', async ({ args, code, says }) => {
  const cwd = folderWith(ndjson(manyRows(1)))
  linkSync(join(cwd, 'users.ndjson'), join(cwd, 'again.ndjson'))
  const finished = await importing(cwd, ...args)
  expect({ code: finished.code, stdout: finished.stdout }).toEqual({ code, stdout: '' })
  expect(finished.stderr).toMatch(/^.+\n$/)
  expect(finished.stderr).toContain(says)
  expect(existsSync(join(cwd, 'data'))).toBe(false)
  expect(existsSync(join(cwd, '-'))).toBe(false)
  expect(readFileSync(join(cwd, 'users.ndjson'), 'utf8')).toBe(ndjson(manyRows(1)))
})

test('import whose standard error nobody reads continues to its end', async () => {
  const cwd = temporaryFolder()
  const child = spawnMain({ cwd, args: ['import', '-'], keepsInputOpen: true })
  child.process.stderr?.destroy()
  const write = (line: string) => child.process.stdin?.write(`${line}\n`)
  write('{}')
  // Progress is written every five seconds.
  for (let rows = 0; rows < 6; rows++) {
    await sleep(1000)
    write(JSON.stringify({ name: 'Ann', email: `ann${rows}@example.com` }))
  }
  child.process.stdin?.end()
  const { code, stdout } = await child.exited
  expect({ code, stdout }).toEqual({
    code: 3,
    stdout: expect.stringMatching(/^7 rows, 6 created, 1 rejected; /),
  })
})

test('import into memory is refused, because it is that of a service', async () => {
  const cwd = folderWith(ndjson(manyRows(1)))
  const env = { DATABASE_URL: ':memory:' }
  const { code, stderr } = await run({ cwd, args: ['import', 'users.ndjson'], env })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^DATABASE_URL was ":memory:": such a database is in the memory of .+\n$/)
  expect(stderr).not.toContain('may be')
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
  // On a busy machine the import may have the lock for so long that a create is given up.
  const done = created.filter(status => status !== 503)
  expect(new Set(done)).toEqual(new Set([201]))
  expect(usersIn(cwd)).toHaveLength(5000 + done.length)
})
