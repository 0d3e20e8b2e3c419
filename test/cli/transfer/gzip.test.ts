import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { stdoutOf } from '../../support/run-command.ts'
import {
  countIn,
  folderWith,
  importing,
  importingFrom,
  manyRows,
  ndjson,
  takenUsers,
} from '../../support/transfer.ts'

const PACKED = 'users.ndjson.gz'

const TEXT = ndjson(manyRows(10))

const WHOLE = gzipSync(TEXT)

test.each<[string, Buffer, RegExp]>([
  ['is cut off', WHOLE.subarray(0, -9), /users\.ndjson\.gz is cut off: the end of its gzip data /],
  ['is damaged', damaged(WHOLE), /gz is damaged: its gzip data has an incorrect /],
  ['is not gzip', Buffer.from(TEXT), /gz is not gzip, although its name ends in \.gz\n/],
  ['is empty', Buffer.alloc(0), /gz is not gzip, although its name ends in \.gz\n/],
  [
    'holds UTF-16',
    gzipSync(Buffer.from(TEXT, 'utf16le')),
    /gz is not UTF-8; .+ --encoding utf-16le/,
  ],
  ['is of another method', withByte(WHOLE, 2, 9), /has an unknown compression method/],
])('import of a .gz that %s ends with one line and code 1', async (_how, bytes, message) => {
  const { code, stderr } = await importing(folderWith(bytes, PACKED), PACKED)
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^.+\n$/)])
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

test('import of a large truncated .gz ends with one line, and continues with the whole file', async () => {
  // More than the chunks that are unpacked ahead.
  const rows = 25_000
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

test('import takes all rows of a .gz with padding after it, and refuses other bytes there', async () => {
  const padded = Buffer.concat([WHOLE, Buffer.alloc(2000)])
  expect(await takenUsers(padded, PACKED)).toHaveLength(10)
  const other = folderWith(Buffer.concat([WHOLE, Buffer.from('other')]), PACKED)
  const { code, stderr } = await importing(other, PACKED)
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/gz is damaged: its gzip data has an incorrect /),
  ])
})
