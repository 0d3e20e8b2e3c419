import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'
import { exporting, folderWith, importing } from '../../support/transfer.ts'

const PACKED = 'users.ndjson.gz'

function ndjson(from: number, to: number): string {
  const lines: string[] = []
  for (let id = from; id < to; id++) {
    // Names that cannot be compressed to almost nothing.
    const name = Buffer.from(String(id ** 5)).toString('base64')
    lines.push(`${JSON.stringify({ name, email: `user${id}@example.com` })}\n`)
  }
  return lines.join('')
}

test.each(['users.csv.gz', 'users.ndjson.gz', 'USERS.NDJSON.GZ'])(
  'export writes %s with gzip, and import reads it',
  async file => {
    const cwd = folderWith(ndjson(0, 3000), 'users.ndjson')
    await importing(cwd, 'users.ndjson')
    const format = file.includes('csv') ? 'csv' : 'ndjson'
    const plain = await exporting(cwd, '--format', format)
    expect((await exporting(cwd, file)).code).toBe(0)
    expect(gunzipSync(readFileSync(join(cwd, file))).toString()).toBe(plain.stdout)

    const elsewhere = temporaryFolder()
    const imported = await importing(elsewhere, join(cwd, file))
    expect(imported.code).toBe(0)
    const again = await exporting(elsewhere, '--format', format)
    expect(again.stdout).toBe(plain.stdout)
  },
)

test('import reads a file that was packed in parts', async () => {
  const cwd = folderWith(Buffer.concat([gzipSync(ndjson(0, 10)), gzipSync(ndjson(10, 20))]), PACKED)
  const { code, stdout } = await importing(cwd, 'users.ndjson.gz')
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringMatching(/^20 rows, /) })
})

const WHOLE = gzipSync(ndjson(0, 3000))

test.each<[string, Buffer, RegExp]>([
  ['is cut off', WHOLE.subarray(0, -9), /users\.ndjson\.gz is cut off: the end of its gzip data /],
  ['is cut off at once', WHOLE.subarray(0, 1), /users\.ndjson\.gz is cut off: /],
  ['is empty', Buffer.alloc(0), /users\.ndjson\.gz is cut off: /],
  [
    'is damaged',
    damaged(WHOLE, WHOLE.length - 5),
    /gz is damaged: its gzip data has an incorrect /,
  ],
  ['is not gzip', Buffer.from(ndjson(0, 2)), /gz is not gzip, although its name ends in \.gz\n/],
  [
    'holds UTF-16',
    gzipSync(Buffer.from(`\ufeff${ndjson(0, 2)}`, 'utf16le')),
    /gz is UTF-16 LE and not /,
  ],
])('import of a .gz that %s ends with one line and code 1', async (_how, bytes, message) => {
  const cwd = folderWith(bytes, PACKED)
  const { code, stderr } = await importing(cwd, 'users.ndjson.gz')
  expect(code).toBe(1)
  // On a busy machine, lines of progress come before it.
  expect(stderr.replace(/^\d+ %, .+\n/gm, '')).toMatch(/^.+\n$/)
  expect(stderr).toMatch(message)
})

function damaged(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = ~(copy[at] as number) & 0xff
  return copy
}

test('import of a truncated .gz takes only complete rows, and continues with the whole file', async () => {
  const csv = gzipSync(`name,email\n${'User,user@example.com\n'.repeat(1)}Ann,ann@example.com.au`)
  const cwd = folderWith(csv.subarray(0, -10), 'users.csv.gz')
  const broken = await importing(cwd, 'users.csv.gz', '--json')
  expect(broken.code).toBe(1)
  expect(JSON.parse(broken.stdout)).toMatchObject({ end: 'failed', rows: 1, created: 1 })
  expect(broken.stderr).toMatch(
    /^users\.csv\.gz is cut off: .+; once that is fixed, --resume .+\n$/,
  )
  writeFileSync(join(cwd, 'users.csv.gz'), csv)
  const { code, stdout } = await importing(cwd, 'users.csv.gz', '--resume')
  expect({ code, stdout }).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^2 rows, 2 cr/),
  })
})

test('import --resume continues in a .gz that has grown', async () => {
  const cwd = folderWith(WHOLE, PACKED)
  const conflict = gzipSync(ndjson(0, 1))
  appendFileSync(
    join(cwd, 'users.ndjson.gz'),
    Buffer.concat([conflict, gzipSync(ndjson(3000, 3010))]),
  )
  expect((await importing(cwd, 'users.ndjson.gz')).code).toBe(1)
  const args = ['users.ndjson.gz', '--resume', '--on-conflict', 'skip']
  const { code, stdout } = await importing(cwd, ...args)
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /^3,011 rows, 3,010 created, 1 skipped; 3,000 of the rows by an earlier run; /,
  )
})

test('import says how to read a packed file with another name', async () => {
  const cwd = folderWith(WHOLE, 'users.ndjson')
  const named = await importing(cwd, 'users.ndjson')
  const streamed = await runCommand({ cwd, args: ['import', '-'], input: WHOLE })
  expect([named.code, streamed.code]).toEqual([1, 1])
  expect(named.stderr).toMatch(/^users\.ndjson is packed with gzip; gunzip unpacks it, .+\n$/)
  expect(streamed.stderr).toMatch(/^standard input is packed with gzip; .+\n$/)
})
