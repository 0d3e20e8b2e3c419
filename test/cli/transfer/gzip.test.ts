import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { gunzip } from '../../../src/cli/transfer/gunzip.ts'
import { SEED } from '../../support/faults.ts'
import { stdoutOf } from '../../support/run-command.ts'
import {
  countIn,
  folderWith,
  importing,
  importingFrom,
  manyRows,
  ndjson,
} from '../../support/transfer.ts'

const PACKED = 'users.ndjson.gz'

const TEXT = ndjson(manyRows(10))

const WHOLE = gzipSync(TEXT)

test.each<[string, Buffer, RegExp]>([
  ['is cut off', WHOLE.subarray(0, -9), /users\.ndjson\.gz is cut off: the end of its gzip data /],
  ['is empty', Buffer.alloc(0), /users\.ndjson\.gz is cut off: /],
  ['is damaged', damaged(WHOLE), /gz is damaged: its gzip data has an incorrect /],
  ['is not gzip', Buffer.from(TEXT), /gz is not gzip, although its name ends in \.gz\n/],
  [
    'holds UTF-16',
    gzipSync(Buffer.from(TEXT, 'utf16le')),
    /gz is not UTF-8; .+ --encoding utf-16le/,
  ],
  ['is of another method', withByte(WHOLE, 2, 9), /has an unknown compression method/],
])('import of a .gz that %s ends with one line and code 1', async (_how, bytes, message) => {
  const { code, stderr } = await importing(folderWith(bytes, PACKED), PACKED)
  expect(code).toBe(1)
  expect(stderr).toMatch(/^.+\n$/)
  expect(stderr).toMatch(message)
})

function damaged(bytes: Buffer): Buffer {
  const at = bytes.length - 5
  return withByte(bytes, at, ~(bytes[at] as number) & 0xff)
}

function withByte(bytes: Buffer, at: number, byte: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = byte
  return copy
}

test('import of a truncated .gz takes only complete rows, and continues with the whole file', async () => {
  const csv = gzipSync('name,email\nUser,user@example.com\nAnn,ann@example.com.au')
  const cwd = folderWith(csv.subarray(0, -10), 'users.csv.gz')
  const broken = await importing(cwd, 'users.csv.gz', '--json')
  expect(broken.code).toBe(1)
  expect(JSON.parse(broken.stdout)).toMatchObject({ end: 'failed', rows: 1, created: 1 })
  expect(broken.stderr).toMatch(/^users\.csv\.gz is cut off: .+; once that is fixed, --resume /)
  writeFileSync(join(cwd, 'users.csv.gz'), csv)
  const { code, stdout } = await importing(cwd, 'users.csv.gz', '--resume')
  expect(code).toBe(0)
  expect(stdout).toMatch(/^2 rows, 2 created; 1 of the rows by an earlier run; /)
})

test('import of a large truncated .gz ends with one line, and continues with the whole file', async () => {
  // More than the chunks that are unpacked ahead.
  const rows = 60_000
  const packed = gzipSync(ndjson(manyRows(rows)))
  const cwd = folderWith(packed.subarray(0, -100), PACKED)
  const broken = await importing(cwd, PACKED, '--json')
  expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining('gz is cut off: ') })
  expect(JSON.parse(broken.stdout)).toMatchObject({ end: 'failed', created: countIn(cwd) })
  expect(countIn(cwd)).toBeGreaterThan(rows / 4)
  writeFileSync(join(cwd, PACKED), packed)
  expect(await importing(cwd, PACKED, '--resume')).toMatchObject({ code: 0 })
  expect(countIn(cwd)).toBe(rows)
})

test('import --resume continues in a .gz to which a part was added', async () => {
  const cwd = folderWith(WHOLE, PACKED)
  expect((await importing(cwd, PACKED)).code).toBe(0)
  const more = gzipSync(ndjson(manyRows(20).slice(10)))
  writeFileSync(join(cwd, PACKED), Buffer.concat([WHOLE, more]))
  const { code, stdout } = await importing(cwd, PACKED, '--resume')
  expect(code).toBe(0)
  expect(stdout).toMatch(/^20 rows, 20 created; 10 of the rows by an earlier run; /)
})

test.each([
  ['a file without .gz', 'users.ndjson'],
  ['standard input', '-'],
])('import unpacks %s', async (_what, file) => {
  const cwd = folderWith(WHOLE)
  expect(await stdoutOf(importingFrom(WHOLE, cwd, file))).toMatch(/^10 rows, 10 created; /)
})

const IGNORED = `${PACKED}: bytes after its gzip data are ignored\n`

test.each([
  ['padding', Buffer.alloc(2000), ''],
  ['other bytes', Buffer.from('other'), IGNORED],
  ['other bytes after padding', Buffer.from('\0\0other'), IGNORED],
])('import takes all rows of a .gz with %s after it', async (_what, after, stderr) => {
  const cwd = folderWith(Buffer.concat([WHOLE, after]), PACKED)
  const finished = await importing(cwd, PACKED)
  expect(finished).toMatchObject({ code: 0, stderr })
  expect(finished.stdout).toMatch(/^10 rows, 10 created; /)
})

/** A member with all parts that a header can have. */
function fullMember(text: string): Buffer {
  const plain = gzipSync(text)
  const header = Buffer.from(plain.subarray(0, 10))
  header[3] = 0b11110
  const parts = ['\x05\0extra', 'name\0', 'comment\0', 'hc']
  return Buffer.concat([header, Buffer.from(parts.join(''), 'latin1'), plain.subarray(10)])
}

test('gzip is unpacked wherever a chunk of the file ends', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ maxLength: 40 }), { minLength: 1, maxLength: 4 }),
      fc.constantFrom('', '\0', '\0\0\0', 'x', '\x1f'),
      fc.integer({ min: 1, max: 30 }),
      async (texts, after, piece) => {
        const members = texts.map((text, index) => (index % 2 ? fullMember(text) : gzipSync(text)))
        const packed = Buffer.concat([...members, Buffer.from(after)])
        async function* chunks(): AsyncGenerator<Buffer> {
          for (let at = 0; at < packed.length; at += piece) yield packed.subarray(at, at + piece)
        }
        let ignored = false
        const unpacked: Buffer[] = []
        for await (const bytes of gunzip(chunks(), () => (ignored = true))) unpacked.push(bytes)
        expect(Buffer.concat(unpacked).toString()).toBe(texts.join(''))
        expect(ignored).toBe(/[^\0]/.test(after))
      },
    ),
    { numRuns: 100, seed: SEED },
  )
})
