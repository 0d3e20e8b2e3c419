import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createDecoder } from '../../../src/cli/transfer/text-encodings.ts'
import { SEED } from '../../support/faults.ts'
import { runCommand, stderrOf } from '../../support/run-command.ts'
import { folderWith, importing, refusalOf, takenUsers } from '../../support/transfer.ts'

const NAME = 'Jörg 😀'

const ROWS: Record<string, string> = {
  csv: `name,email\r\n${NAME},joerg@example.com\r\n`,
  tsv: `name\temail\n${NAME}\tjoerg@example.com\n`,
  ndjson: `${JSON.stringify({ name: NAME, email: 'joerg@example.com' })}\n`,
  json: JSON.stringify([{ name: NAME, email: 'joerg@example.com' }]),
}

const FORMATS = Object.keys(ROWS)

function utf16(text: string, isBig = false): Buffer {
  const bytes = Buffer.from(text, 'utf16le')
  return isBig ? bytes.swap16() : bytes
}

describe.each(FORMATS)('import of %s', format => {
  const file = `users.${format}`
  const text = ROWS[format] as string
  const latin1 = Buffer.from(text.replace('😀', '\x80'), 'latin1')

  test.each([
    ['UTF-8 with a mark', Buffer.from(`\ufeff${text}`)],
    ['UTF-16 LE with a mark', utf16(`\ufeff${text}`)],
    ['UTF-16 BE with a mark', utf16(`\ufeff${text}`, true)],
  ])('sees %s, whatever --encoding says', async (_what, bytes) => {
    for (const args of [[], ['--encoding', 'windows-1252']])
      expect(await takenUsers(bytes, file, ...args)).toMatchObject([{ name: NAME }])
  })

  test.each([
    ['utf-16le', utf16(text)],
    ['utf-16be', utf16(text, true)],
  ])(
    'without a mark in %s refuses it and names the option, which it takes',
    async (encoding, bytes) => {
      const problem = `${file} is not UTF-8; it looks like UTF-16: add --encoding ${encoding}\n`
      expect(await refusalOf(bytes, file)).toBe(problem)
      const users = await takenUsers(bytes, file, '--encoding', encoding)
      expect(users).toMatchObject([{ name: NAME }])
    },
  )

  const line = format.endsWith('sv') ? 2 : 1

  test('in Windows-1252 ends with the name in the likely encodings, and is taken in one of them', async () => {
    const [problem, ...choices] = (await refusalOf(latin1, file)).trimEnd().split('\n')
    const add = 'add the --encoding in which this reads right'
    expect(problem).toBe(`${file} is not UTF-8 at line ${line}: ${add}`)
    expect(choices.slice(0, 3)).toEqual([
      '  --encoding windows-1252  Jörg €',
      '  --encoding windows-1251  Jцrg Ђ',
      '  --encoding windows-1253  Jφrg €',
    ])
    const users = await takenUsers(latin1, file, '--encoding', 'latin1')
    expect(users).toMatchObject([{ name: 'Jörg €' }])
  })

  test('names the line of what its encoding does not have', async () => {
    const bytes = Buffer.from(text.replace(NAME, 'J\x82'), 'latin1')
    const said = await refusalOf(bytes, file, '--encoding', 'Shift_JIS')
    expect(said).toMatch(/^users\.\w+ is not shift_jis at line [12]\n$/)
  })

  test.each([
    ['zip', 'PK\x03\x04', 'is a ZIP file, or a workbook of Excel or another spreadsheet: save '],
    [
      'xls',
      '\xd0\xcf\x11\xe0',
      'is a workbook of Excel or another spreadsheet: save its sheet as ',
    ],
  ])('that is a workbook (%s) says how to save it', async (_kind, start, problem) => {
    const bytes = Buffer.from(`${start}\x14\x00\x06`, 'latin1')
    expect(await refusalOf(bytes, file)).toContain(`${file} ${problem}`)
  })
})

test.each([
  [
    ['users.xlsx'],
    '"users.xlsx" is a workbook of Excel or another spreadsheet: save its sheet as "CSV UTF-8"',
  ],
  [['users.ods'], '"users.ods" is a workbook'],
  [
    ['dump.sql'],
    `"dump.sql" is SQL: export the table with \\copy users TO 'users.csv' CSV HEADER in psql`,
  ],
  [['users.csv', '--encoding', 'utf-7'], '--encoding "utf-7" is not known'],
  [['users.csv', '--at', 'users'], '--at is for JSON, but the format is CSV'],
])('import %j is refused before anything is read', async (args, problem) => {
  expect(await stderrOf(importing(folderWith('', 'other'), ...args), 2)).toContain(problem)
})

