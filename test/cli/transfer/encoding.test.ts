import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeUtf8, utf8Chunks } from '../../../src/cli/transfer/decode-text.ts'
import { SEED } from '../../support/faults.ts'
import { runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'
import { folderWith, importing, namesIn, rejectsIn } from '../../support/transfer.ts'

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
    for (const args of [[], ['--encoding', 'windows-1252']]) {
      const cwd = folderWith(bytes, file)
      await stdoutOf(importing(cwd, file, ...args))
      expect(namesIn(cwd)).toEqual([NAME])
    }
  })

  test.each([
    ['utf-16le', utf16(text)],
    ['utf-16be', utf16(text, true)],
  ])(
    'without a mark in %s refuses it and names the option, which it takes',
    async (encoding, bytes) => {
      const cwd = folderWith(bytes, file)
      const problem = `${file} is not UTF-8; it looks like UTF-16: add --encoding ${encoding}\n`
      expect(await stderrOf(importing(cwd, file))).toBe(problem)
      await stdoutOf(importing(cwd, file, '--encoding', encoding))
      expect(namesIn(cwd)).toEqual([NAME])
    },
  )

  test('in Windows-1252 names the line, and takes it with --encoding', async () => {
    const cwd = folderWith(latin1, file)
    const { code, stderr } = await importing(cwd, file, '--rejects', 'rejects.ndjson')
    const line = format.endsWith('sv') ? 2 : 1
    if (format === 'ndjson') {
      expect(code).toBe(3)
      expect(rejectsIn(cwd)).toEqual([{ line, errors: { row: ['is not UTF-8'] } }])
    } else {
      const problem = `${file} is not UTF-8 at line ${line}; if a spreadsheet saved it, add --encoding windows-1252\n`
      expect({ code, stderr }).toEqual({ code: 1, stderr: problem })
    }
    await stdoutOf(importing(cwd, file, '--encoding', 'latin1', '--restart'))
    expect(namesIn(cwd)).toEqual(['Jörg €'])
  })

  test('names the line of what its encoding does not have', async () => {
    const bytes = Buffer.from(text.replace(NAME, 'J\x82'), 'latin1')
    const cwd = folderWith(bytes, file)
    const { stderr } = await importing(cwd, file, '--encoding', 'Shift_JIS')
    if (format === 'ndjson') expect(stderr).toBe('line 1: row is not shift_jis\n')
    else expect(stderr).toMatch(/^users\.\w+ is not shift_jis at line [12]\n$/)
  })

  test.each([
    ['zip', 'PK\x03\x04', 'is a ZIP file, or a workbook of Excel or another spreadsheet: save '],
    [
      'xls',
      '\xd0\xcf\x11\xe0',
      'is a workbook of Excel or another spreadsheet: save its sheet as ',
    ],
  ])('that is a workbook (%s) says how to save it', async (_kind, start, problem) => {
    const cwd = folderWith(Buffer.from(`${start}\x14\x00\x06`, 'latin1'), file)
    expect(await stderrOf(importing(cwd, file))).toContain(`${file} ${problem}`)
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
  ['windows-1252', [0x80, 0x92, 0x9f, 0xe9], '€’Ÿé'],
  ['shift_jis', [0x93, 0xfa, 0x96, 0x7b], '日本'],
  ['utf-16be', [0xd8, 0x3d, 0xde, 0x00], '😀'],
  ['gb18030', [0x84, 0x31, 0xa4, 0x37, 0xc4, 0xe3], '\ufffd你'],
])('%s is decoded wherever a chunk of the file ends', async (encoding, bytes, text) => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 5 }),
      async (first, piece) => {
        const all = Buffer.from(bytes)
        async function* chunks(): AsyncGenerator<Buffer> {
          yield all.subarray(0, first)
          for (let at = first; at < all.length; at += piece) yield all.subarray(at, at + piece)
        }
        let decoded = ''
        for await (const part of decodeUtf8(utf8Chunks(chunks(), { file: 'x', encoding }))) {
          expect(part.isWrong).toBe(false)
          decoded += part.text
        }
        expect(decoded).toBe(text)
      },
    ),
    { numRuns: 25, seed: SEED },
  )
})
