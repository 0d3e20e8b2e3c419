import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'
import { countIn, folderWith, importing, manyRows, ndjson } from '../../support/transfer.ts'

const PACKED = 'users.ndjson.gz'

const TEXT = ndjson(manyRows(10))

const WHOLE = gzipSync(TEXT)

test.each<[string, Buffer, RegExp]>([
  ['is cut off', WHOLE.subarray(0, -9), /users\.ndjson\.gz is cut off: the end of its gzip data /],
  ['is empty', Buffer.alloc(0), /users\.ndjson\.gz is cut off: /],
  ['is damaged', damaged(WHOLE), /gz is damaged: its gzip data has an incorrect /],
  ['is not gzip', Buffer.from(TEXT), /gz is not gzip, although its name ends in \.gz\n/],
  ['holds UTF-16', gzipSync(Buffer.from(`\ufeff${TEXT}`, 'utf16le')), /gz is UTF-16 LE and not /],
])('import of a .gz that %s ends with one line and code 1', async (_how, bytes, message) => {
  const { code, stderr } = await importing(folderWith(bytes, PACKED), PACKED)
  expect(code).toBe(1)
  // On a busy machine, lines of progress come before it.
  expect(stderr.replace(/^\d+ %, .+\n/gm, '')).toMatch(/^.+\n$/)
  expect(stderr).toMatch(message)
})

function damaged(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  const at = copy.length - 5
  copy[at] = ~(copy[at] as number) & 0xff
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

test('import says how to read a packed stream', async () => {
  const args = ['import', '-']
  const { code, stderr } = await runCommand({ cwd: temporaryFolder(), args, input: WHOLE })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^standard input is packed with gzip; gunzip unpacks it, .+\n$/)
})
