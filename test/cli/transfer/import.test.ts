import { existsSync, linkSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { modeOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand, stdoutOf } from '../../support/run-command.ts'
import {
  folderWith,
  importing,
  manyRows,
  namesIn,
  ndjson,
  refusalOf,
  rejectsIn,
  takenUsers,
  usersIn,
} from '../../support/transfer.ts'

const TIME = '2020-01-31T12:00:00.000Z'

const ANN = { name: 'Ann', email: 'ann@example.com' }

const BCRYPT = '$2b$04$RQtlsC7ue5hODLwZHch7Sel0enVDRiap0oh/n5J50yj5VZhBrQeE2'

const KEEP_REJECTS = ['--rejects', 'rejects.ndjson']

test('import stores the fields of a row, and fills in the missing ones', async () => {
  const cwd = folderWith(
    ndjson([
      { name: ' Ann ', email: 'Ann@example.com', role: 'admin' },
      { id: '7', name: 'Bea', email: 'bea@example.com', created_at: TIME },
      { name: 'Cid', email: 'c@example.com', updated_at: '2020-01-31T14:00:00+02:00' },
    ]),
  )
  expect(await stdoutOf(importing(cwd, 'users.ndjson'))).toMatch(/^3 rows, 3 created; /)
  const [ann, bea, cid] = usersIn(cwd)
  expect(ann).toMatchObject({ id: 1, name: 'Ann', email: 'Ann@example.com', password_digest: null })
  expect(ann?.created_at).toBe(ann?.updated_at)
  expect(bea).toMatchObject({ id: 7, name: 'Bea', created_at: TIME, updated_at: TIME })
  expect(cid).toMatchObject({ id: 8, name: 'Cid', created_at: TIME, updated_at: TIME })
})

test.each([
  ['commas', ',', []],
  ['semicolons', ';', []],
  ['tabs', '\t', []],
  ['what --delimiter says', '|', ['--delimiter', '|']],
])(
  'import of CSV with %s takes columns in any order and case, quotes, CRLF, a byte order mark and empty lines',
  async (_what, delimiter, args) => {
    const rows = [
      ['Role', ' EMAIL', 'Name', 'id', '"Created_At"'],
      [],
      ['', 'ann@example.com', `"Ann ""the"" first, or; second"`, '', TIME],
      ['x', 'bea@example.com', 'Bea', '7', ''],
    ]
    const text = rows.map(row => `${row.join(delimiter)}\r\n`).join('')
    expect(await takenUsers(`\ufeff${text}`, 'users.csv', ...args)).toMatchObject([
      { id: 1, name: 'Ann "the" first, or; second', email: 'ann@example.com', created_at: TIME },
      { id: 7, name: 'Bea', email: 'bea@example.com' },
    ])
  },
)

/** What is read of each: one user, Ann, B. */
const SPREADSHEETS: readonly (readonly [what: string, text: string, ...args: string[]])[] = [
  [
    'a quoted first line sep=;, and a byte order mark',
    '\ufeff"sep=;"\n"name";"email"\nAnn, B;ann@example.com\n',
  ],
  ['sep= of a tab', 'SEP=\t\rname\temail\rAnn, B\tann@example.com\r'],
  [
    '--delimiter, which is stronger',
    'sep=;\nname|email\nAnn, B|ann@example.com\n',
    '--delimiter=|',
  ],
  ['blanks around quotes', 'name, email\n"Ann, B" ,\t"ann@example.com"  \n "", "" \n'],
  ['line ends of three kinds', 'name,email\r\n\r\n\r\r"Ann, B",ann@example.com\n\n'],
  ['rows of nothing', ',,\n , \nname,email\n,\n  ,  \n"",""\n"Ann, B",ann@example.com\n,,,,\n'],
  ['cells beyond the headings', 'name,email\n"Ann, B",ann@example.com,, ,""\n'],
  ['headings that are empty', ',name,,email,, \n,"Ann, B",,ann@example.com,\n'],
  ['a line end in a heading', '"x\n,,y";name;email\n1;"Ann, B";ann@example.com\n'],
  ['headings that stand twice', 'x,name,X,email,x\n1,"Ann, B",2,ann@example.com,\n'],
  [
    'a delimiter in a quoted heading',
    '"Last, first";"E-Mail"\n"Ann, B";ann@example.com\n',
    ...['--column', 'Last, first=name', '--column', 'E-Mail=email'],
  ],
]

describe('import takes CSV as spreadsheets save it', () => {
  test.each(SPREADSHEETS)('with %s', async (_what, text, ...args) => {
    const users = await takenUsers(text, 'users.csv', ...args)
    expect(users).toMatchObject([{ id: 1, name: 'Ann, B', email: 'ann@example.com' }])
  })

  test('but loses no value beyond the headings, and names lines as they are', async () => {
    const rows = ['sep=,', 'name,,email', ',,', 'Ann,,a@example.com', 'Bea,,b@example.com,,y', '']
    const cwd = folderWith(rows.join('\n'), 'users.csv')
    expect((await importing(cwd, 'users.csv', ...KEEP_REJECTS)).code).toBe(3)
    expect(rejectsIn(cwd)).toEqual([{ line: 5, errors: { row: ['has 5 fields instead of 3'] } }])
  })

  test('and leaves columns without a heading, which it names once if they have a value', async () => {
    const rows = [',name,,email,', '0,Ann,,a@example.com,', '1,Bea,,b@example.com,x', '']
    const cwd = folderWith(rows.join('\n'), 'users.csv')
    const stderr = [1, 5].map(place => `column ${place} has no heading and is left\n`).join('')
    expect(await importing(cwd, 'users.csv')).toMatchObject({ code: 0, stderr })
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
  })
})

test.each([
  ['2026-01-31 12:00:00.123+00', '2026-01-31T12:00:00.123Z'],
  ['2026-01-31 12:00:00.123999+05:30', '2026-01-31T06:30:00.123Z'],
  ['2026-01-31 12:00:00-0330', '2026-01-31T15:30:00.000Z'],
  [' 2026-01-31 12:00:00 UTC ', '2026-01-31T12:00:00.000Z'],
  ['1690000000', '2023-07-22T04:26:40.000Z'],
  [1690000000, '2023-07-22T04:26:40.000Z'],
  ['1690000000123', '2023-07-22T04:26:40.123Z'],
  [1690000000123, '2023-07-22T04:26:40.123Z'],
  ['2023-07-22 04:26:40 +0200', '2023-07-22T02:26:40.000Z'],
  ['2023-07-22 04:26:40.1234567 +02:00', '2023-07-22T02:26:40.123Z'],
  ['2023-07-22 04:26:40.123456 +0000 UTC', '2023-07-22T04:26:40.123Z'],
])('import takes the time %j as %s', async (time, stored) => {
  const users = await takenUsers(ndjson([{ ...ANN, created_at: time }]), 'users.ndjson')
  expect(users).toMatchObject([{ created_at: stored, updated_at: stored }])
})

test('import takes a zero date as left out, and no change before the creation', async () => {
  const rows = [
    { ...ANN, created_at: '0000-00-00 00:00:00', updated_at: TIME },
    { ...ANN, email: 'b@example.com', created_at: TIME, updated_at: '2020-01-31T11:59:59Z' },
    { ...ANN, email: 'c@example.com', created_at: TIME, updated_at: '0000-00-00' },
  ]
  const times = { created_at: TIME, updated_at: TIME }
  expect(await takenUsers(ndjson(rows), 'users.ndjson')).toMatchObject([times, times, times])
})

test('import --passwords plain takes hexadecimal digits as passwords, and no other digest', async () => {
  const password = '5f4dcc3b5aa765d61d8327deb882cf99'
  const rows = [
    { ...ANN, password },
    { ...ANN, email: 'b@example.com', password: BCRYPT },
  ]
  const cwd = folderWith(ndjson(rows))
  const { code, stderr } = await importing(cwd, 'users.ndjson', '--passwords', 'plain')
  expect([code, stderr]).toEqual([3, expect.stringContaining('line 2: password is a digest: ')])
  expect(usersIn(cwd)).toMatchObject([{ password_digest: expect.stringMatching(/^\$argon2id\$/) }])
})

test.each(['ndjson', 'csv'])(
  'import rejects a row of %s of more than a million characters, and no shorter one',
  async format => {
    const row = (name: string) =>
      format === 'csv' ? `"${name}",a@example.com` : `{"name":"${name}","email":"a@example.com"}`
    const rowOf = (chars: number) => row('é'.repeat(chars - row('').length))
    const header = format === 'csv' ? 'name,email' : ''
    const rows = [header, rowOf(2 ** 20), rowOf(2 ** 20 + 1), row('Ann')]
    const file = `users.${format}`
    const cwd = folderWith(rows.join('\r\n'), file)
    expect((await importing(cwd, file, ...KEEP_REJECTS)).code).toBe(3)
    expect(rejectsIn(cwd)).toEqual([
      { line: 2, errors: { name: ['is too long (maximum is 255 characters)'] } },
      { line: 3, errors: { row: ['is longer than 1048576 characters'] } },
    ])
    expect(namesIn(cwd)).toEqual(['Ann'])
  },
)

test('import reads standard input, JSON without --format', async () => {
  const cwd = temporaryFolder()
  const inputs = [
    { args: ['import', '-'], input: ndjson([ANN]).trimEnd() },
    { args: ['import', '-', '--format', 'csv'], input: 'name,email\nBea,bea@example.com' },
  ]
  for (const given of inputs) expect(await runCommand({ cwd, ...given })).toMatchObject({ code: 0 })
  expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
})

test('import hashes a password, and stores a digest in its canonical form', async () => {
  const bea = { name: 'Bea', email: 'bea@example.com', password_digest: `{CRYPT}${BCRYPT}` }
  const rows = ndjson([{ ...ANN, password: 'correct horse' }, bea])
  expect(await takenUsers(rows, 'users.ndjson')).toMatchObject([
    { password_digest: expect.stringMatching(/^\$argon2id\$/) },
    { password_digest: BCRYPT },
  ])
})

test('a digest in another spelling than the stored one is no change, and exports have one form', async () => {
  const row = { ...ANN, password_digest: BCRYPT }
  const cwd = folderWith(ndjson([row]))
  await importing(cwd, 'users.ndjson')
  const database = new Database(join(cwd, 'data', 'users.db'))
  const spelled = BCRYPT.replace('$2b$', '$2y$')
  database.prepare('UPDATE users SET password_digest = ?').run(spelled)
  database.close()
  for (const password_digest of [BCRYPT, `{BLF-CRYPT}${spelled}`]) {
    writeFileSync(join(cwd, 'other.ndjson'), ndjson([{ ...row, password_digest }]))
    const options = ['--on-conflict', 'update', '--restart', '--json']
    const summary = await stdoutOf(importing(cwd, 'other.ndjson', ...options))
    expect(JSON.parse(summary)).toMatchObject({ unchanged: 1 })
  }
  expect(usersIn(cwd)).toMatchObject([{ password_digest: spelled }])
  const args = ['export', '-', '--with-digests']
  expect(JSON.parse(await stdoutOf(runCommand({ cwd, args })))).toMatchObject(row)
})

describe('a row is rejected', () => {
  /** Has no text, because its own `toString` is no function. */
  const NO_TEXT = { toString: 1 }
  const NO_ID = { id: ['must be a whole number from 1 to 9007199254740991'] }
  const NO_INSTANT = ['must be an ISO 8601 instant with Z or an offset']
  const NO_ZONE = ['has no time zone: write it with Z or an offset, such as 2026-01-31T12:00:00Z']
  const NO_DIGEST = ['is not a digest of a known kind']
  const COSTLY = ['would take too much memory or time to verify']
  const IS_DIGEST = {
    password: ['is a digest: --column "password=password_digest" takes it as one'],
  }
  const IS_OTHER = {
    password: ['is a digest of a kind that is not known: import the user without it'],
  }
  const IS_BARE = {
    password: [
      'is hexadecimal digits, as digests are: import without this column, or with --passwords plain if they are passwords',
    ],
  }
  const BOTH = { password: 'correct horse', password_digest: BCRYPT }

  const REJECTED: readonly (readonly [row: unknown, errors: Record<string, string[]>])[] = [
    ['no JSON', { row: ['is not JSON'] }],
    ['[]', { row: ['must be an object'] }],
    [{}, { name: ["can't be blank"], email: ["can't be blank"] }],
    [
      { name: 5, email: 'nobody', password: 'short' },
      {
        name: ['must be a string'],
        email: ['is invalid'],
        password: ['is too short (minimum is 8 characters)'],
      },
    ],
    [{ ...ANN, id: 0 }, NO_ID],
    [{ ...ANN, id: '07' }, NO_ID],
    [{ ...ANN, id: 2 ** 53 }, NO_ID],
    [{ ...ANN, id: NO_TEXT }, NO_ID],
    [{ ...ANN, id: { $numberLong: NO_TEXT } }, NO_ID],
    [{ ...ANN, created_at: 'yesterday' }, { created_at: NO_INSTANT }],
    [{ ...ANN, created_at: '2023-07-22 04:26:40' }, { created_at: NO_ZONE }],
    [{ ...ANN, created_at: '2023-07-22T04:26:40.123' }, { created_at: NO_ZONE }],
    [{ ...ANN, created_at: '2023-07-22' }, { created_at: NO_ZONE }],
    [{ ...ANN, created_at: '2023-02-30T04:26:40.000Z' }, { created_at: NO_INSTANT }],
    [{ ...ANN, created_at: 169_000_000 }, { created_at: NO_INSTANT }],
    [{ ...ANN, created_at: 16_900_000_001 }, { created_at: NO_INSTANT }],
    [{ ...ANN, created_at: 1_690_000_000.5 }, { created_at: NO_INSTANT }],
    [{ ...ANN, created_at: true }, { created_at: NO_INSTANT }],
    [{ ...ANN, created_at: { $date: NO_TEXT } }, { created_at: NO_INSTANT }],
    [{ ...ANN, updated_at: '9999-12-31T23:59:59-01:00' }, { updated_at: NO_INSTANT }],
    [{ ...ANN, created_at: '0000-01-01T00:00:00+01:00' }, { created_at: NO_INSTANT }],
    [{ ...ANN, password: '$1$Xy7Qp2Lm$abc' }, IS_OTHER],
    [{ ...ANN, password: '5f4dcc3b5aa765d61d8327deb882cf99' }, IS_BARE],
    [{ ...ANN, password_digest: 'secret' }, { password_digest: NO_DIGEST }],
    [{ ...ANN, password_digest: BCRYPT.replace('$04$', '$17$') }, { password_digest: COSTLY }],
    [{ ...ANN, password_digest: 7 }, { password_digest: ['must be a string'] }],
    [{ ...ANN, password: BCRYPT }, IS_DIGEST],
    [{ ...ANN, password: ` ${BCRYPT}\t` }, IS_DIGEST],
    [{ ...ANN, password: BCRYPT.replace('$04$', '$17$') }, IS_DIGEST],
    [{ ...ANN, password: 'pbkdf2_sha256$600000$salt$hash=' }, IS_DIGEST],
    [{ ...ANN, password: `scrypt:32768:8:1$salt$${'a'.repeat(128)}` }, IS_DIGEST],
    [{ ...ANN, ...BOTH }, { password_digest: ['cannot be given together with password'] }],
  ]

  test('with its line and messages by field, and all other rows are imported', async () => {
    // An empty line counts as a line, but is not a row.
    const text = ndjson(['', ...REJECTED.map(([row]) => row), ANN])
    const cwd = folderWith(text)
    const stdout = await stdoutOf(importing(cwd, 'users.ndjson', ...KEEP_REJECTS), 3)
    expect(stdout).toMatch(/^33 rows, 1 created, 32 rejected; /)
    expect(rejectsIn(cwd)).toEqual(
      REJECTED.map(([, errors], index) => ({ line: index + 2, errors })),
    )
    expect(modeOf(join(cwd, 'rejects.ndjson'))).toBe(0o600)
    expect(usersIn(cwd)).toMatchObject([ANN])
  })

  test('of CSV, with the line on which it begins', async () => {
    const csv = 'name,email\n"Ann\nand more",a@example.com\nBea\nCid,nobody\nDan,d@example.com\n'
    const cwd = folderWith(csv, 'users.csv')
    writeFileSync(join(cwd, 'rejects.ndjson'), 'of an earlier import')
    await importing(cwd, 'users.csv', ...KEEP_REJECTS)
    expect(rejectsIn(cwd)).toEqual([
      { line: 2, errors: { name: ['is invalid'] } },
      { line: 4, errors: { email: ["can't be blank"] } },
      { line: 5, errors: { email: ['is invalid'] } },
    ])
    expect(namesIn(cwd)).toEqual(['Dan'])
  })

  test('and shown without --rejects, if it is one of the first ten', async () => {
    const cwd = folderWith(ndjson(Array.from({ length: 12 }, () => ({ name: 'Ann', email: 'x' }))))
    const { code, stderr } = await importing(cwd, 'users.ndjson')
    expect(code).toBe(3)
    expect(stderr.trimEnd().split('\n')).toEqual([
      ...Array.from({ length: 10 }, (_, index) => `line ${index + 1}: email is invalid`),
      'more rows were rejected; --rejects FILE keeps them all',
    ])
  })
})

test.each([
  [['--dry-run'], 1, { conflicts: 1, dry_run: true, refused: 2 }],
  [['--on-conflict', 'skip'], 3, { skipped: 1, refused: 1, first_conflict: null }],
  [[], 1, { conflicts: 1, end: 'conflict', rows: 1 }],
])('import --json prints the counts as one object: %j', async (args, code, counts) => {
  const cwd = folderWith(ndjson([ANN, ANN, {}]))
  const finished = await importing(cwd, 'users.ndjson', '--json', ...args)
  expect(finished.code).toBe(code)
  expect(finished.stdout).toMatch(/^.+\n$/)
  expect(JSON.parse(finished.stdout)).toEqual({
    ...{ end: 'done', dry_run: false, rows: 3, earlier_rows: 0, created: 1, updated: 0 },
    ...{ unchanged: 0, skipped: 0, refused: 0, conflicts: 0, seconds: expect.any(Number) },
    first_conflict: { line: 2, errors: { email: ['has already been taken'] } },
    ...counts,
  })
})

describe('invalid CSV ends the import with one line and code 1', () => {
  test.each<[string, string | Buffer, RegExp]>([
    ['no line', '', /^users\.csv is empty: its first line must name the columns, such as .+\n$/],
    [
      'no e-mail',
      'Name;Phone\nAnn;555\n',
      /^the first line does not name "email"; it names "Name", "Phone"; known columns are name, .+\n$/,
    ],
    [
      'an unknown delimiter',
      'Name|Email\nAnn|ann@example.com\n',
      /; if its cells are divided so, add --delimiter "\|"\n$/,
    ],
    [
      'a first line of more than 1 MB',
      `name,email,${'x'.repeat(2 ** 20)}\nAnn,a@example.com,x\n`,
      /^the first line is longer than 1048576 characters\n$/,
    ],
    [
      'a column twice',
      'name,email,name\n',
      /^the first line names "name" twice: rename the one to leave\n$/,
    ],
    [
      'a quote inside a field, and does not show what may be a password',
      'name,email,password\nAnn,ann@example.com,"hunter2"secret\n',
      /^the file is not CSV: quotes do not match at line 2\n$/,
    ],
    [
      'no UTF-8 in its header',
      Buffer.from('\r\nname,email,stra\xdfe', 'latin1'),
      /^users\.csv is not UTF-8 at line 2: add the --encoding in which this reads right\n {2}--encoding windows-1252 {2}straße\n/,
    ],
  ])('%s', async (_what, text, message) => {
    expect(await refusalOf(text, 'users.csv')).toMatch(message)
  })

  test('and names the line of the first wrong byte, also behind a real U+FFFD', async () => {
    const rows = ['name,email', 'Ann\xef\xbf\xbd,a@x.co', 'Bob,b@x.co', 'C\xe9l,c@x.co', '']
    const cwd = folderWith(Buffer.from(rows.join('\n'), 'latin1'), 'users.csv')
    const { stdout, stderr } = await importing(cwd, 'users.csv', '--json')
    expect(stderr).toMatch(/^users\.csv is not UTF-8 at line 4: /)
    expect(JSON.parse(stdout)).toMatchObject({ rows: 2, created: 2 })
  })

  test.each([
    [
      'a quote that is not closed',
      '"Bea',
      /^the file is not CSV: a quote is not closed in .+ line 3/,
    ],
    ['a line that is not UTF-8', 'B\xe9a', /^users\.csv is not UTF-8 at line 3: /],
  ])('and keeps the rows before %s, and --resume continues', async (_what, name, fault) => {
    const csv = `name,email\nAnn,ann@example.com\n${name},b@example.com\n`
    const cwd = folderWith(Buffer.from(csv, 'latin1'), 'users.csv')
    const HINT = '; once that is fixed, --resume continues after the rows that are done'
    const tried = await importing(cwd, 'users.csv', '--dry-run')
    expect(tried).toMatchObject({ code: 1, stderr: expect.stringMatching(fault) })
    expect(tried.stdout).toMatch(/^dry run, nothing was changed: stopped early: 1 row, 1 created; /)
    expect(tried.stderr).not.toContain(HINT)
    const { code, stdout, stderr } = await importing(cwd, 'users.csv', '--json')
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(fault) })
    expect(JSON.parse(stdout)).toMatchObject({ end: 'failed', rows: 1, created: 1 })
    expect(stderr.split('\n')[0]?.endsWith(HINT)).toBe(true)
    writeFileSync(join(cwd, 'users.csv'), csv.replace(name, 'Bea'))
    const resumed = await importing(cwd, 'users.csv', '--resume')
    expect(resumed.stdout).toMatch(/^2 rows, 2 created; 1 of the rows by an earlier run; /)
    expect(namesIn(cwd)).toEqual(['Ann', 'Bea'])
  })
})

