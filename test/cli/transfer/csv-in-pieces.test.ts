import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseColumnFlags } from '../../../src/cli/transfer/column-options.ts'
import { planCsv } from '../../../src/cli/transfer/csv-columns.ts'
import { openCsv } from '../../../src/cli/transfer/read-csv.ts'
import { SEED } from '../../support/faults.ts'

const field = fc.string({ unit: fc.constantFrom('a', ',', ';', '"', '\n', '\r', ' ', 'é', '😀') })

test('CSV is read as it was written, wherever a text of the file ends', async () => {
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
        const text = rows.join('')
        async function* texts(): AsyncGenerator<string> {
          for (let at = 0; at < text.length; at += piece) yield text.slice(at, at + piece)
        }
        const source = { file: 'users.csv', delimiter: undefined }
        const csv = await openCsv({ ...source, texts: texts(), hasEscapes: false })
        const plan = planCsv(csv, [], parseColumnFlags({}))
        const contents = []
        for await (const read of csv.rows)
          contents.push(...read.map(row => plan.recordOf(row).content))
        const expected = table
          .filter(row => row.some(text => text.trim() !== ''))
          .map(([name, email]) => ({ row: { ...(name && { name }), ...(email && { email }) } }))
        expect(contents).toEqual(expected)
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})
