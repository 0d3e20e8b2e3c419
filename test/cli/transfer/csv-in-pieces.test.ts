import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createCsvParser } from '../../../src/cli/transfer/csv-rows.ts'
import { SEED } from '../../support/faults.ts'

const field = fc.string({ unit: fc.constantFrom('a', ',', ';', '"', '\n', '\r', ' ', 'é', '😀') })

test('CSV is read as it was written, wherever a chunk of the file ends', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(field, { minLength: 2, maxLength: 4 })),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.constantFrom(',', ';', '\t'),
      fc.integer({ min: 1, max: 10 }),
      (table, end, delimiter, piece) => {
        const quoted = (text: string) =>
          text === '' || /^[aé ]+$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`
        const text = table.map(row => row.map(quoted).join(delimiter) + end).join('')
        const parser = createCsvParser(delimiter)
        const rows = []
        for (let at = 0; at < text.length; at += piece)
          rows.push(...parser.push(text.slice(at, at + piece)))
        rows.push(...parser.end())
        expect(parser.fault()).toBeUndefined()
        expect(rows.map(({ fields }) => fields)).toEqual(table)
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})