test('--escape backslash reads quotes, line ends and tabs of databases, in any cell', async () => {
  const csv = 'name,email,note\n"Ann \\"the\\" Lee",ann@example.com,"a\\\nb, \\\\"\n\\N,\\N,x\n'
  const cwd = folderWith(csv, 'users.csv')
  const { code, stderr } = await importing(cwd, 'users.csv', '--escape', 'backslash')
  expect([code, stderr]).toEqual([3, "line 4: name can't be blank, email can't be blank\n"])
  expect(namesIn(cwd)).toEqual(['Ann "the" Lee'])
})

test('quotes of a database between tabs are taken with the option that is proposed', async () => {
  const tsv = 'name\temail\nAnn "the" Lee\ta@example.com\nBea\tb@example.com\n'
  const cwd = folderWith(tsv, 'users.tsv')
  expect((await importing(cwd, 'users.tsv')).stderr).toBe(
    'the file is not CSV: quotes do not match at line 2; if it is of a database, add --escape backslash\n',
  )
  expect((await importing(cwd, 'users.tsv', '--escape', 'backslash')).code).toBe(0)
  expect(namesIn(cwd)).toEqual(['Ann "the" Lee', 'Bea'])
})

test('cells that are \\N are named once, and not also as backslashes', async () => {
  const cwd = folderWith('name\temail\nAnn\\tLee\ta@example.com\n\\N\tb@example.com\n', 'users.tsv')
  const { stderr } = await importing(cwd, 'users.tsv')
  expect(stderr).toMatch(
    /^cells have '\\N', as databases write them: --escape backslash reads them, /,
  )
})

