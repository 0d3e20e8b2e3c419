import { expect, test } from 'vitest'
import { csvRecords } from '../../src/cli/csv-records.ts'

test.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
])('csvRecords tells the line on which a row begins, whose lines end in %s', async (_name, end) => {
  const lines = [
    'name,email',
    '"Ann',
    '',
    'and more",a@example.com',
    '',
    'Bea,b@example.com',
    'Cid,c',
  ]
  async function* chunks(): AsyncGenerator<Buffer> {
    // Between any two bytes a chunk may end.
    for (const byte of Buffer.from(lines.join(end))) yield Buffer.of(byte)
  }
  const found: number[] = []
  for await (const records of csvRecords(chunks())) found.push(...records.map(({ line }) => line))
  expect(found).toEqual([2, 6, 7])
})