test('import of SQL from standard input says how to export the table', async () => {
  const input = 'COPY public.users (name, email) FROM stdin;\n'
  const finished = runCommand({ cwd: folderWith(''), args: ['import', '-'], input })
  expect(await stderrOf(finished)).toMatch(/^standard input is SQL: export the table with \\copy /)
})

test.each([
  ['users.csv', 'name,password,email\nAnn,g\xfcnther,a@example.com\n'],
  ['users.ndjson', '{"name":"Ann","email":"a@example.com","password":"g\xfcnther"}\n'],
  ['users.json', '[{"name":"Ann","user_pass":"g\xfcnther","email":"a@example.com"}]'],
  ['users.csv', 'Zugang,email\ng\xfcnther,a@example.com\n', 'zugang=password'],
  ['users.csv', 'name,email,old_password\nAnn,a@example.com,g\xfcnther\n'],
  ['users.csv', 'name,email,oldPassword2\nAnn,a@example.com,g\xfcnther\n'],
  ['users.csv', 'name,password,city\nLee, Ann,g\xfcnther,Rome\n'],
  ['users.csv', 'name|password\nAnn|g\xfcnther\n'],
  ['headless.csv', 'Ann,a@example.com,g\xfcnther\n'],
  ['users.ndjson', '{"c":{"p":"g\xfcnther"},"name":"Ann"}\n', 'c.p=password'],
  ['users.json', '[{"c":[{"p":{"x":"g\xfcnther"}}]}]', 'c.0.p=password_digest'],
  ['users.json', '[{"c":"g\xfcnther"}]', 'c.0=password'],
  ['users.ndjson', '{"password":{"plain":["g\xfcnther"]}}\n'],
  ['users.ndjson', '{"ge\xfcim":"g\xfcnther"}\n', 'geьim=password'],
  ['users.ndjson', '{"name":J\xfcrg,"a":", "password":"g\xfcnther"}\n'],
  ['users.json', `${'['.repeat(50_000)}"g\xfcnther"`],
])('a password of %s is never shown to choose an encoding by: %j', async (file, text, ...taken) => {
  const args = taken.flatMap(option => ['--column', option])
  expect(await refusalOf(Buffer.from(text, 'latin1'), file, ...args)).toMatch(
    /^\w+\.\w+ is not UTF-8 at line \d: add the --encoding in which it was saved, such as .+\n$/,
  )
})

test.each([
  ['users.csv', 'password,city,name,email\ng\xfcn,K\xf6ln,\xa3ukasz,a@example.com\n'],
  ['users.ndjson', '{"password":"g\xfcn","city":"K\xf6ln","name":"\xa3ukasz"}\n'],
  ['users.json', '[{"c":[{"password":"g\xfcn","city":"K\xf6ln"}],"name":"\xa3ukasz"}]'],
  ['users.json', '{"password":"g\xfcn"}\n{"team":{"name":"\xa3ukasz"}}\n{"name":"K\xf6ln"}'],
])(
  'a name of %s is shown rather than another cell, and both rather than a password: %j',
  async (file, text) => {
    const said = await refusalOf(Buffer.from(text, 'latin1'), file)
    expect(said).toContain('\n  --encoding windows-1250  Łukasz\n')
    expect(said).not.toMatch(/ln|gün/)
  },
)

test.each([
  ['utf-8', [0xf0, 0x9f, 0x98, 0x80, 0xc3, 0xa9], '😀é'],
  ['windows-1252', [0x80, 0x92, 0x9f, 0xe9], '€’Ÿé'],
  ['shift_jis', [0x93, 0xfa, 0x96, 0x7b], '日本'],
  ['utf-16be', [0xd8, 0x3d, 0xde, 0x00], '😀'],
  ['gb18030', [0x84, 0x31, 0xa4, 0x37, 0xc4, 0xe3], '\ufffd你'],
])('%s is decoded wherever a chunk of the file ends', (encoding, bytes, text) => {
  const size = fc.integer({ min: 1, max: 5 })
  fc.assert(
    fc.property(size, size, (first, piece) => {
      const decode = createDecoder('users.csv', encoding)
      let decoded = [...decode(Buffer.from(bytes.slice(0, first)))].join('')
      for (let at = first; at < bytes.length; at += piece)
        decoded += [...decode(Buffer.from(bytes.slice(at, at + piece)))].join('')
      expect(decoded + [...decode()].join('')).toBe(text)
    }),
    { numRuns: 25, seed: SEED },
  )
})
