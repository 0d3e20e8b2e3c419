import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { csvRecords } from '../../../src/cli/transfer/csv-records.ts'
import { openInputFile } from '../../../src/cli/transfer/input-file.ts'
import { ndjsonRecords } from '../../../src/cli/transfer/ndjson-records.ts'
import { followRows } from '../../../src/cli/transfer/row-progress.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const ROWS = 60_000

const terminal = { stdin: Readable.from([]) }

test.each([
  ['ndjson', false],
  ['csv', false],
  ['ndjson', true],
  ['csv', true],
] as const)(
  'followRows tells the share of the rows that are done: %s, packed %s',
  async (format, isPacked) => {
    const rows = Array.from({ length: ROWS }, (_, id) => {
      const name = Buffer.from(String(id ** 5)).toString('base64')
      return format === 'csv' ? `${name},${id}@example.com\n` : `{"name":"${name}"}\n`
    })
    const text = `${format === 'csv' ? 'name,email\n' : ''}${rows.join('')}`
    const file = join(temporaryFolder(), 'users')
    writeFileSync(file, isPacked ? gzipSync(text) : text)
    const input = openInputFile(file, { terminal, signal: new AbortController().signal, isPacked })
    const { chunks } = input
    const records = format === 'csv' ? csvRecords(chunks, { file }) : ndjsonRecords(chunks)
    const progress = followRows(records, input.share)

    let done = 0
    for await (const some of progress.records) {
      for (const _ of some) {
        done++
        if (done % 101 !== 0 && done < ROWS - 1) continue
        const share = progress.shareOf(done) ?? 0
        // As far as rows are equally long, and equally well packed.
        expect(Math.abs(share - done / ROWS)).toBeLessThan(0.02)
        if (done < ROWS) expect(share).toBeLessThan(1)
      }
    }
    expect(done).toBe(ROWS)
    expect(progress.shareOf(ROWS)).toBe(1)
  },
)

test('followRows knows no share of a stream', async () => {
  async function* chunks(): AsyncGenerator<Buffer> {
    yield Buffer.from('{}\n{}\n')
  }
  const progress = followRows(ndjsonRecords(chunks()), () => undefined)
  for await (const some of progress.records) expect(some).toHaveLength(2)
  expect(progress.shareOf(1)).toBeUndefined()
})
