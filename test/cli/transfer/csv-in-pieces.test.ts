import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseColumnFlags } from '../../../src/cli/transfer/column-options.ts'
import { inputFormatOf } from '../../../src/cli/transfer/format.ts'
import { planColumns } from '../../../src/cli/transfer/plan-columns.ts'
import { CSV } from '../../../src/cli/transfer/read-csv.ts'
import { readRows } from '../../../src/cli/transfer/read-rows.ts'
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
        const lines = [['name', 'email'], ...table].map(
          row => row.map(quoted).join(delimiter) + end,
        )
        const text = lines.join('')
        async function* texts(): AsyncGenerator<string> {
          for (let at = 0; at < text.length; at += piece) yield text.slice(at, at + piece)
        }
        const file = 'users.csv'
        const rows = await readRows(CSV, { file, texts: texts() }, inputFormatOf(file, {}))
        const columns = parseColumnFlags({})
        const plan = await planColumns(rows, { columns, wantedRows: 1, say: () => {} })
        const contents = []
        for await (const chunk of plan.records)
          contents.push(...chunk.map(({ content }) => content))
        const expected = table
          .filter(row => row.some(text => text.trim() !== ''))
          .map(([name, email]) => ({ row: { ...(name && { name }), ...(email && { email }) } }))
        expect(contents).toEqual(expected)
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})