test('cells that are NULL in a later row are rejected with the option that reads them', async () => {
  const rows = manyRows(30_000).map(({ name, email }) => `${name},${email},${'x'.repeat(40)}`)
  const text = `name,email,note\n${rows.join('\n')}\nNULL,n@example.com,y\n`
  const cwd = folderWith(text, 'users.csv')
  const { code, stderr } = await importing(cwd, 'users.csv')
  const problem = 'row has "NULL" as name: --null "NULL" takes it as nothing, --null "" as it is'
  expect([code, stderr]).toEqual([3, `line 30002: ${problem}\n`])
  const args = ['--null', '', '--restart', '--on-conflict', 'skip']
  expect((await importing(cwd, 'users.csv', ...args)).stdout).toMatch(/^30,001 rows, 1 created, /)
})

test.each<[args: string[], code: number, says: string]>([
  [['users.ndjson', '--null', 'NULL'], 2, '--null and --escape are for CSV'],
  [[], 2, "missing required argument 'FILE'"],
  [['users.txt'], 2, 'add --format ndjson or --format csv'],
  [['users.ndjson', '--format', 'xml'], 2, '--format'],
  [['users.ndjson', '--on-conflict', 'merge'], 2, '--on-conflict'],
  [['a.csv', '--resume', '--dry-run'], 2, "'--dry-run' cannot be used with option '--resume'"],
  [['a.csv', '--restart', '--dry-run'], 2, "'--dry-run' cannot be used with option '--restart'"],
  [['a.csv', '--restart', '--resume'], 2, "'--restart' cannot be used with option '--resume'"],
  [['users.ndjson', '--rejects', './users.ndjson'], 2, '--rejects names'],
  [['users.ndjson', '--rejects', 'again.ndjson'], 2, '--rejects names'],
  [['users.ndjson', '--rejects', 'no/rejects'], 1, 'no/rejects cannot be written'],
  [['users.ndjson', '--rejects', '-'], 2, '--rejects needs a file'],
  [['users.ndjson', '--rejects', '/dev/null'], 1, '/dev/null is not a regular file'],
  [['nowhere.ndjson'], 1, 'nowhere.ndjson cannot be read (there is no such file)'],
  [['.', '--format', 'csv'], 1, '. is a folder'],
])('import %j ends with %i and one line', async (args, code, says) => {
  const cwd = folderWith(ndjson([ANN]))
  linkSync(join(cwd, 'users.ndjson'), join(cwd, 'again.ndjson'))
  const finished = await importing(cwd, ...args)
  expect(finished).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(/^.+\n$/) })
  expect(finished.stderr).toContain(says)
  expect(['data', '-'].some(name => existsSync(join(cwd, name)))).toBe(false)
  expect(readFileSync(join(cwd, 'users.ndjson'), 'utf8')).toBe(ndjson([ANN]))
})

