import { expect, test } from 'vitest'
import { csvRecords } from '../../../src/cli/transfer/csv-records.ts'

test.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
])(
  'csvRecords returns the line on which a row begins, with lines that end in %s',
  async (_name, end) => {
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
    for await (const records of csvRecords(chunks(), { file: 'users.csv' }))
      found.push(...records.map(({ line }) => line))
    expect(found).toEqual([2, 6, 7])
  },
)
