import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type CsvRow, createCsvParser } from '../../../src/cli/transfer/csv-rows.ts'
import { SEED } from '../../support/faults.ts'

/** All rows of a text, given in pieces of this length, and the fault. */
function parse(text: string, { delimiter = ',', piece = text.length || 1 } = {}) {
  const parser = createCsvParser(delimiter)
  const rows: CsvRow[] = []
  for (let at = 0; at < text.length; at += piece)
    rows.push(...parser.push(text.slice(at, at + piece)))
  rows.push(...parser.end())
  return { rows: rows.map(({ line, fields }) => ({ line, fields })), fault: parser.fault() }
}

const field = fc.string({ unit: fc.constantFrom('a', ',', ';', '"', '\n', '\r', ' ', 'é', '😀') })

test('createCsvParser returns the written fields, wherever the text is cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(field, { minLength: 2, maxLength: 4 })),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.constantFrom(',', ';', '\t'),
      fc.nat({ max: 9 }),
      (table, end, delimiter, cut) => {
        const quoted = (text: string) =>
          text === '' || /^[aé ]+$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`
        const text = table.map(row => row.map(quoted).join(delimiter) + end).join('')
        const { rows, fault } = parse(text, { delimiter, piece: cut + 1 })
        expect(fault).toBeUndefined()
        expect(rows.map(({ fields }) => fields)).toEqual(table)
      },
    ),
    { numRuns: 2000, seed: SEED },
  )
})

test.each<[string, (string[] | undefined)[], string | undefined]>([
  ['', [], undefined],
  ['\n\r\n\r', [], undefined],
  ['a', [['a']], undefined],
  ['a,', [['a', '']], undefined],
  ['""', [['']], undefined],
  ['"a""b"\n', [['a"b']], undefined],
  ['a\n"b', [['a']], 'a quote is not closed in the row that begins at line 2'],
  ['a\nb"c\nd', [['a']], 'quotes do not match at line 2'],
  ['a\n"b"c\nd', [['a']], 'quotes do not match at line 2'],
  ['a\n"b\nc"d', [['a']], 'quotes do not match at line 3'],
])('createCsvParser of %j', (text, fields, fault) => {
  for (const piece of [1, 2, text.length || 1]) {
    const parsed = parse(text, { piece })
    expect(parsed.rows.map(row => row.fields)).toEqual(fields)
    expect(parsed.fault).toBe(fault)
  }
})

test.each([2 ** 22, 2 ** 20, 1000])(
  'createCsvParser, given %i characters at a time, skips a row of more than 1 MB',
  piece => {
    // Each é is two bytes, and the quotes are counted too.
    const longest = `"${'é'.repeat(2 ** 19 - 1)}"`
    const text = [
      longest,
      `${longest}x`.replace('"', '"y').replace('"x', 'x"'),
      `z${'x'.repeat(2 ** 20 - 1)}`,
      `"${'\n'.repeat(2 ** 20)}"`,
      'end',
    ].join('\n')
    const { rows, fault } = parse(text, { piece })
    expect(fault).toBeUndefined()
    expect(rows.map(row => row.fields?.[0]?.length)).toEqual([
      2 ** 19 - 1,
      undefined,
      2 ** 20,
      undefined,
      3,
    ])
    expect(rows.map(({ line }) => line)).toEqual([1, 2, 3, 4, 2 ** 20 + 5])
  },
)
