import fc from 'fast-check'
import { expect, test } from 'vitest'
import { csvRecords } from '../../../src/cli/transfer/csv-records.ts'
import { SEED } from '../../support/faults.ts'

const field = fc.string({ unit: fc.constantFrom('a', ',', ';', '"', '\n', '\r', ' ', 'é', '😀') })

test('CSV is read as it was written, wherever a chunk of the file ends, also in a character', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(field, field), { maxLength: 4 }),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.constantFrom(',', ';', '\t'),
      fc.integer({ min: 1, max: 10 }),
      async (table, end, delimiter, piece) => {
        const quoted = (text: string) =>
          /^[aé ]*$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`
        const rows = [['name', 'email'], ...table].map(row => row.map(quoted).join(delimiter) + end)
        const bytes = Buffer.from(rows.join(''))
        async function* chunks(): AsyncGenerator<Buffer> {
          for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece)
        }
        const contents = []
        for await (const records of csvRecords(chunks(), { file: 'users.csv' }))
          contents.push(...records.map(({ content }) => content))
        const expected = table
          .filter(row => row.some(text => text.trim() !== ''))
          .map(([name, email]) => ({ row: { ...(name && { name }), ...(email && { email }) } }))
        expect(contents).toEqual(expected)
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})
