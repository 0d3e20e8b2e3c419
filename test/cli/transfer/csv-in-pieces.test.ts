import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openCsv } from '../../../src/cli/transfer/read-csv.ts'
import { SEED } from '../../support/faults.ts'
import { readerOptions } from '../../support/transfer.ts'

const field = fc.string({ unit: fc.constantFrom('a', ',', ';', '"', '\n', '\r', ' ', 'é', '😀') })

test('CSV is read as it was written, wherever a text of the file ends', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(field, field), { maxLength: 4 }),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.constantFrom(',', ';', '\t'),
      fc.integer({ min: 1, max: 10 }),
      (table, end, delimiter, piece) => {
        const quoted = (text: string) =>
          /^[aé ]*$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`
        const lines = [['name', 'email'], ...table].map(
          row => row.map(quoted).join(delimiter) + end,
        )
        const text = lines.join('')
        const reader = openCsv(text, readerOptions('users.csv'))
        const pieces = text.match(new RegExp(`.{1,${piece}}`, 'gs')) ?? []
        const records = [...pieces.map(reader.push), ...reader.end()].flat()
        const expected = table
          .filter(row => row.some(text => text.trim() !== ''))
          .map(([name, email]) => ({ row: { name: name || undefined, email: email || undefined } }))
        expect(records.map(({ content }) => content)).toEqual(expected)
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})