test('import that cannot open its database makes no file for rejected rows, and leaves one as it was', async () => {
  const cwd = folderWith(ndjson([ANN]))
  writeFileSync(join(cwd, 'other.txt'), 'no database')
  const args = ['import', 'users.ndjson', ...KEEP_REJECTS]
  const fail = async () => {
    const { code, stderr } = await runCommand({ cwd, args, env: { DATABASE_URL: 'other.txt' } })
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('other.txt') })
  }
  await fail()
  expect(existsSync(join(cwd, 'rejects.ndjson'))).toBe(false)
  writeFileSync(join(cwd, 'rejects.ndjson'), 'earlier')
  await fail()
  expect(readFileSync(join(cwd, 'rejects.ndjson'), 'utf8')).toBe('earlier')
})

test('import beside a service that writes: neither loses anything', async () => {
  const cwd = folderWith(ndjson(manyRows(5000)))
  const service = await openTestApp({ env: { DATABASE_URL: join(cwd, 'data', 'users.db') } })
  let isDone = false
  const created: number[] = []
  const writing = (async () => {
    while (!isDone) {
      const user = { name: 'Live', email: `live${created.length}@example.com` }
      created.push((await ask(service, 'POST /users', { user })).status)
    }
  })()
  const { code, stdout } = await importing(cwd, 'users.ndjson')
  isDone = true
  await writing
  expect(code).toBe(0)
  expect(stdout).toMatch(/^5,000 rows, 5,000 created; /)
  // On a busy machine the import may have the lock for so long that a create is given up.
  const done = created.filter(status => status !== 503)
  expect(new Set(done)).toEqual(new Set([201]))
  expect(usersIn(cwd)).toHaveLength(5000 + done.length)
})

test.each([
  [['-'], 'standard input is not JSON; for a CSV file, add --format csv'],
  [['-', '--format', 'ndjson'], 'line 1: row is not JSON; for a CSV file, add --format csv'],
])('import %j of CSV says how to import it', async (args, hint) => {
  const input = 'name,email\nBea,bea@example.com\n'
  const finished = await runCommand({ cwd: temporaryFolder(), args: ['import', ...args], input })
  expect(finished.stderr.split('\n')[0]).toBe(hint)
})
